/* The Duel tab's board: curves, accuracy by size, the models with their figures, and their maps of one probe side
   by side. Every message holds everything; the board takes a Board.DuelValue.

   The page's #duel-start is its progress bar. */
import { alertLine, buildPanel, el, live, showProgress, write } from "../../../hf_attn/viz/web/core/dom.js";
import { count, fileName, isPlace, NO_ATTENTION, percent, range } from "../../../hf_attn/viz/web/core/format.js";
import { meanOf, unpack } from "../../../hf_attn/viz/web/core/packing.js";
import { heatmap } from "../../../hf_attn/viz/web/plots/heatmap.js";
import { dashLine, seriesStyle } from "../../../hf_attn/viz/web/plots/line_chart.js";
import { symbolStrip } from "../../../hf_attn/viz/web/plots/token_strip.js";
import { trainState } from "../train/train_state.js";
import { duelPanels } from "./duel_panels.js";

/** @import {DuelView, Styled} from "./duel_panels.js" */

const WIDE = 14; // columns of a map that is legible beside two others
const VERDICTS = { true: "writes, right:", false: "writes, wrong:" };

/* ---- one model's map ---- */

const mapCell = (host, file, onSelect) => {
  const [title, note, sentence] = [el("h3"), el("p", "hf-hint"), el("p", "hf-blank")];
  const [mapHost, writes] = [el("div"), el("p", "hf-writes-line")];
  const map = heatmap(mapHost, { name: "", maxCell: 26, onSelect });
  const take = map.exports(file);
  /** @type {Styled} */
  let shown = null;
  host.append(title, writes, note, sentence, mapHost, take);
  const written = (/** @type {Styled} */ { written: one }) => {
    writes.hidden = !one;
    if (!one) return;
    // whether it is right may be hidden
    const verdict = el("span", one.right === false ? "no" : "hf-hint", VERDICTS[one.right] ?? "writes:");
    writes.replaceChildren(verdict, one.written.length ? symbolStrip(one.written, one.wrong) : "nothing");
  };
  const update = (/** @type {Styled} */ c) => {
    shown = c;
    title.replaceChildren(dashLine(c), c.name);
    written(c);
    const seen = c.map;
    sentence.hidden = Boolean(seen);
    note.hidden = mapHost.hidden = take.hidden = !seen;
    sentence.textContent = c.points.length ? NO_ATTENTION : "The first map comes with the first measurement.";
    if (!seen) return;
    const heads = seen.heads > 1 ? `, mean of ${seen.heads} heads` : "";
    const layer = seen.layer ? `, ${seen.layer}` : "";
    const weights = meanOf(unpack(seen.maps, [seen.heads, seen.rows.length, seen.cols.length]));
    const share = () => percent(trainState.onKnown(weights, seen.truth), 0);
    const known = seen.truth?.some(row => row.some(Boolean)) ? `; ${share()} of the weight on the known answer` : "";
    const where = `step ${count(seen.step)}${layer}${heads}${known}`;
    write(note, seen.step ? where : "Untrained weights: this map means nothing yet.");
    const cut = rows => rows.map(line => line.slice(0, seen.source)); // of what was read, the source
    map.update({
      rows: seen.rows,
      cols: seen.cols.slice(0, seen.source),
      values: cut(weights),
      truth: seen.truth && cut(seen.truth),
      sums: seen.source === seen.cols.length,
      name: `${c.name}, who reads what at step ${count(seen.step)}`,
    });
  };
  /** Choose the cell that was chosen in another model's map, where this one has it. */
  const select = at => {
    const seen = shown?.map;
    const isThere = at && isPlace(at.r, seen?.rows ?? []) && isPlace(at.c, range(seen?.source ?? 0));
    if (seen) map.update({ selected: isThere ? at : null });
  };
  return { update, select };
};

const mapsPanel = host => {
  const panel = buildPanel(host, "Who reads what", { cls: "hf-maps-panel" });
  const grid = el("div", "hf-maps");
  panel.body.append(grid);
  let cells = [];
  let shown = null;
  /** @type {DuelView} */
  let view = null;
  let chosen = null; // the cell, in every map
  const choose = (at, from) => {
    chosen = at;
    cells.forEach((cell, i) => i !== from && cell.select(at));
  };
  const build = () => {
    grid.replaceChildren();
    chosen = null;
    cells = view.contestants.map((_, i) => {
      const cell = el("div", "hf-map-cell");
      grid.append(cell);
      const file = () => fileName("duel", view.task, view.contestants[i].model, "map");
      return mapCell(cell, file, at => choose(at, i));
    });
  };
  const update = (/** @type {DuelView} */ next) => {
    view = next;
    const example = [view?.probe, view?.answer].filter(Boolean).join(" → "); // the answer may be hidden
    panel.rename("Who reads what", view ? `the same validation example: ${example}` : "");
    if (!view) grid.replaceChildren();
    else if (view.duel !== shown) build();
    shown = view?.duel ?? null;
    const columns = Math.max(0, ...(view?.contestants || []).map(c => c.map?.source ?? 0));
    grid.classList.toggle("two", view?.contestants.length === 4 || columns > WIDE);
    if (view) view.contestants.forEach((c, i) => cells[i].update(c));
    if (chosen) choose(chosen); // maps that have come meanwhile
  };
  return { update, state: () => chosen, restore: at => choose(at) };
};

/* ---- all of it ---- */

const duel_board = (element, trigger) => {
  const root = element.querySelector(".hf-duel");
  const P = duelPanels;
  const spoken = live();
  const say = alertLine(root);
  const [curves, standings] = [P.curvesPanel(root), P.standingsPanel(root, trigger)];
  const [sizes, maps] = [P.sizesPanel(root), mapsPanel(root)];
  const panels = [curves, standings, sizes, maps];
  root.append(spoken.element);
  let told = "";
  const speak = (/** @type {DuelView} */ view) => {
    // each tenth of the duel, not each step
    const tenth = `${view.duel}, ${Math.floor(10 * view.done)}, ${view.status}`;
    if (tenth === told) return;
    told = tenth;
    const figures = view.contestants.map(
      c => `${c.name} ${c.held_out ? percent(c.held_out.share) : `${percent(c.validation ?? NaN)} validation`}`,
    );
    spoken.say(`${percent(view.done, 0)} of the budget: ${figures.join(", ")}`);
  };
  const update = (/** @type {Board.DuelValue} */ value) => {
    root.hidden = !value;
    const contestants = value?.contestants.map((c, i) => ({ ...c, ...seriesStyle(i) }));
    const view = value && { ...value, contestants };
    say(view?.message);
    panels.forEach(panel => panel.update(view));
    showProgress("#duel-start", view?.status ?? "ready", view?.done ?? 0);
    if (view) speak(view);
  };
  const state = () => ({ ...curves.state(), cell: maps.state() });
  /** A link's curves and cell; its maps may still be on their way. */
  const restore = ({ what, by, cell }) => {
    curves.restore({ what, by });
    if (Number.isInteger(cell?.r) && Number.isInteger(cell?.c)) maps.restore({ r: cell.r, c: cell.c });
  };
  return { update, state, restore };
};

export { duel_board };
