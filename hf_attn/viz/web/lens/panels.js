/* The lens's two panels: all heads at a glance, and one head with its tokens, its map and what stands beside it.

   lensGrid(host, board) and lensMap(host, board) → {update(view)}; board holds what they do, the view what
   they show: both are described in explore_board.js */
import { buildPanel, buildSegment, buildSlider, buildSwitch, el } from "../core/dom.js";
import { count, mean, NO_ATTENTION, number, range } from "../core/format.js";
import { takeHeads } from "../export/all_heads.js";
import { headGrid } from "../plots/head_grid.js";
import { mapView } from "../plots/long_heatmap.js";
import { tokenStrip } from "../plots/token_strip.js";
import { lensFacts, nameAt } from "./facts.js";

/** @import {LensData, LensView} from "./explore_board.js" */

const TITLES = {
  encoder: "encoder self-attention",
  decoder: "decoder self-attention",
  cross: "cross-attention, written symbols read the input",
};

const lensGrid = (host, board) => {
  const { pick, chooseKind } = board;
  const panel = buildPanel(host, "All heads at a glance", {
    note: "rows are layers, columns are heads",
    cls: "hf-glance",
  });
  const empty = el("p", "hf-blank", "The maps of every head will be drawn here.");
  const gridHost = el("div");
  const kinds = buildSegment("Which maps", chooseKind);
  const grid = headGrid(gridHost, { onPick: (layer, head) => pick({ layer, head, mean: false }) });
  panel.header.append(kinds.element);
  panel.body.append(empty, gridHost);
  const take = takeHeads(panel, board);
  const update = (/** @type {LensView} */ { data, kind, kinds: names, layer, head, mean, silent }) => {
    kinds.element.hidden = names.length < 2;
    kinds.update(names, names.indexOf(kind));
    empty.hidden = Boolean(data);
    empty.textContent = silent ? "No attention, no heads." : "The maps of every head will be drawn here.";
    gridHost.hidden = !data;
    if (data) grid.update({ ...data, layer, head, wholeRow: mean });
    take(data, kind);
  };
  return { update };
};

/* ---- small weights, the sink, the mean of a layer ---- */

const sieveRow = (host, board) => {
  const value = el("b");
  const floor = buildSlider("hide below", 0, 0.5, 0.01, v => board.sieve({ floor: v }));
  const sink = buildSwitch("Hide the first token, renormalise", sink => board.sieve({ sink }));
  const mean = buildSwitch("Mean of the layer's heads", mean => board.pick({ mean }));
  host.append(el("div", "hf-sieve", el("label", "", "hide below ", floor.element, value), sink.label, mean.label));
  return (/** @type {LensView} */ view) => {
    value.textContent = number(view.sieve.floor);
    floor.update(view.sieve.floor);
    sink.input.checked = view.sieve.sink;
    mean.input.checked = view.mean;
    mean.label.hidden = view.data.maps[0].length < 2;
    sink.label.hidden = Boolean(view.data.from?.[1]); // the first token is not in this window
  };
};

/* ---- which window of a long input ---- */

const windowRow = (host, board) => {
  const why = el("p", "hf-window-why");
  const axes = ["row", "column"].map(axis => {
    const segment = buildSegment(axis === "row" ? "Which queries" : "Which keys", i => board.move(axis, i));
    return { axis, segment };
  });
  const [rows, columns] = axes;
  const line = el(
    "div",
    "hf-windows",
    el("span", "", el("span", "hf-q", "queries "), rows.segment.element),
    el("span", "", el("span", "hf-k", "keys "), columns.segment.element),
  );
  host.append(why, line);
  return (/** @type {LensView} */ { window, data }) => {
    why.hidden = line.hidden = !window;
    if (!window) return;
    why.textContent = window.why;
    axes.forEach(({ segment }, i) => {
      const starts = windowStarts(data.of[i], window.size);
      const end = start => Math.min(data.of[i], start + window.size);
      segment.element.parentElement.hidden = starts.length < 2;
      segment.update(
        starts.map(start => `${count(start + 1)}–${count(end(start))}`),
        starts.indexOf(data.from[i]),
      );
    });
  };
};
/** Where the windows of an axis begin: side by side, the last one moved back to be whole. */
const windowStarts = (whole, size) =>
  range(Math.ceil(whole / size)).map(i => Math.max(0, Math.min(i * size, whole - size)));

/* ---- one head ---- */

