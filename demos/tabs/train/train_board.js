/* The Train tab's board: one cursor moves curves, map, film strip and predictions together.
   While it stands at the end it follows the run; touched, it stays. The board takes Board.TrainValue messages.

   The page's button.train is its progress bar. */
import { button, copyText, el, live, showProgress } from "../../../hf_attn/viz/web/core/dom.js";
import { clamp, count, isPlace, number, percent, range } from "../../../hf_attn/viz/web/core/format.js";
import { veil } from "../../../hf_attn/viz/web/core/mount.js";
import { overlaid } from "./runs_table.js";
import { trainPanels } from "./train_panels.js";
import { trainState } from "./train_state.js";

const { EMPTY, receive, atOrBefore, lastLayer, mapOf, onKnown, smooth } = trainState;

/** @import {Frame, TrainState} from "./train_state.js" */
/** @import {Overlaid} from "./runs_table.js" */
/** @typedef {number[][]} Curve */
/** What the panels draw.
    @typedef {{state: TrainState, meta: Partial<Board.TrainMeta>, step: number, last: number, following: boolean,
      layer: number, head: number, away: boolean, frame: Frame | null, map: number[][] | null, loss: Curve, smoothLoss: Curve,
      validation: Curve, beyond: Curve, known: Curve, direct: Curve, others: Overlaid[], total: number}} TrainView */

const WIDE = 14; // columns of a map that stands beside the curves

const pairs = (/** @type {Board.TrainPoint[]} */ points, /** @type {"loss" | "validation" | "beyond"} */ key) =>
  points.filter(p => Number.isFinite(p[key])).map(p => [p.step, p[key]]);

/** This head's weight on the known answer, from the maps where there are any. */
const knownPoints = (/** @type {TrainState} */ { frames, meta }, layer, head, truth = meta.truth) => {
  const maps = truth ? frames.map(f => [f.step, mapOf(f, layer, head)]).filter(([, map]) => map) : [];
  return maps.map(([step, map]) => [step, onKnown(map, truth)]);
};
/** What is needed directly, where something is needed indirectly too: of recall, the induction head's value. */
const directPoints = (/** @type {TrainState} */ state, layer, head) => {
  if (!state.meta.truth?.some(row => row.includes(2))) return [];
  const direct = state.meta.truth.map(row => row.map(need => (need === 1 ? 1 : 0)));
  return knownPoints(state, layer, head, direct);
};

const errorLine = host => {
  const text = el("span");
  const copy = button("Copy details", async () => {
    copy.textContent = (await copyText(text.textContent, text)) ? "Copied" : "Press Ctrl+C";
  });
  const line = el("div", "hf-error", text, copy);
  line.setAttribute("role", "alert");
  line.hidden = true;
  host.append(line);
  return message => {
    line.hidden = !message;
    if (text.textContent === message) return;
    text.textContent = message;
    copy.textContent = "Copy details";
  };
};

/** The head that is shown unless another was chosen: the one that the answers need most; before that is known, and
    where it is a whole layer, the mean of the last layer. */
const telling = (/** @type {Partial<Board.TrainMeta>} */ meta) => {
  const layer = meta.layers?.indexOf(meta.needed?.layer ?? -1) ?? -1;
  return layer < 0 ? { layer: lastLayer(meta), head: 0 } : { layer, head: meta.needed.head };
};

