/* One cell taken apart: five stations on a line, then the same numbers at length. Every number comes from the server;
   only digits are chosen here.

   const arithmetic = arithmeticPanel(host, {onKey(column), file()}); arithmetic.update(value)
   value: a Board.AttentionValue */
import { button, el } from "../../../hf_attn/viz/web/core/dom.js";
import { named, number } from "../../../hf_attn/viz/web/core/format.js";
import { buildTable } from "../../../hf_attn/viz/web/core/table.js";
import { colourOf, css, numberOn, onLook, themeOf } from "../../../hf_attn/viz/web/core/theme.js";
import { takeRow } from "../../../hf_attn/viz/web/export/buttons.js";
import { miniStrip, numberStrip, paintSigned } from "../../../hf_attn/viz/web/plots/signed_colours.js";

const letter = (name, word = "") => [el("var", "", name), word ? `\u2002${word}` : ""];
const minus = "\u2212";

/* ---- the five stations ---- */

const chain = host => {
  const list = el("ol", "hf-chain");
  host.append(list);
  let painted = null;
  const station = (place, name, value, cls = "") =>
    el("li", cls, el("i", "hf-step-n", String(place)), el("span", "", ...name), el("output", "", ...[value].flat()));
  const paint = () => {
    const swatch = list.querySelector(".weight output");
    if (!swatch || painted === null) return;
    const theme = themeOf(list);
    const rgb = colourOf(theme, painted);
    swatch.style.background = css(rgb);
    swatch.style.color = numberOn(theme, rgb);
  };
  onLook(list, paint);
  const update = (/** @type {Board.AttentionValue} */ value) => {
    const line = value.cell.lines[value.cell.column];
    const blocked = !line.may_attend;
    const third = value.has_bias ? "positions, mask" : "mask";
    painted = line.weight;
    list.replaceChildren(
      station(1, [...letter("q"), "\u2009·\u2009", ...letter("k")], number(line.score, value.score_digits)),
      station(2, [value.scale ? `÷ √${value.width}` : "not scaled"], number(line.scaled)),
      station(3, [third], added(line, value)),
      station(4, ["softmax: the weight"], blocked ? "0" : number(line.weight, 3), "weight"),
      station(5, ["adds to the output"], [`${number(line.weight, 3)} × `, ...letter("v")]),
    );
    paint();
  };
  return { update };
};
const added = (/** @type {Board.KeyLine} */ line, /** @type {Board.AttentionValue} */ value) => {
  if (!line.may_attend) return `${minus} ∞`;
  if (!value.has_bias) return "+ 0";
  return `${line.bias < 0 ? minus : "+"} ${number(Math.abs(line.bias))}`;
};

/* ---- the row as a ledger: a line a key ---- */

const ledger = (host, onKey) => {
  const scroll = el("div", "hf-scroll");
  host.append(scroll);
  onLook(scroll, () => paintSigned(scroll));
  const line = (/** @type {Board.AttentionValue} */ value, i, ends) => {
    const { cell, cols } = value;
    const one = cell.lines[i];
    const chosen = i === cell.column;
    const row = el("tr", chosen ? "chosen" : one.may_attend ? "" : "blocked");
    const name = button(named(cols, i), () => onKey(i), "hf-keyname");
    name.setAttribute("aria-pressed", String(chosen));
    const bar = el("span", "bar");
    bar.style.width = `${(100 * one.weight) / ends.weight}%`;
    row.append(
      el("td", "", name),
      el("td", "num opt", number(one.score, value.score_digits)),
      el("td", "num", number(one.scaled)),
      el("td", "num opt hf-quiet", added(one, value)),
      el("td", "num opt", one.may_attend ? number(one.exp) : "0"),
      el("td", "w", el("div", "", el("span", "", bar), el("b", "", one.may_attend ? number(one.weight, 3) : "0"))),
      el("td", "mini opt", miniStrip(one.value, ends.value)),
      el("td", "mini", miniStrip(one.contribution, ends.output)),
    );
    row.onclick = () => onKey(i);
    return row;
  };
  const update = (/** @type {Board.AttentionValue} */ value) => {
    const { cell } = value;
    const most = numbers => Math.max(1e-9, ...numbers.flat().map(Math.abs));
    const ends = {
      weight: most(cell.lines.map(one => one.weight)),
      value: most(cell.lines.map(one => one.value)),
      output: most([cell.output, ...cell.lines.map(one => one.contribution)]),
    };
    const exp = cell.shift ? `exp(· ${minus} ${number(cell.shift)})` : "exp";
    const heads = [
      "key",
      [[...letter("q"), "·", ...letter("k")], "num opt"],
      [value.scale ? `÷ √${value.width}` : "no scale", "num"],
      [value.has_bias ? "add" : "mask", "num opt"],
      [exp, "num opt"],
      ["exp ÷ sum = weight", "w"],
      [letter("v"), "mini opt"],
      [["weight × ", ...letter("v")], "mini"],
    ];
    const total = cell.lines.some(one => one.may_attend) ? 1 : 0;
    const foot = el(
      "tr",
      "",
      el("td", "hf-quiet", "sum"),
      ...["opt", "", "opt"].map(cls => el("td", cls)),
      el("td", "num opt", number(cell.exp_sum)),
      el("td", "w", el("div", "", el("span"), el("b", "", number(total, 3)))),
      el("td", "opt"),
      el("td", "mini", miniStrip(cell.output, ends.output)),
    );
    const focused = document.activeElement?.closest?.(".hf-keyname") && scroll.contains(document.activeElement);
    const lines = el("tbody", "", ...cell.lines.map((_, i) => line(value, i, ends)));
    scroll.replaceChildren(buildTable("hf-ledger", heads, lines, el("tfoot", "", foot)));
    /** @type {HTMLElement} */
    const name = scroll.querySelector("tr.chosen .hf-keyname");
    if (focused) name?.focus();
    paintSigned(scroll);
  };
  return { update };
};