/** One token's view: in a self-attention the token that reads is one of the chips; else it has a strip of its own. */
const stripsOf = (host, board) => {
  const readers = tokenStrip(host, { onPick: (row, several) => board.pickRow(row, several) });
  const read = tokenStrip(host, { onPick: key => board.pick({ key }) });
  const hold = matchMedia("(hover: none)").matches ? "Hold" : "Ctrl-click, or hold,";
  const hint = el("p", "hf-hint", `${hold} to choose several tokens that read.`);
  host.append(hint);
  return (/** @type {LensView} */ { data, shown, row, rows, key }) => {
    const many = rows.length > 1;
    const weights = many ? shown[0].map((_, c) => mean(rows.map(r => shown[r][c]))) : shown[row];
    const names = rows.map(r => nameAt(data, "row", r)).join(", ");
    const name = many ? `What ${names} read, the mean` : `One token's view: what ${names} reads`;
    const apart = data.rows.join("\n") !== data.cols.join("\n"); // in a decoder what is read is one step behind
    host.children[1].hidden = !apart;
    if (apart) {
      read.update({ labels: data.cols, weights, chosen: null, key, name });
      readers.update({ labels: data.rows, weights: null, chosen: row, several: rows, name: "The token that reads" });
    } else readers.update({ labels: data.rows, weights, chosen: row, several: rows, key, name });
  };
};

const lensMap = (host, board) => {
  const panel = buildPanel(host);
  const notice = el("p", "hf-notice");
  const windowHost = el("div");
  const stripHost = el("div", "hf-view");
  const one = el("div", "hf-one");
  const mapHost = el("div");
  const showWindows = windowRow(windowHost, board);
  const showStrips = stripsOf(stripHost, board);
  const map = mapView(mapHost, {
    name: "Attention map",
    onSelect: at => board.pick(at ? { row: at.r, key: at.c, tokens: [] } : { key: null, tokens: [] }),
  });
  one.append(mapHost);
  const facts = lensFacts(one, { ask: board.askCell, toggle: board.toggleInside });
  const showSieve = sieveRow(panel.footer, board);
  panel.footer.append(map.exports(board.file, { python: board.python }));
  panel.body.append(notice, windowHost, stripHost, one);

  const blank = sentence => {
    notice.hidden = false;
    notice.classList.add("hf-blank");
    notice.textContent = sentence;
  };
  const nothing = (/** @type {LensView} */ { silent, title }) => {
    panel.rename(silent ? "No map" : "One head", title);
    blank(
      silent
        ? `${NO_ATTENTION} There is no map to look into; Try shows what the model makes of the input.`
        : "Choose a checkpoint and an input; the map of one head will be drawn here.",
    );
  };
  const nameOf = (/** @type {LensView} */ { data, layer, head, mean }) => {
    const { layers, heads } = data;
    if (mean) return `Layer ${layers[layer] + 1}, mean of ${heads.length} heads`;
    return layers.length * heads.length > 1 ? `Layer ${layers[layer] + 1}, head ${heads[head] + 1}` : "The one map";
  };
  const drawMap = (/** @type {LensView} */ view) => {
    const { data, shown, selected, rows, row } = view;
    const { cols, allowed, truth, padding, from } = data;
    const marks = { allowed, truth, padding, from, selected, also: rows.filter(r => r !== row) };
    map.update({
      ...marks,
      rows: data.rows,
      cols,
      values: shown,
      top: data.top,
      sums: !view.sieve.floor && (!data.of || data.of[1] === data.cols.length),
      name: `${data.title || TITLES[view.kind] || view.kind}, ${nameOf(view).toLowerCase()}`,
    });
  };
  const update = (/** @type {LensView} */ view) => {
    const { data, kind, title, untrained, waiting } = view;
    for (const part of [windowHost, stripHost, one, panel.footer]) part.hidden = !data;
    panel.section.classList.toggle("hf-waiting", waiting);
    panel.section.setAttribute("aria-busy", String(waiting));
    if (!data) return nothing(view);
    panel.rename(nameOf(view), [data.title || TITLES[kind] || kind, title].filter(Boolean).join("; "));
    notice.classList.remove("hf-blank");
    notice.hidden = !untrained;
    notice.textContent = "Untrained weights: this map means nothing yet.";
    showWindows(view);
    if (!view.map) return; // it is on its way; what is drawn stays until it is here
    showStrips(view);
    drawMap(view);
    facts.update(view);
    showSieve(view);
  };
  return { update };
};

export { lensGrid, lensMap, windowStarts };