const train_board = (element, trigger = (_event, _detail) => {}) => {
  const root = element.querySelector(".hf-train");
  const [top, duo] = [el("div", "hf-main"), el("div", "hf-duo")];
  const cursor = { step: 0, following: true, layer: null, head: null, away: false }; // no layer, no head: what tells most
  const spoken = live();
  /** @type {TrainState} */
  let state = EMPTY;
  /** @type {TrainView} */
  let view = null;
  let tenth = -1;

  const total = () => state.meta.total_steps || state.points.at(-1)?.step || 0;
  /** @returns {TrainView} */
  const look = () => {
    const seen = veil("train_state", state);
    const { points, frames, meta } = seen;
    const last = Math.max(points.at(-1)?.step ?? 0, frames.at(-1)?.step ?? 0);
    const step = cursor.following ? last : Math.min(cursor.step, last);
    const loss = pairs(points, "loss");
    const frame = atOrBefore(frames, step);
    const told = telling(meta);
    const layer = Math.min(cursor.layer ?? told.layer, lastLayer(meta));
    const head = cursor.head ?? told.head;
    const others = overlaid.runs.filter(o => o.id !== seen.run);
    return {
      state: seen,
      meta,
      step,
      last,
      following: cursor.following,
      layer,
      head,
      away: cursor.away && cursor.following && Boolean(meta.needed),
      frame,
      map: mapOf(frame, layer, head),
      loss,
      smoothLoss: smooth(loss),
      validation: pairs(points, "validation"),
      beyond: pairs(points, "beyond"),
      known: knownPoints(seen, layer, head),
      direct: directPoints(seen, layer, head),
      others,
      total: total(),
    };
  };

  /** Show a step: the recorded one nearest to it, or the next one that way. */
  const go = (wanted, way = 0, playing = false) => {
    if (!playing) panels.time.stop();
    const steps = [...new Set([...state.points, ...state.frames].map(r => r.step))].sort((a, b) => a - b);
    if (!steps.length) return;
    const near = steps.reduce((best, s) => (Math.abs(s - wanted) < Math.abs(best - wanted) ? s : best));
    const stuck = way && near === view.step;
    cursor.step = stuck ? steps[clamp(steps.indexOf(near) + way, 0, steps.length - 1)] : near;
    cursor.following = cursor.step === steps.at(-1);
    show();
  };
  const follow = () => {
    panels.time.stop();
    cursor.following = true;
    show();
  };
  const pick = changes => {
    Object.assign(cursor, changes);
    show();
  };

  const P = trainPanels;
  const error = errorLine(top);
  const panels = {};
  panels.story = P.storyPanel(top, {
    go: event => state.run && trigger(event, { run: state.run }),
    takeAway: on => pick({ away: on, layer: null, head: null }),
  });
  top.append(duo);
  panels.now = P.nowPanel(duo, pick);
  panels.curves = P.curves(duo, go);
  panels.time = P.timePanel(top, go, follow);
  root.append(top, spoken.element);
  panels.writes = P.writesPanel(root);
  const more = el("div", "hf-more");
  root.append(more);
  panels.figures = P.figures(more);
  panels.known = P.knownPanel(more, go);

  const show = () => {
    view = look();
    duo.classList.toggle("wide", (view.meta.cols?.length ?? 0) > WIDE); // so that every column has its label
    Object.values(panels).forEach(panel => panel.update(view));
    document.dispatchEvent(new CustomEvent("hf-shown", { detail: view }));
  };
  const speak = done => {
    // each tenth of the run, not each step
    if (Math.floor(10 * done) === tenth || !state.run) return;
    tenth = Math.floor(10 * done);
    spoken.say(
      `step ${count(view.last)}, loss ${number(view.loss.at(-1)?.[1] ?? NaN, 3)}, validation ${percent(view.validation.at(-1)?.[1] ?? NaN)}`,
    );
  };
  const update = (/** @type {Board.TrainValue} */ message) => {
    if ((message?.run ?? null) !== state.run) {
      Object.assign(cursor, { following: true, layer: null, head: null, away: false });
      tenth = -1;
      panels.time.stop();
    }
    state = receive(state, message);
    if (cursor.head > (state.meta.heads || 0)) cursor.head = null;
    error(state.status === "error" ? state.message || "The run failed." : "");
    show();
    const done = total() ? Math.min(1, view.last / total()) : 0;
    showProgress("button.train", state.status, done);
    speak(done);
  };
  document.addEventListener("hf-overlays", show);
  /** A link's step, layer and head. */
  const restore = ({ step, layer, head }) => {
    if (Number.isInteger(layer) && layer >= 0) cursor.layer = layer;
    if (isPlace(head, range((state.meta.heads || 0) + 1))) cursor.head = head;
    if (Number.isFinite(step)) go(step);
    else follow();
  };
  const kept = () => ({
    layer: cursor.layer,
    head: cursor.head,
    step: cursor.following ? null : cursor.step,
  });
  return { update, state: kept, restore };
};

export { train_board };
