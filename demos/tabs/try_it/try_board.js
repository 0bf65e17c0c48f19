/* The Try tab's board: what was written, with each step's distribution and its cut; the verdict; the tree; other beams
   or draws; the map in which the answer reads the input. One chosen symbol drives distribution, beam tree and map.
   Of a classifier: the class, the probabilities of all, and what changes when a word is taken out.
   The board takes a Board.TryValue. The event hf-try-how on the document brings the sliders' settings. */
import { buildPanel, buildSegment, el } from "../../../hf_attn/viz/web/core/dom.js";
import { isPlace, NO_ATTENTION, range } from "../../../hf_attn/viz/web/core/format.js";
import { meanOf, unpack } from "../../../hf_attn/viz/web/core/packing.js";
import { mapView } from "../../../hf_attn/viz/web/plots/long_heatmap.js";
import { tryPanels } from "./try_panels.js";
import { removalPanel } from "./word_removal.js";

/** @typedef {Board.BeamNode & {place: number}} WayNode */
/** A map of the answer; of a branch one that was cut out of a longer answer's, or `left` out.
    @typedef {Board.AnswerMap & {weights?: number[][][][], left?: boolean}} ShownMap */
/** The answer that is looked at, or a branch of the beam tree.
    @typedef {Omit<Partial<Board.Answer>, "map"> & {written: Board.WrittenSymbol[], steps: number[], map: ShownMap,
      rank: number, end?: number, way: WayNode[] | null, node?: number | null, branch?: string}} View */
/** What the panels draw; `how`: as the sliders stand now.
    @typedef {{value: Board.TryValue | null, view: View | null, step: number, how: Board.AnswerSettings | null}} State */

const SMALL = 12; // keys of a map that has room under the answer, beside the distribution

const LEFT_OUT = "This branch died out, and its map was not sent. Choose an answer to see its map.";

const strongest = row => row.indexOf(Math.max(...row));

const answerMap = (host, onStep) => {
  const panel = buildPanel(host, "Attention of the answer");
  const none = el("p", "hf-blank");
  const mapHost = el("div");
  panel.body.append(none, mapHost);
  const layers = buildSegment("Layer", l => pick({ layer: l }));
  const heads = buildSegment("Head", h => pick({ head: h }));
  const [layerLabel, headLabel] = ["layer", "head"].map(text => el("span", "hf-label", text));
  const picks = el("span", "hf-picks", layerLabel, layers.element, headLabel, heads.element);
  panel.header.append(picks);
  const map = mapView(mapHost, {
    name: "Attention of the answer",
    onSelect: cell => {
      key = cell?.c ?? null;
      isLet = !cell;
      row = cell ? cell.r + before() : row;
      if (cell && reads()) onStep(row);
      else show();
    },
  });
  const at = { layer: null, head: 0 };
  const file = () => `${shownMap.kind}-layer-${at.layer + 1}-${at.head ? "head-" + at.head : "mean"}`;
  panel.footer.append(map.exports(file));
  /** @type {ShownMap} */
  let shownMap = null;
  let maps = null;
  let row = 0; // the step of the answer; where the input reads itself, a row of its own
  let key = null; // the cell's column that was chosen; without one, the row's largest weight
  let isLet = false; // the reader let go of the cell
  const reads = () => shownMap.kind !== "encoder";
  const before = () => shownMap.from?.[0] ?? 0; // steps before the window of a long map
  const pick = patch => {
    Object.assign(at, patch);
    show();
  };
  const selected = values => {
    const r = row - before();
    if (isLet || !values[r] || (key === null && !reads())) return null;
    return { r, c: key !== null && key < values[0].length ? key : strongest(values[r]) };
  };
  const show = () => {
    panel.section.hidden = !shownMap;
    none.hidden = Boolean(maps);
    none.textContent = shownMap?.left ? LEFT_OUT : NO_ATTENTION;
    mapHost.hidden = picks.hidden = panel.footer.hidden = !maps;
    if (!shownMap) return;
    panel.rename(shownMap.title || "Attention of the answer");
    if (!maps) return;
    layers.element.hidden = layerLabel.hidden = maps.length < 2;
    heads.element.hidden = headLabel.hidden = maps[0].length < 2;
    layers.update(
      range(maps.length).map(l => String(l + 1)),
      at.layer,
    );
    heads.update(["mean", ...range(maps[0].length).map(h => String(h + 1))], at.head);
    const { rows, cols, truth, allowed, title, from } = shownMap;
    const name = `${title}, layer ${at.layer + 1}, ${at.head ? `head ${at.head}` : "mean of the heads"}`;
    const values = at.head ? maps[at.layer][at.head - 1] : meanOf(maps[at.layer]);
    map.update({ rows, cols, values, truth, allowed, from, selected: selected(values), name });
  };
  const update = (/** @type {State} */ { view, step }) => {
    if (view?.map !== shownMap) {
      shownMap = view?.map ?? null;
      maps = shownMap?.kind ? (shownMap.weights ??= unpack(shownMap.maps, shownMap.shape)) : null;
      [key, isLet] = [null, false];
      if (maps && (at.layer === null || at.layer >= maps.length)) at.layer = maps.length - 1;
      if (maps && at.head > maps[0].length) at.head = 0;
    }
    if (maps && reads()) {
      if (row !== step) isLet = false;
      row = step;
    }
    show();
  };
  /** Layer, head and cell, for a link; what the map does not have stays as it is. */
  const state = () => ({ ...at, row, key, isLet, lines: map.lines() });
  const restore = kept => {
    if (!maps) return;
    if (isPlace(kept.layer, maps)) at.layer = kept.layer;
    if (kept.head === 0 || isPlace(kept.head - 1, maps[0])) at.head = kept.head;
    if (kept.key === null || isPlace(kept.key, maps[0][0][0])) key = kept.key;
    if (!reads() && isPlace(kept.row, maps[0][0])) row = kept.row;
    isLet = kept.isLet === true;
    map.drawLines(kept.lines === true);
    show();
  };
  return { update, section: panel.section, state, restore };
};

