/* The lens's three panels: the map of one head, every head small, and the chosen cell with what researchers ask for.

   lensMap(host, board, slot), lensHeads(host, board, slot) and lensCell(host, board) → {update(view)}; board holds what
   they do, the view what they show, and the slots what other boards put there: all are described in explore_board.js */
import { buildPanel, buildSegment, buildSlider, buildSwitch, el } from "../core/dom.js";
import { count, mean, NO_ATTENTION, number, range } from "../core/format.js";
import { takeHeads } from "../export/all_heads.js";
import { headGrid } from "../plots/head_grid.js";
import { mapView } from "../plots/long_heatmap.js";
import { tokenStrip } from "../plots/token_strip.js";
import { lensFacts, nameAt } from "./facts.js";

/** @import {LensData, LensView} from "./explore_board.js" */

const TITLES = {
  cross: "the answer reads the input",
  encoder: "the input reads itself",
  decoder: "the answer reads itself",
};

/** Every head, small, kind by kind; the arrow keys go through all of them. */
const lensHeads = (host, board, slot) => {
  const panel = buildPanel(host, "Every head", { cls: "hf-heads" });
  const empty = el("p", "hf-blank");
  const all = el("div", "hf-kinds");
  panel.body.append(empty, all, slot);
  const take = takeHeads(panel, board, TITLES);
  /** @type {Record<string, {section: Element, title: Element, grid: ReturnType<typeof headGrid>}>} */
  const kinds = {};
  /** @type {LensView} */
  let view = null;
  const go = (kind, layer, head) => {
    board.pick({ kind, layer, head, mean: false });
    kinds[kind].grid.focus(layer, head);
  };
  /** From the last layer of one kind to the first of the next, and back. */
  const leave = (kind, way, head) => {
    const next = view.kinds[view.kinds.indexOf(kind) + way];
    if (!next) return;
    const { maps } = view.all[next];
    go(next, way > 0 ? 0 : maps.length - 1, Math.min(head, maps[0].length - 1));
  };
  const build = kind => {
    const [title, gridHost] = [el("h3", "hf-kind"), el("div")];
    const section = el("section", "", title, gridHost);
    section.dataset.kind = kind;
    const onLeave = (way, head) => leave(kind, way, head);
    const grid = headGrid(gridHost, { onPick: (layer, head) => go(kind, layer, head), onLeave });
    kinds[kind] = { section, title, grid };
  };
  const update = (/** @type {LensView} */ next) => {
    view = next;
    const { data, kind, kinds: names, layer, head, mean, silent, heads } = view;
    panel.section.hidden = silent;
    panel.rename(heads?.title || "Every head");
    empty.hidden = Boolean(data);
    empty.textContent = "The maps of every head will be drawn here.";
    all.hidden = !data;
    for (const name of names) if (!kinds[name]) build(name);
    const shown = names.map(name => kinds[name].section);
    if (shown.length !== all.children.length || shown.some((one, i) => one !== all.children[i]))
      all.replaceChildren(...shown);
    for (const name of names) {
      const of = view.all[name];
      const isChosen = name === kind;
      kinds[name].title.textContent = of.title || TITLES[name] || name;
      const chosen = isChosen ? { layer, head, wholeRow: mean } : { layer: null, head: null, wholeRow: false };
      kinds[name].grid.update({ ...of, ...chosen, notes: heads?.notes?.[name] });
    }
    take(data, kind);
  };
  return { update };
};

/* ---- small weights, the sink, the mean of a layer ---- */

const sieveRow = (host, board) => {
  const value = el("b");
  const floor = buildSlider("hide below", 0, 0.5, 0.01, v => board.sieve({ floor: v }));
  const sink = buildSwitch("Ignore the first token (rows rescaled to sum to 1)", sink => board.sieve({ sink }));
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

const nameOf = (/** @type {LensView} */ { data, layer, head, mean }) => {
  const { layers, heads } = data;
  if (mean) return `Layer ${layers[layer] + 1}, mean of ${heads.length} heads`;
  return layers.length * heads.length > 1 ? `Head ${layers[layer] + 1}·${heads[head] + 1}` : "The one map";
};

const lensMap = (host, board, slot) => {
  const panel = buildPanel(host, "", { cls: "hf-one" });
  const notice = el("p", "hf-notice");
  const [windowHost, mapHost] = [el("div"), el("div")];
  const showWindows = windowRow(windowHost, board);
  const map = mapView(mapHost, {
    name: "Attention map",
    onSelect: at => board.pick(at ? { row: at.r, key: at.c, tokens: [] } : { key: null, tokens: [] }),
    onLines: board.drawLines,
  });
  panel.footer.append(map.exports(board.file, { python: board.python }));
  panel.body.append(notice, windowHost, mapHost, slot);

  const nothing = (/** @type {LensView} */ { silent, title }) => {
    panel.rename(silent ? "No map" : "One head", title);
    notice.hidden = false;
    notice.classList.toggle("hf-blank", !silent);
    notice.textContent = silent
      ? `${NO_ATTENTION} There is no map to look into; Try shows what the model makes of the input.`
      : "Choose a checkpoint and an input; the map of one head will be drawn here.";
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
      lines: view.lines,
      sums: !view.sieve.floor && (!data.of || data.of[1] === data.cols.length),
      name: `${data.title || TITLES[view.kind] || view.kind}, ${nameOf(view).toLowerCase()}`,
    });
  };
  const update = (/** @type {LensView} */ view) => {
    const { data, kind, title, untrained, waiting } = view;
    for (const part of [windowHost, mapHost, panel.footer]) part.hidden = !data;
    panel.section.classList.toggle("hf-waiting", waiting);
    panel.section.setAttribute("aria-busy", String(waiting));
    if (!data) return nothing(view);
    panel.rename(nameOf(view), [data.title || TITLES[kind] || kind, title].filter(Boolean).join("; "));
    notice.classList.remove("hf-blank");
    notice.hidden = !untrained;
    notice.textContent = "Untrained weights: this map means nothing yet.";
    showWindows(view);
    if (view.map) drawMap(view); // else it is on its way; what is drawn stays until it is here
  };
  return { update };
};

/* ---- one cell, and what researchers ask for ---- */

const lensCell = (host, board) => {
  const panel = buildPanel(host, "", { cls: "hf-cell" });
  const facts = lensFacts(panel, board);
  const stripHost = el("div", "hf-view");
  const sieveHost = el("div");
  const fold = el("details", "hf-researchers");
  fold.append(el("summary", "", "For researchers"), stripHost, facts.table, sieveHost);
  const showStrips = stripsOf(stripHost, board);
  const showSieve = sieveRow(sieveHost, board);
  fold.ontoggle = () => board.toggleMore(fold.open);
  panel.body.append(fold);
  let told = false; // what the state last said; a click opens the fold before `toggle` tells the state
  const update = (/** @type {LensView} */ view) => {
    panel.section.hidden = !view.data;
    if (!view.data || !view.map) return;
    if (told !== view.more) fold.open = told = view.more;
    facts.update(view);
    if (!view.more) return;
    showStrips(view);
    showSieve(view);
  };
  return { update };
};

export { lensCell, lensHeads, lensMap, windowStarts };
