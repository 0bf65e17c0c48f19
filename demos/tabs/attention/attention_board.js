/* The Attention tab's board: tokens joined by curves, what grows from the answer, the same weights as a map with one
   line of arithmetic, and under Unfold all of it; the text's figures. A chosen cell is sent to Python as the event pick
   {id, row, column, head}; its arithmetic comes back alone, a Board.AttentionCell. The board takes a
   Board.AttentionValue. */
import { buildPanel, button, el, live } from "../../../hf_attn/viz/web/core/dom.js";
import { clip, named, number, range, shown, sum } from "../../../hf_attn/viz/web/core/format.js";
import { colourOf, css, numberOn, onLook, themeOf } from "../../../hf_attn/viz/web/core/theme.js";
import { keepLines } from "../../../hf_attn/viz/web/export/buttons.js";
import { mapView } from "../../../hf_attn/viz/web/plots/long_heatmap.js";
import { parseTree } from "../../../hf_attn/viz/web/plots/parse_tree.js";
import { tokenCurves } from "../../../hf_attn/viz/web/plots/token_curves.js";
import { arithmeticPanel } from "./arithmetic.js";
import { printedPanel } from "./textbook_figures.js";

const PICK_MS = 60; // an arrow key held down is one choice
const STEP_MS = 600; // between two symbols, where all are walked through
const CELL = 42; // px at most, and of many rows
const TALL = 312; // px for all of them
const MANY = 28; // rows: from here on it is taller
const LEVEL = 56; // px from one level of the tree to the next

/** Where the row's largest weight stands. */
const strongest = row => row.indexOf(Math.max(...row));

/* ---- the left half: who looks where, and what grows from it ---- */

/** The likeliest tokens of a row as bars, or those of all rows; with a word taken away, two bars each. */
const bars = host => {
  const [heading, list] = [el("h3", "hf-under-title"), el("ol", "hf-likeliest")];
  host.append(heading, list);
  const line = (name, shares, cls = "") => {
    const lengths = shares.map(p => {
      const bar = el("i");
      bar.style.width = `${100 * p}%`;
      return bar;
    });
    const figures = shares.map(p => el("span", "", number(p, 3)));
    return el("li", cls, el("b", "", clip(shown(name), 12)), el("div", "", ...lengths), ...figures);
  };
  return (/** @type {Board.Likeliest} */ { title, of, rows, without }, /** @type {number} */ row, label) => {
    const lines = (without ? without.rows[row] : (rows[row] ?? rows.at(-1))) ?? [];
    const named = without ? `“${clip(shown(without.word), 12)}”` : "";
    const note = without ? `with ${named}, and without it` : `the likeliest ${lines.length} of ${of}`;
    const behind = row < rows.length - 1 ? ` behind “${clip(shown(label), 12)}”` : "";
    heading.replaceChildren(
      title,
      behind,
      " ",
      el("small", "", lines.length ? note : `nothing follows ${named} without it`),
    );
    const parts = range((lines[0]?.length ?? 1) - 1);
    const others = parts.map(i => Math.max(0, 1 - sum(lines.map(one => Number(one[i + 1])))));
    const rest = lines.length && of > lines.length ? [line("others", others, "rest")] : [];
    list.classList.toggle("both", Boolean(without));
    list.replaceChildren(...lines.map(([name, ...shares]) => line(name, shares)), ...rest);
  };
};