/** The map of a branch: what a longer answer on the same way reads, up to the branch's last symbol. */
const cutMap = (/** @type {ShownMap} */ map, /** @type {Board.WrittenSymbol[]} */ written) => {
  if (!map?.kind || map.from) return { kind: null, left: !map || Boolean(map.from) };
  const weights = unpack(map.maps, map.shape);
  const [long, rows] = [map.rows.length, written.length];
  const cols = map.kind === "decoder" ? map.cols.length - (long - rows) : map.cols.length;
  const cut = grid => grid?.slice(0, rows).map(line => line.slice(0, cols));
  return {
    ...map,
    rows: written.map(w => w.token),
    cols: map.cols.slice(0, cols),
    weights: weights.map(layer => layer.map(cut)),
    allowed: cut(map.allowed),
    truth: null,
  };
};

/** Nodes of the beam tree from the first symbol to one of them, each with its place. */
const wayTo = (/** @type {{nodes: Board.BeamNode[]}} */ { nodes }, /** @type {number} */ place) =>
  place ? [...wayTo({ nodes }, nodes[place - 1].parent), { ...nodes[place - 1], place }] : [];

const answersOf = (/** @type {Board.TryValue} */ value) => [value, ...(value.others || [])];

/** An answer as the panels take it, with its way through the beam tree. */
const viewAnswer = (/** @type {Board.TryValue} */ value, /** @type {number} */ rank) => {
  const end = value.beams?.ends[rank];
  return { ...answersOf(value)[rank], rank, end, way: end ? wayTo(value.beams, end) : null };
};

const viewBranch = (/** @type {Board.TryValue} */ value, /** @type {number} */ place) => {
  const way = wayTo(value.beams, place);
  const last = way.at(-1);
  const written = way.map(n => ({ token: n.token, probability: n.p }));
  const maps = [...answersOf(value).map(one => one.map), ...value.beams.maps];
  const fate = { kept: "kept here, dropped later", ended: "outdone by others", dropped: "dropped" }[last.fate];
  const map = cutMap(maps[last.map], written);
  return { written, steps: way.map(n => n.step), map, branch: fate, end: place, way, rank: -1 };
};

const try_board = (element, trigger) => {
  const root = element.querySelector(".hf-try");
  const two = el("div", "hf-two");
  /** @type {State} */
  const state = { value: null, view: null, step: 0, how: null };
  root.append(two);
  const look = (/** @type {View} */ view, /** @type {number} */ step) => {
    Object.assign(state, { view, step: Math.max(0, Math.min(step, view.written.length - 1)) });
    show();
  };
  const pickNode = place => {
    const { value, view } = state;
    const ranks = range(answersOf(value).length);
    const onWay = rank => viewAnswer(value, rank).way?.some(n => n.place === place);
    const rank = [view.rank, ...ranks].find(r => r >= 0 && onWay(r));
    look(rank === undefined ? viewBranch(value, place) : viewAnswer(value, rank), wayTo(value.beams, place).length - 1);
  };
  const chooseStep = i => look(state.view, i);
  const panels = tryPanels;
  const parts = [
    panels.answer(two),
    panels.steps(two, chooseStep, () => trigger("rewrite")),
    panels.others(root, rank => look(viewAnswer(state.value, rank), state.step), pickNode),
  ];
  const removal = removalPanel(two);
  const map = answerMap(root, chooseStep);
  const show = () => {
    const { value, view, step } = state;
    root.hidden = !value;
    const place = (view?.map?.cols?.length ?? 0) <= SMALL && !value?.removal ? two : root;
    if (map.section.parentElement !== place) place.append(map.section);
    if (view) view.node = view.way?.[step]?.place ?? null;
    [...parts, map].forEach(part => part.update(state));
    removal.update(value);
  };
  const begin = (/** @type {Board.TryValue} */ value) => {
    // where it went wrong, else where it was least sure
    const wrong = value.wrong?.indexOf(true) ?? -1;
    const sure = value.written.map(w => w.probability);
    return wrong >= 0 ? wrong : Math.max(0, sure.indexOf(Math.min(...sure)));
  };
  const update = (/** @type {Board.TryValue} */ value) => {
    const before = state.value;
    const isSame = before && value && before.source === value.source && before.chosen === value.chosen;
    Object.assign(state, { value, view: null, how: value?.how ?? null });
    if (value) look(viewAnswer(value, 0), isSame ? state.step : begin(value));
    else show();
  };
  const follow = event => {
    if (!element.isConnected) document.removeEventListener("hf-try-how", follow);
    else if (state.value?.how) {
      state.how = { ...state.how, ...event.detail, strategy: state.value.how.strategy };
      show();
    }
  };
  document.addEventListener("hf-try-how", follow);
  const kept = () => ({ rank: state.view?.rank ?? 0, step: state.step, map: map.state() });
  const restore = ({ rank, step, map: cell }) => {
    look(viewAnswer(state.value, range(answersOf(state.value).length).includes(rank) ? rank : 0), Number(step) || 0);
    map.restore(cell || {});
  };
  return { update, state: kept, restore };
};

export { try_board };
