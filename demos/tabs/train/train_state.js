/* What the browser knows of a run. Messages may be lost or merged on their way, so each repeats what is recent:
   points and frames are merged by their step within one run, and a new run id starts afresh.
   Nothing here draws: train_board.js does. */
import { mean, range, sum } from "../../../hf_attn/viz/web/core/format.js";
import { meanOf, unpack } from "../../../hf_attn/viz/web/core/packing.js";

/** @typedef {{step: number, predictions?: Board.ExampleAnswer[], packed?: string[], shape?: number[],
      opened?: number[][][][], means?: number[][][]}} Frame */
/** @typedef {{run: string | null, meta: Partial<Board.TrainMeta>, status: string, message: string, eta: number | null, heldOut: Board.HeldOutScore | null,
      points: Board.TrainPoint[], frames: Frame[]}} TrainState */

/** @type {TrainState} */
const EMPTY = { run: null, meta: {}, status: "ready", message: "", eta: null, heldOut: null, points: [], frames: [] };

const present = record => Object.fromEntries(Object.entries(record).filter(([, v]) => v !== null && v !== undefined));

/** Known records and new ones, one a step, in order; what was once measured is not unlearned by a null. */
const mergeBySteps = (known, fresh) => {
  const bySteps = new Map(known.map(record => [record.step, record]));
  for (const record of fresh || []) bySteps.set(record.step, { ...bySteps.get(record.step), ...present(record) });
  return [...bySteps.values()].sort((a, b) => a.step - b.step);
};

/** Frames with their maps, packed[layer], opened when first shown; none where the model has no such map. */
const mergeFrames = (/** @type {Frame[]} */ known, fresh, /** @type {Partial<Board.TrainMeta>} */ meta) => {
  const shape = [meta.heads || 0, meta.rows?.length || 0, meta.cols?.length || 0];
  const have = new Map(known.map(f => [f.step, f]));
  const isKnown = (step, maps) => maps && have.get(step)?.packed?.at(-1) === maps.at(-1);
  return mergeBySteps(
    known,
    (fresh || []).map((/** @type {Board.TrainFrame} */ { maps, ...rest }) =>
      isKnown(rest.step, maps) ? rest : { ...rest, packed: maps, shape, opened: [], means: [] },
    ),
  );
};

/** @returns {TrainState} */
const receive = (/** @type {TrainState} */ state, /** @type {Board.TrainValue} */ message) => {
  if (!message) return EMPTY;
  const from = state.run === message.run ? state : EMPTY;
  const meta = { ...from.meta, ...message.meta };
  const film = from.frames.filter(frame => frame.step % message.film_every === 0); // without the newest of before
  return {
    run: message.run,
    meta,
    status: message.status || "running",
    message: message.message || "",
    eta: message.eta_seconds ?? null,
    heldOut: message.held_out ?? null,
    points: mergeBySteps(from.points, message.points),
    frames: mergeFrames(film, message.frames, meta),
  };
};

const atOrBefore = (records, step) => records.findLast(record => record.step <= step) || null;

/** The last of the layers whose maps are sent. */
const lastLayer = (/** @type {Partial<Board.TrainMeta>} */ meta) => Math.max(0, (meta.layers?.length ?? 1) - 1);

/** The map of a frame in a layer: the mean over the heads for head 0, else that head. */
const mapOf = (/** @type {Frame} */ frame, /** @type {number} */ layer, /** @type {number} */ head) => {
  if (!frame?.packed?.[layer]) return null;
  const heads = (frame.opened[layer] ||= unpack(frame.packed[layer], frame.shape));
  if (!heads) return null;
  return head > 0 ? heads[head - 1] || null : (frame.means[layer] ||= meanOf(heads));
};

/** Open the maps of all layers of a frame, for a picture of all heads. */
const openAll = (/** @type {Frame} */ frame, /** @type {number} */ layers) =>
  range(layers).forEach(layer => mapOf(frame, layer, 1));

/** Mean over the rows with a known answer of the weight that lies on it. */
const onKnown = (map, truth) => {
  const rows = range(map.length).filter(r => truth[r]?.some(Boolean));
  return mean(rows.map(r => sum(map[r].map((w, c) => (truth[r][c] ? w : 0)))));
};

/** The mean of the logarithms around each point, as many before as after: no lag, and the ends are as measured. */
const smooth = points => {
  const above = points.filter(([, v]) => v > 0);
  const logs = above.map(([, v]) => Math.log(v));
  return above.map(([x], i) => {
    const reach = Math.min(6, i, above.length - 1 - i);
    return [x, Math.exp(mean(logs.slice(i - reach, i + reach + 1)))];
  });
};

const trainState = { EMPTY, receive, atOrBefore, lastLayer, mapOf, onKnown, openAll, smooth };

export { trainState };
