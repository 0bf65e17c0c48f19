"use strict";
/* What a panel holds, to take away: buttons at its foot for the picture and the numbers, and the numbers as a table.

   const refresh = hfAttn.takeAway(panel, {picture, file, lines, caption}); refresh() after each update
   options  picture    with png(file) and svg(file); left out where there is none
            file()     the files' name without its ending
            lines()    [heads, …rows], each a list of words or numbers; the first of a row is its head
            caption()  of the table */
(hfAttn => {
  const { el, number, button, csv } = hfAttn;

  const show = value => (typeof value === "number" ? number(value, Number.isInteger(value) ? 0 : 3) : String(value));
  const plain = value => (typeof value === "number" ? value : String(value).replace(/\u202f/g, ""));
  const header = (text, scope) => Object.assign(el("th", "", show(text)), { scope });
  const row = ([first, ...cells]) =>
    el("tr", "", header(first, "row"), ...cells.map(text => el("td", "", show(text))));

  const numbers = ([heads, ...rows], caption) => {
    const head = el("thead", "", el("tr", "", ...heads.map(text => header(text, "col"))));
    const table = el("table", "hf-numbers", el("caption", "", caption), head, el("tbody", "", ...rows.map(row)));
    const scroll = el("div", "hf-scroll", table);
    scroll.tabIndex = 0;
    scroll.setAttribute("role", "region");
    scroll.setAttribute("aria-label", `${caption}, as a table`);
    return scroll;
  };

  hfAttn.takeAway = (panel, { picture, file, lines, caption }) => {
    const host = el("div");
    let open = false;
    const refresh = () => host.replaceChildren(...(open ? [numbers(lines(), caption())] : []));
    const toggle = button("Show as table", () => {
      open = !open;
      toggle.setAttribute("aria-expanded", String(open));
      toggle.textContent = open ? "Hide table" : "Show as table";
      refresh();
    }, "");
    toggle.setAttribute("aria-expanded", "false");
    const saveCsv = () => {
      const blob = new Blob([csv(lines().map(line => line.map(plain)))], { type: "text/csv" });
      hfAttn.save(`${file()}.csv`, blob);
    };
    const pictures = ["PNG", "SVG"].map(kind => button(kind, () => picture[kind.toLowerCase()](file()), ""));
    panel.footer.hidden = false;
    panel.footer.append(el("div", "hf-take", ...(picture ? pictures : []), button("CSV", saveCsv, ""), toggle));
    panel.section.append(host);
    return refresh;
  };
})((window.hfAttn ||= {}));
