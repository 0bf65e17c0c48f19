/* The sentence over a run, and the question at its end: chosen from the figures that are shown, the first rule that
   holds. Each part is a text or [tag, text], with b what matters and i what to do. */
import { count, mean, number, percent, range } from "../../../hf_attn/viz/web/core/format.js";
import { lastBefore, measuredAt } from "../../../hf_attn/viz/web/plots/line_chart.js";
import { trainState } from "./train_state.js";

const { mapOf, onKnown } = trainState;
/** @import {TrainView} from "./train_board.js" */
/** @typedef {string | [string, string]} Part */

const MOST = 0.7; // of the weight: from here on it lies where the answer stands
const EXACTLY = 0.95;
const GOOD = 0.9; // of the answers
const NEEDED = 0.05; // of the answers, lost
const MOST_STEPS = 20_000; // that may be advised

/** A share in words: whole where it is whole, else with one digit. */
const share = x => percent(x, Math.abs(100 * x - Math.round(100 * x)) < 0.05 ? 0 : 1);

const isOver = status => ["finished", "stopped", "error"].includes(status);
const isDiagonal = truth =>
  truth?.length > 1 &&
  truth.every((row, r) => row.length === truth.length && row.every((need, c) => !need === (r !== c)));

/** What even guessing would put on the rings: of each row that has some, their share of what may be read. */
const evenShare = (/** @type {Partial<Board.TrainMeta>} */ { truth, allowed }) => {
  const rows = range(truth.length).filter(r => truth[r].some(Boolean));
  return mean(
    rows.map(r => truth[r].filter(Boolean).length / (allowed?.[r].filter(Boolean).length ?? truth[r].length)),
  );
};

const headName = (/** @type {TrainView} */ { meta, layer, head }) => {
  const number = meta.layers?.[layer] ?? 1;
  return head ? `head ${number}·${head}` : `the mean of layer ${number}`;
};

/** Whether so many answers are lost that the part is needed; counted, as shares are not exact. */
const isNeeded = ({ whole, left, examples }) => Math.round((whole - left) * examples) >= NEEDED * examples;

/** What a run does that is not good yet: it guesses until it is better than the untrained model was. */
const learns = (/** @type {TrainView} */ { validation }, value) =>
  value < Math.max(0.1, (validation[0]?.[1] ?? 0) + NEEDED) ? "still guessing." : "it is learning.";

/** What the rings mark: of a sum the place of its carry, too. */
const ringed = (/** @type {Partial<Board.TrainMeta>} */ { truth }) =>
  `where the answer${truth.some(row => row.includes(2)) ? " or its carry" : ""} stands`;

/** The weight that lies on the rings of the shown map; null where there are none, or no map. */
const onRings = (/** @type {TrainView} */ { meta, map }) => (meta.truth && map ? onKnown(map, meta.truth) : null);

/** The head of the shown frame with most weight on the rings. */
const bestHead = (/** @type {TrainView} */ { meta, frame }) => {
  const places = range(meta.layers?.length ?? 0).flatMap(layer =>
    range(meta.heads || 0).map(h => ({ layer, head: h + 1 })),
  );
  const rated = places.map(place => ({ ...place, weight: onKnown(mapOf(frame, place.layer, place.head), meta.truth) }));
  return rated.reduce((best, one) => (best && best.weight >= one.weight ? best : one), null);
};

const right = (/** @type {TrainView} */ { meta, validation, step }) => {
  const measured = lastBefore(validation, step);
  const what = meta.kind_of_task === "text" ? "of the next symbols are guessed" : "of the answers are right";
  return { value: measured?.[1] ?? 0, words: measured ? `${share(measured[1])} ${what}` : "" };
};

/** @returns {Part[]} */
const untrained = (/** @type {TrainView} */ view) => {
  const { meta, state } = view;
  const watch = isDiagonal(meta.truth)
    ? "watch a diagonal appear in the map."
    : meta.truth
      ? "watch the weight move onto the rings."
      : "watch the wrong answers turn right.";
  const asked = state.status === "ready" ? [["i", ` Press Train and ${watch}`]] : [];
  return [
    `This model should ${meta.purpose}. `,
    ["b", `Untrained, ${right(view).words}.`],
    .../** @type {Part[]} */ (asked),
  ];
};

/** @returns {Part[]} */
const atStep = (/** @type {TrainView} */ view) => {
  const { meta, step, loss } = view;
  const { value, words } = right(view);
  const weight = onRings(view);
  const begin = `Step ${count(step)}: `;
  if (weight === null) {
    const how = value >= GOOD ? "nearly all is right." : learns(view, value);
    return [begin, ["b", how], ` ${words}; the loss is ${number(measuredAt(loss, step) ?? NaN, 3)}.`];
  }
  const lies = `${share(weight)} of the weight of ${headName(view)} lies ${ringed(meta)}`;
  if (weight >= MOST) {
    const forms = isDiagonal(meta.truth)
      ? `the diagonal ${value >= GOOD ? "stands" : "is forming"}.`
      : `it looks ${ringed(meta)}.`;
    return [begin, ["b", forms], ` ${lies}; ${words}.`];
  }
  const how = value >= GOOD ? "nearly all is right." : learns(view, value);
  return [begin, ["b", how], ` ${lies}; even guessing gives ${share(evenShare(meta))}. ${words}.`];
};

