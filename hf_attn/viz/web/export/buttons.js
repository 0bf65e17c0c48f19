/* What a view holds, to take away: the picture, the numbers, the view as one file, the lines of Python that give the
   same, and the numbers as a table. On a phone the buttons fold behind one.

   const take = takeRow({picture, file, lines, caption, arrays, page, python, table}); take.row are the buttons,
   take.below is what opens under the view; take.refresh() after each update
   const refresh = takeAway(panel, {…}) puts them at a panel's foot
   options  picture    with png(file) and svg(file); left out where there is none
            file()     the files' name without its ending
            lines()    [heads, …rows], each a list of words or numbers; the first of a row is its head
            caption()  of the table; left out where there is no table, and no page but page()
            table()    a table of its own, in place of that of the lines; null where the view is one already
            arrays()   what the .npz holds, as npz takes it; left out where there are no maps
            page()     {kind, title, value} as pageOf takes them; else the panel's pictures with the lines
            figure()   of that page: {title, drawings}, where they are not the whole panel's
            python(text)   the board's lines as this view has them

   numbersTable([heads, …rows], caption, {name, foot})   such a table in a region that scrolls, which name calls
   tableButton(host, build, words)   {press, refresh}: what shows build() in the host, and hides it; until then
   it says words()

   keepLines(element, value) keeps the board's value.python for every view inside the element. */
import { button, copyText, el, save, scrollRegion, write } from "../core/dom.js";
import { csv, number } from "../core/format.js";
import { buildTable, cells, headCell } from "../core/table.js";
import { npz } from "./npz.js";
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

const kept = new WeakMap();
const keepLines = (element, value) => {
  if (value === null || value === undefined) kept.delete(element);
  else if (typeof value.python === "string") kept.set(element, value.python);
};
const linesAt = node => {
  while (node && !kept.has(node)) node = node.parentElement;
  return node ? kept.get(node) : "";
};

const pythonButton = (near, change) => {
  const code = el("pre", "hf-code");
  code.tabIndex = 0;
  code.setAttribute("aria-label", "Lines of Python");
  code.hidden = true;
  const press = button(
    "Copy as Python",
    async () => {
      refresh();
      code.hidden = false;
      press.setAttribute("aria-expanded", "true");
      press.textContent = (await copyText(code.textContent, code)) ? "Copied" : "Press Ctrl+C";
    },
    "",
  );
  press.setAttribute("aria-expanded", "false");
  press.hidden = true;
  const refresh = () => {
    const lines = linesAt(near());
    const text = lines && change ? change(lines) : lines;
    press.hidden = !text;
    if (!text) code.hidden = true;
    if (code.textContent === text) return;
    code.textContent = text;
    press.textContent = "Copy as Python";
  };
  return { press, code, refresh };
};

/* ---- the row of buttons ---- */

const foldButton = take => {
  const fold = button(
    "Save",
    () => {
      const isOpen = take.classList.toggle("open");
      fold.setAttribute("aria-expanded", String(isOpen));
    },
    "hf-take-fold",
  );
  fold.setAttribute("aria-expanded", "false");
  return fold;
};

const tableButton = (host, build, words = () => "Show as table") => {
  let open = false;
  const refresh = () => {
    write(press, open ? "Hide table" : words());
    host.replaceChildren(...(open ? [build()] : []));
  };
  const press = button(
    words(),
    () => {
      open = !open;
      press.setAttribute("aria-expanded", String(open));
      refresh();
    },
    "",
  );
  press.setAttribute("aria-expanded", "false");
  press.dataset.opens = "table";
  return { press, refresh };
};

const titleOf = node => node.closest(".hf-panel")?.querySelector("h2")?.firstChild?.textContent.trim() || "hf_attn";

const takeRow = options => {
  const { picture, file, lines, caption, arrays, python } = options;
  const take = el("div", "hf-take hf-takes");
  const tableHost = el("div");
  const code = pythonButton(() => take, python);
  const buildNumbers = options.table || (() => numbersTable(lines(), caption()));
  const table = caption && options.table !== null ? tableButton(tableHost, buildNumbers) : null;
  const put = (ending, blob) => save(`${file()}.${ending}`, blob);
  const figure = () => {
    const whole = () => ({ drawings: drawingsIn(take.closest(".hf-panel")) });
    const { title = titleOf(take), drawings } = (options.figure || whole)();
    return { kind: "figure", title, value: { drawings, lines: lines(), caption: caption() } };
  };
  const savePage = () => {
    const { kind, title, value } = (options.page || figure)();
    const text = pageOf(kind, title, { ...value, python: code.code.textContent });
    put("html", new Blob([text], { type: "text/html" }));
  };
  const kinds = {
    PNG: picture && (() => picture.png(file())),
    SVG: picture && (() => picture.svg(file())),
    CSV: lines && (() => put("csv", new Blob([csv(lines().map(line => line.map(plain)))], { type: "text/csv" }))),
    NPZ: arrays && (() => put("npz", npz(arrays()))),
    HTML: (options.page || caption) && savePage,
  };
  const offered = Object.entries(kinds).filter(([, save]) => save);
  const words = el("span", "", code.press, table?.press); // one does not stand alone on a line of its own
  take.append(foldButton(take), ...offered.map(([name, save]) => button(name, save, "")), words);
  const refresh = () => {
    code.refresh();
    table?.refresh();
  };
  return { row: take, below: el("div", "hf-taken", code.code, tableHost), refresh };
};

const takeAway = (panel, options) => {
  const take = takeRow(options);
  panel.footer.hidden = false;
  panel.footer.append(take.row);
  panel.section.append(take.below);
  return take.refresh;
};

export { keepLines, numbersTable, tableButton, takeAway, takeRow };