/** What the model makes of the input, as far as it is written. */
const resultView = host => {
  const said = el("p", "hf-written");
  const treeHost = el("div");
  const barsHost = el("div");
  const tree = parseTree(treeHost, { level: LEVEL });
  const fillBars = bars(barsHost);
  host.append(said, treeHost, barsHost);
  return (/** @type {Board.AttentionValue} */ { result, rows, writes }, /** @type {number} */ row) => {
    host.hidden = !result || !(result.tree || result.likeliest || result.line);
    if (host.hidden) return;
    const isAll = row === rows.length - 1;
    const progress = isAll ? "All written" : `Written so far: ${row + 1} of ${rows.length}`;
    said.textContent = result.likeliest ? "" : writes ? `${progress}. ${isAll ? result.line : ""}` : result.line;
    said.hidden = !said.textContent;
    treeHost.hidden = !result.tree;
    tree.update(result.tree, writes ? row : null);
    barsHost.hidden = !result.likeliest;
    if (result.likeliest) fillBars(result.likeliest, row, rows[row]);
  };
};

const curvesPanel = (host, onCell) => {
  const panel = buildPanel(host, "Where each token looks", { cls: "hf-curves-panel" });
  const curvesHost = el("div");
  const under = el("div", "hf-under");
  const said = live();
  const curves = tokenCurves(curvesHost, { onPick: row => pick(row) });
  const showResult = resultView(under);
  panel.body.append(curvesHost, under, said.element);
  /** @type {Board.AttentionValue} */
  let value = null;
  let at = null;
  let walk = null;
  const pick = row => {
    stop();
    onCell({ row, column: strongest(value.weights[row]), head: null });
  };
  const stop = () => {
    clearInterval(walk);
    walk = null;
    again.textContent = "";
    again.append(el("i", "hf-play"), value?.writes ? "Write it again" : "Read it again");
  };
  /** Walk through all rows, and end where it began. */
  const start = () => {
    if (walk) return stop();
    const [first, count] = [at.row, value.rows.length];
    let steps = 0;
    const step = () => {
      const row = steps < count ? steps : first;
      onCell({ row, column: strongest(value.weights[row]), head: null });
      if (steps++ === count) stop();
    };
    step();
    walk = setInterval(step, STEP_MS);
    again.replaceChildren("Stop");
  };
  const again = button("", () => start(), "hf-quiet-btn");
  panel.header.append(again);
  const update = (/** @type {Board.AttentionValue} */ next, /** @type {{row: number, column: number}} */ now) => {
    const isNew = value?.id !== next.id || value?.rows !== next.rows;
    [value, at] = [next, now];
    if (isNew) stop();
    const { rows, cols, weights, allowed, writes } = value;
    const name = writes ? "Written tokens: choose one" : "Tokens that read: choose one";
    const gone = value.result?.likeliest?.without?.place ?? null;
    curves.update({ rows, cols, weights, allowed, row: at.row, write: writes, name, gone });
    said.say(curves.words());
    showResult(value, at.row);
  };
  return { update };
};

/* ---- the right half: the map, and one line of arithmetic ---- */