/** Where it looks, once it has learned. */
const whereItLooks = (/** @type {TrainView} */ view) => {
  const weight = onRings(view);
  if (view.meta.heads === 0) return "It has no attention: there is no map to look at.";
  if (weight === null) return "";
  const stands = ringed(view.meta);
  if (weight >= EXACTLY) return `It looks exactly ${stands}.`;
  if (weight >= MOST) return `It looks mostly ${stands}: ${share(weight)} of the weight of ${headName(view)}.`;
  const best = bestHead(view);
  if (best.weight >= MOST)
    return `${share(weight)} of the weight of ${headName(view)} lies ${stands}; ${headName({ ...view, ...best })} has ${share(best.weight)}.`;
  if (view.state.heldOut?.share >= GOOD && view.meta.heads * view.meta.layers.length > 1)
    return `No single head looks ${stands}: here the heads share the work.`;
  return `${share(weight)} of the weight of ${headName(view)} lies ${stands}; even guessing gives ${share(evenShare(view.meta))}.`;
};

/** @returns {Part[]} */
const atEnd = (/** @type {TrainView} */ view) => {
  const { state, step, meta, total } = view;
  const seconds = state.points.at(-1)?.seconds ?? 0;
  const took = `after ${count(step)} steps, ${seconds < 9.95 ? seconds.toFixed(1) : count(Math.round(seconds))} s.`;
  const measured = state.heldOut;
  if (!measured)
    return [
      `Step ${count(step)} of ${count(total)}. `,
      ["b", right(view).words + "."],
      " Unseen inputs are being measured.",
    ];
  const what = meta.kind_of_task === "text" ? "guessed" : "right";
  const first = /** @type {Part} */ (["b", `${share(measured.share)} ${what} ${took}`]);
  const beside = meta.baseline ? ` ${meta.baseline.name}: ${share(meta.baseline.held_out)}.` : "";
  if (measured.share < GOOD && !meta.baseline && meta.kind_of_task !== "text") {
    const twice = 2 * Math.max(step, total);
    const more = twice > MOST_STEPS ? "more steps" : `more: train ${count(twice)} steps`;
    return [first, ` It needs ${more}, or choose another learning rate. ${whereItLooks(view)}`];
  }
  return [first, ...reached(view), `${beside} ${whereItLooks(view)}`];
};

/** How far it reaches, where that was measured: the longest first. @returns {Part[]} */
const reached = (/** @type {TrainView} */ { meta }) => {
  const longest = meta.reach?.at(-1);
  if (!longest) return [];
  const { learned, unit } = meta.beyond;
  const all = `${count(longest.right)} of ${count(longest.examples)} with ${count(longest.size)} ${unit}`;
  return [" Learned on at most ", `${count(learned)} ${unit}; `, ["b", `right on ${all}.`]];
};

const partName = (/** @type {Board.NeededPart} */ { layer, head }) =>
  head ? `head ${layer}·${head}` : `layer ${layer}`;

/** @returns {Part[]} */
const answer = (/** @type {Board.NeededPart} */ needed) => {
  const { whole, left } = needed;
  const name = partName(needed);
  if (!isNeeded(needed)) return [["b", `No: without ${name} still ${share(left)} are right.`]];
  const wrong = 1 - left;
  const half = Math.abs(Math.round(100 * wrong) - 50) <= 5;
  if (whole >= 0.98) return [["b", `Yes: without ${name} ${half ? "half" : share(wrong)} of the answers go wrong.`]];
  return [["b", `Yes: without ${name} only ${share(left)} are right, and ${share(whole)} with it.`]];
};

const question = (/** @type {TrainView} */ view) => {
  const { head } = view.meta.needed;
  if (!head) return "Is the attention of this layer needed?";
  return isDiagonal(view.meta.truth) && (onRings(view) ?? 0) >= MOST
    ? "Is this diagonal needed?"
    : "Is this head needed?";
};

/** The sentence over the shown step. @returns {Part[]} */
const tellRun = (/** @type {TrainView} */ view) => {
  const { state, meta, step, following, away } = view;
  if (!state.run) return ["Choose a task, then press Train."];
  if (away) return answer(meta.needed);
  if (state.status === "error" && following) return [["b", `The run failed at step ${count(step)}.`]];
  if (step === 0) return untrained(view);
  return following && isOver(state.status) ? atEnd(view) : atStep(view);
};

const trainStory = { tellRun, question, partName, isOver, isNeeded, share };

export { trainStory };
