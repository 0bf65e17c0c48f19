/* What a view holds, to take away: the picture, the numbers, the view as one file, the lines of Python that give the
   same, behind one Save button; and the numbers as a table.

   const take = takeRow({picture, file, lines, caption, arrays, page, python, table}); take.row are the buttons,
   take.below is what opens under the view; take.refresh() after each update. Of a panel with a head a row at its foot
   is seen at the right of the head, and reached behind the view
   const refresh = takeAway(panel, {…}) puts them into a panel
   options  picture    with png(file) and svg(file); left out where there is none
            file()     the files' name without its ending
            lines()    [heads, …rows], each a list of words or numbers; the first of a row is its head
            caption()  of the table; left out where there is no table, and no page but page()
            table()    a table of its own, in place of that of the lines; null where the view is one already
            arrays()   what the .npz holds, as npz takes it; left out where there are no maps
            of         what the numbers are, in the menu: "these numbers"
            page()     {kind, title, value} as pageOf takes them; else the panel's pictures with the lines
            figure()   of that page: {title, drawings}, where they are not the whole panel's
            python(text)   the board's lines as this view has them

   numbersTable([heads, …rows], caption, {name, foot})   such a table in a region that scrolls, which name calls
   tableButton(host, build, words)   {press, refresh}: what shows build() in the host, and hides it; until then
   it says words() */
import { button, copyText, el, save, scrollRegion, write } from "../core/dom.js";
import { csv, number } from "../core/format.js";
import { inputAt, keepValue, keptAt, originAt } from "../core/kept.js";
import { buildTable, cells, headCell } from "../core/table.js";
import { npz } from "./npz.js";
import { saveMenu } from "./save_menu.js";
import { drawingsIn, pageOf } from "./single_page.js";

const show = value => (typeof value === "number" ? number(value, Number.isInteger(value) ? 0 : 3) : String(value));
const plain = value => (typeof value === "number" ? value : String(value).replace(/\u202f/g, ""));
const row = ([first, ...others]) => el("tr", "", headCell("row", show(first)), ...cells("", ...others.map(show)));

const numbersTable = ([heads, ...rows], caption, { name = caption, foot = null } = {}) => {
  const table = buildTable("hf-numbers", heads.map(show), el("tbody", "", ...rows.map(row)));
  table.createCaption().append(caption);
  if (foot) table.append(el("tfoot", "", row(foot)));
  return scrollRegion(`${name}, as a table that scrolls sideways`, "", table);
};

/* ---- lines of Python: a board's, seen by every view inside it ---- */

/** Keep a part's own lines for every view inside it. */
const keepLines = keepValue;

const pythonLines = (near, change) => {
  const [code, said] = [el("pre", "hf-code"), el("span", "hf-quiet")];
  const hide = button("Hide lines", () => (box.hidden = true), "");
  const box = el("div", "", el("div", "hf-take hf-copied", said, hide), code);
  code.tabIndex = 0;
  code.setAttribute("aria-label", "Lines of Python");
  said.setAttribute("role", "status");
  box.hidden = true;
  const lines = () => {
    const text = keptAt(near, "python");
    return text && change ? change(text) : text;
  };
  const copy = async () => {
    refresh();
    box.hidden = false;
    box.scrollIntoView({ block: "nearest" });
    said.textContent = (await copyText(code.textContent, code)) ? "Copied" : "Press Ctrl+C";
  };
  const refresh = () => {
    const text = lines();
    if (!text) box.hidden = true;
    if (code.textContent === text) return;
    code.textContent = text;
    said.textContent = "";
  };
  return { box, copy, lines, refresh };
};

/* ---- the row of buttons ---- */

const tableButton = (host, build, words = () => "Show as table") => {
  let open = false;
  const refresh = () => {
    write(press, open ? "Hide table" : words());
    press.title = press.textContent;
    host.replaceChildren(...(open ? [build()] : []));
  };
  const press = button(
    words(),
    event => {
      open = !open;
      press.setAttribute("aria-expanded", String(open));
      refresh();
      if (open && event.isTrusted) host.scrollIntoView({ block: "nearest" });
    },
    "",
  );
  press.setAttribute("aria-expanded", "false");
  press.dataset.opens = "table";
  return { press, refresh };
};

const titleOf = node => node.closest(".hf-panel")?.querySelector("h2")?.firstChild?.textContent.trim() || "hf_attn";

/** A row at the foot of a panel with a head becomes the panel's own, which its style puts beside the head. */
const rise = row => {
  const foot = row.parentElement;
  const panel = foot?.localName === "footer" ? row.closest(".hf-panel") : null;
  if (panel?.querySelector(":scope > header")) foot.before(row);
};

const takeRow = options => {
  const { picture, file, lines, caption, arrays, of = "these numbers" } = options;
  const row = el("div", "hf-take hf-takes");
  const tableHost = el("div");
  const python = pythonLines(row, options.python);
  const buildNumbers = options.table || (() => numbersTable(lines(), caption()));
  const table = caption && options.table !== null ? tableButton(tableHost, buildNumbers) : null;
  const put = (ending, blob) => save(`${file()}.${ending}`, blob);
  const figure = () => {
    const whole = () => ({ drawings: drawingsIn(row.closest(".hf-panel")) });
    const { title = titleOf(row), drawings } = (options.figure || whole)();
    return { kind: "figure", title, value: { drawings, lines: lines(), caption: caption() } };
  };
  const savePage = () => {
    const { kind, title, value } = (options.page || figure)();
    const kept = { python: python.lines(), title: inputAt(row), origin: originAt(row) };
    const text = pageOf(kind, title, { ...value, ...kept });
    put("html", new Blob([text], { type: "text/html" }));
  };
  const saveLines = () => put("csv", new Blob([csv(lines().map(line => line.map(plain)))], { type: "text/csv" }));
  const rows = [
    picture && { name: "PNG", note: "with title and legend", act: () => picture.png(file()) },
    picture && { name: "SVG", note: "to edit", act: () => picture.svg(file()) },
    lines && { name: "CSV", note: of, act: saveLines },
    arrays && { name: "NPZ", note: `${of}, for NumPy`, act: () => put("npz", npz(arrays())) },
    (options.page || caption) && { name: "HTML", note: "one page, works offline", act: savePage },
    { name: "Python", note: "the same in hf_attn", act: python.copy, group: "Copy", shown: python.lines },
  ].filter(Boolean);
  const menu = saveMenu(rows);
  row.append(...[table?.press, menu].filter(Boolean));
  const refresh = () => {
    rise(row);
    python.refresh();
    table?.refresh();
  };
  return { row, below: el("div", "hf-taken", python.box, tableHost), refresh };
};

const takeAway = (panel, options) => {
  const take = takeRow(options);
  panel.footer.hidden = false;
  panel.footer.append(take.row);
  panel.section.append(take.below);
  rise(take.row);
  return take.refresh;
};

export { keepLines, numbersTable, tableButton, takeAway, takeRow };