const mapPanel = (host, onCell, onUnfold) => {
  const panel = buildPanel(host, "The same weights as a map", { cls: "hf-map-panel" });
  const notice = el("p", "hf-notice");
  const mapHost = el("div");
  const map = mapView(mapHost, {
    name: "Attention weights",
    onSelect: at => at && onCell({ row: at.r, column: at.c, head: null }),
  });
  const [pair, steps, result] = [el("span", "hf-pair"), el("span", "hf-in-short"), el("output")];
  const unfold = button("Unfold", () => onUnfold(), "hf-quiet-btn hf-unfold");
  const line = el("div", "hf-read-line", pair, steps, result, unfold);
  panel.body.append(notice, mapHost, line);
  panel.footer.hidden = false;
  panel.footer.append(map.exports(() => "attention-weights"));
  let painted = 0;
  const paint = () => {
    const theme = themeOf(result);
    const rgb = colourOf(theme, painted);
    result.style.background = css(rgb);
    result.style.color = numberOn(theme, rgb);
  };
  onLook(result, paint);
  const update = (/** @type {Board.AttentionValue} */ value, /** @type {{row: number, column: number}} */ at) => {
    panel.rename("The same weights as a map", value.place);
    notice.hidden = !value.notice;
    notice.textContent = value.notice;
    const { rows, cols, weights: values, allowed, truth } = value;
    const padding = value.padding.some(Boolean) ? value.padding : null;
    const maxCell = Math.min(CELL, Math.floor(TALL / Math.min(rows.length, MANY)));
    const name = ["Attention weights", value.place].filter(Boolean).join(", ");
    const selected = { r: at.row, c: at.column };
    map.update({ name, rows, cols, values, allowed, padding, truth, maxCell, selected });
  };
  /** One cell's arithmetic in a line. */
  const explain = (/** @type {Board.AttentionValue} */ value) => {
    const { cell, rows, cols } = value;
    const one = cell.lines[cell.column];
    pair.replaceChildren(el("b", "hf-q", named(rows, cell.row)), " reads ", el("b", "hf-k", named(cols, cell.column)));
    const scaled = value.scale ? ` ÷ √${value.width}` : "";
    const bias = value.has_bias ? " + positions" : "";
    steps.textContent = one.may_attend
      ? `${number(one.score, value.score_digits)}${scaled}${bias} → softmax →`
      : "masked: it may not →";
    painted = one.may_attend ? one.weight : 0;
    result.textContent = number(painted, 3);
    paint();
  };
  const unfolded = isOpen => {
    unfold.textContent = isOpen ? "Fold" : "Unfold";
    unfold.setAttribute("aria-expanded", String(isOpen));
  };
  unfolded(false);
  return { update, explain, unfolded, lines: map.lines, drawLines: map.drawLines };
};

const attention_board = (element, trigger) => {
  const root = element.querySelector(".hf-attention");
  /** @type {Board.AttentionValue} */
  let value = null;
  let at = null; // the chosen cell: it moves at once, its arithmetic follows
  let sending = null;
  const choose = ({ row, column, head }) => {
    at = { row: row ?? at.row, column: column ?? at.column };
    show();
    clearTimeout(sending);
    sending = setTimeout(() => trigger("pick", { id: value.id, ...at, head }), PICK_MS);
  };
  const story = el("div", "hf-story");
  root.append(story);
  const curves = curvesPanel(story, choose);
  const map = mapPanel(story, choose, () => unfold(!isOpen));
  const folded = el("div", "hf-folded");
  root.append(folded);
  const arithmetic = arithmeticPanel(folded, { onKey: column => choose({ row: null, column, head: null }) });
  let isOpen = false;
  const unfold = open => {
    isOpen = open;
    folded.hidden = !isOpen;
    map.unfolded(isOpen);
    if (isOpen) folded.scrollIntoView({ block: "nearest" });
  };
  unfold(false);
  const printed = printedPanel(root, { onFigure: choose });
  const show = () => {
    curves.update(value, at);
    map.update(value, at);
  };
  const explain = (/** @type {Board.ExplainedCell} */ cell) => {
    value = { ...value, cell };
    map.explain(value);
    keepLines(element, cell);
    arithmetic.update(value);
  };
  const update = (/** @type {Board.AttentionValue} */ next) => {
    if (!next) return;
    value = next;
    at = { row: value.cell.row, column: value.cell.column };
    keepLines(element, value.cell); // before the map, which shows its button where there are lines
    show();
    explain(value.cell);
    printed.update(value);
  };
  /** The arithmetic of a cell; another one may be chosen by now. */
  const receive = (/** @type {Board.AttentionCell} */ { cell }) => {
    if (cell.row === at.row && cell.column === at.column) explain(cell);
  };
  /** A cell of a link's; Python explains it, and has its map by then. */
  const restore = ({ row, column, unfolded = false, lines = false }) => {
    unfold(Boolean(unfolded));
    map.drawLines(Boolean(lines));
    choose({ row, column, head: null });
  };
  const state = () => ({ row: at.row, column: at.column, unfolded: isOpen, lines: map.lines() });
  return { update, receive, state, restore };
};

export { attention_board };