/* ---- the same in PyTorch, and what can be taken away ---- */

const LIMIT = 1e-5; // of a difference that rounding in float32 explains

const same = host => {
  const verdict = el("span", "hf-verdict");
  host.append(verdict);
  const small = x => (x ? x.toExponential(0).replace("-", minus) : "0");
  return (/** @type {Board.LargestDifference} */ { largest, where }) => {
    const apart = largest > LIMIT;
    verdict.className = "hf-verdict" + (apart ? " no" : "");
    const words = el(
      "span",
      "",
      "Same in PyTorch: ",
      el("code", "", "F.scaled_dot_product_attention"),
      ", max difference ",
    );
    words.append(el("b", "", small(largest)), apart ? `, at ${where}` : "");
    verdict.replaceChildren(el("i", apart ? "no" : "yes"), words);
  };
};

const csvOf = (/** @type {Board.AttentionValue} */ { cell, rows, cols }) => [
  ["query", rows[cell.row], "key", cols[cell.column]],
  ["number", "q", "k", "product"],
  ...cell.query.map((q, d) => [d + 1, q, cell.key[d], cell.products[d]]),
  ["key", "q·k", "scaled", "added", "may attend", "exp", "weight", ...cell.output.map((_, d) => `weight × v ${d + 1}`)],
  ...cell.lines.map((one, i) => [
    cols[i],
    one.score,
    one.scaled,
    one.bias,
    one.may_attend,
    one.exp,
    one.weight,
    ...one.contribution,
  ]),
  ["output", "", "", "", "", cell.exp_sum, "", ...cell.output],
];

/* ---- all of it ---- */

const stepHead = (host, places, title, ...note) => {
  const head = el("h3", "hf-step", ...places.map(place => el("i", "hf-step-n", String(place))), title);
  const said = el("span", "", ...note);
  head.append(said);
  host.append(head);
  return said;
};

const arithmeticPanel = (host, { onKey }) => {
  const section = el("section", "hf-panel hf-arithmetic");
  const pair = el("h2", "hf-pair");
  /** @type {Board.AttentionValue} */
  let current = null;
  host.append(section);
  section.append(pair);
  const stations = chain(section);
  stepHead(
    section,
    [1],
    "Dot product: multiply q and k entry by entry, then add",
    "below 0 ",
    el("i", "hf-signs"),
    " above 0",
  );
  const token = (/** @type {(value: Board.AttentionValue) => string[]} */ labels, /** @type {number} */ i) =>
    current ? named(labels(current), i) : "";
  const query = () => token(v => v.rows, current.cell.row);
  const key = () => token(v => v.cols, current.cell.column);
  const strip = numberStrip(section, () => `${query()} reads ${key()}, entry by entry`);
  const softmax = stepHead(section, [2, 3, 4], "Scale, mask, softmax: the whole row");
  const rows = ledger(section, onKey);
  stepHead(section, [5], "Weighted sum: what comes out");
  const output = numberStrip(section, () => `What ${query()} becomes`);
  const apart = el("p", "hf-hint");
  const foot = el("div", "hf-same");
  section.append(apart, foot);
  const told = same(foot);
  const take = takeRow({ file: () => "attention-cell", lines: () => csvOf(current) });
  foot.append(take.row, take.below);

  const tellBeside = (/** @type {Board.AttentionValue} */ { beside, cell }) => {
    const here = beside && beside.row === cell.row ? beside : null;
    apart.hidden = !here;
    if (here)
      apart.textContent =
        `“${here.word}” has the same input vector in “${here.sentence}”. Its output there differs by ` +
        `${number(here.apart, 3)}.`;
    return here ? [{ label: "other sentence", values: here.output, scale: "y" }] : [];
  };
  const update = (/** @type {Board.AttentionValue} */ value) => {
    current = value;
    const { cell } = value;
    const line = cell.lines[cell.column];
    pair.replaceChildren(el("span", "hf-q", query()), " reads ", el("span", "hf-k", key()));
    stations.update(value);
    const total = number(line.score, value.score_digits);
    strip.update([
      { name: () => letter("q", query()), label: "q", role: "q", values: cell.query, scale: "qk" },
      { name: () => letter("k", key()), label: "k", role: "k", values: cell.key, scale: "qk" },
      { label: "product", values: cell.products, digits: cell.product_digits, total },
    ]);
    softmax.textContent = line.may_attend
      ? `${number(line.exp)} ÷ ${number(cell.exp_sum)} = ${number(line.weight, 3)}`
      : `“${query()}” may not read “${key()}”`;
    rows.update(value);
    output.update([
      { name: () => letter("y", query()), label: "y", role: "q", values: cell.output },
      ...tellBeside(value),
    ]);
    told(value.same);
    take.refresh();
  };
  return { update };
};

export { arithmeticPanel };
