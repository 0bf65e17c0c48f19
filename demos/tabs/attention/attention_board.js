/* The Attention tab's board: the map of one head, one cell's arithmetic, the text's figures. A chosen cell is sent
   to Python as the event pick {id, row, column, head}; its arithmetic comes back alone, a Board.AttentionCell. The
   board takes a Board.AttentionValue. */
import { buildPanel, el } from "../../../hf_attn/viz/web/core/dom.js";
import { keepLines } from "../../../hf_attn/viz/web/export/buttons.js";
import { mapView } from "../../../hf_attn/viz/web/plots/long_heatmap.js";
import { tokenStrip } from "../../../hf_attn/viz/web/plots/token_strip.js";
import { arithmeticPanel } from "./arithmetic.js";
import { printedPanel } from "./textbook_figures.js";

const PICK_MS = 60; // an arrow key held down is one choice

const mapPanel = (host, onCell) => {
  const panel = buildPanel(host, "Attention weights", { cls: "hf-map-panel" });
  const notice = el("p", "hf-notice");
  const mapHost = el("div");
  const map = mapView(mapHost, {
    name: "Attention weights",
    onSelect: at => at && onCell({ row: at.r, column: at.c, head: null }),
  });
  const strips = el("div", "hf-view");
  const readers = tokenStrip(strips, { onPick: row => onCell({ row, column: null, head: null }) });
  panel.body.append(notice, strips, mapHost);
  panel.footer.hidden = false;
  panel.footer.append(map.exports(() => "attention-weights"));
  const update = (/** @type {Board.AttentionValue} */ value, /** @type {{row: number, column: number}} */ at) => {
    const square = value.rows.join("\n") === value.cols.join("\n");
    panel.rename("Attention weights", `${value.title}; choose a cell, or move with the arrow keys`);
    notice.hidden = !value.notice;
    notice.textContent = value.notice;
    readers.update({
      labels: value.rows,
      weights: square ? value.weights[at.row] : null,
      chosen: at.row,
      name: "The token that reads",
    });
    const { rows, cols, weights: values, allowed, truth } = value;
    const padding = value.padding.some(Boolean) ? value.padding : null;
    map.update({ rows, cols, values, allowed, padding, truth, selected: { r: at.row, c: at.column } });
  };
  return { update };
};

const attention_board = (element, trigger) => {
  const root = element.querySelector(".hf-attention");
  /** @type {Board.AttentionValue} */
  let value = null;
  let at = null; // the chosen cell: it moves at once, its arithmetic follows
  let sending = null;
  const choose = ({ row, column, head }) => {
    at = { row: row ?? at.row, column: column ?? at.column };
    map.update(value, at);
    clearTimeout(sending);
    sending = setTimeout(() => trigger("pick", { id: value.id, ...at, head }), PICK_MS);
  };
  const map = mapPanel(root, choose);
  const arithmetic = arithmeticPanel(root, { onKey: column => choose({ row: null, column, head: null }) });
  const printed = printedPanel(root, { onFigure: choose });
  const explain = (/** @type {Board.ExplainedCell} */ cell) => {
    value = { ...value, cell };
    keepLines(element, cell);
    arithmetic.update(value);
  };
  const update = (/** @type {Board.AttentionValue} */ next) => {
    if (!next) return;
    value = next;
    at = { row: value.cell.row, column: value.cell.column };
    keepLines(element, value.cell); // before the map, which shows its button where there are lines
    map.update(value, at);
    explain(value.cell);
    printed.update(value);
  };
  /** The arithmetic of a cell; another one may be chosen by now. */
  const receive = (/** @type {Board.AttentionCell} */ { cell }) => {
    if (cell.row === at.row && cell.column === at.column) explain(cell);
  };
  /** A cell of a link's; Python explains it, and has its map by then. */
  const restore = ({ row, column }) => choose({ row, column, head: null });
  return { update, receive, state: () => ({ row: at.row, column: at.column }), restore };
};

export { attention_board };
