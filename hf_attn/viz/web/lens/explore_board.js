/* The lens: one head large, every head small, the chosen cell's figures; in a fold for researchers one token's view,
   figures of the row and of the whole head, and what is left out. The chosen cell drives everything. In the app and in a page of its own.

   const lens = explore_board(element, trigger); lens.update(value); lens.state(); lens.restore(state)
   value   a Board.LensValue; later also a Board.LensHeadMessage or a Board.LensCellMessage
   events (without a server trigger does nothing)
       pick           0.2 s after a choice: {kind, layer, head, query, key}; query and key are null without a cell
       fetch          {id, kind, layer, head (null: their mean)}, a head that was not sent
       look_inside    {id, kind, layer, head, query, key}, for what is behind a cell
       move_window    {row, column, sent_at}

   The boards beside it hear what is chosen: lens.listen(host, view => …), until host leaves the page;
   lens.pick({kind, layer, head}) chooses from there; lens.wait(true) says that something new is on its
   way, wait(false) that it will not come. They put what they have to say into lens.slots: under the map, and under the
   heads; lens.annotate({title, notes}) writes notes[kind][layer][head] under each head, as head_grid.js takes them. */
import { el, sentAt } from "../core/dom.js";
import { clamp, range } from "../core/format.js";
import { meanOf, unpack } from "../core/packing.js";
import { topOf } from "../plots/long_heatmap.js";
import { sieved } from "./facts.js";
import { lensCell, lensHeads, lensMap, windowStarts } from "./panels.js";

/** One kind as the panels read it: maps[L][H] for the grid, and whole maps by "layer.head" and "layer.mean".
    @typedef {Omit<Board.LensKind, "maps" | "whole"> & {maps: number[][][][], whole: Map<string, number[][]>, top: number}} LensData */
/** What stands with the heads. @typedef {{title: string, notes: Record<string, object[][]> | null}} Annotation */
/** What the lens knows. @typedef {{kinds: Record<string, LensData>, kind: string | null, layer: number, head: number,
      mean: boolean, row: number, tokens: number[], key: number | null, floor: number, sink: boolean, inside: boolean, lines: boolean,
      more: boolean, heads: Annotation | null,
      cell: Board.LensCell | null, title: string, untrained: boolean, silent: boolean, asks: string[],
      window: Board.LensWindow | null, id: number | null, value: Board.LensValue | null, picked: boolean}} LensState */
/** What the panels are told: the state, the map, `shown` after the sieve, `rows` (all chosen that read), `at` in the
    whole input.
    @typedef {Omit<LensState, "kinds"> & {kinds: string[], all: Record<string, LensData>, data: LensData | null, map: number[][] | null,
      sieve: {floor: number, sink: boolean}, at: {query: number, key: number | null}, waiting: boolean,
      shown?: number[][], selected?: {r: number, c: number} | null, rows?: number[], masked?: boolean}} LensView */

const KEPT = 24; // heads of a long input that are held

const listeners = new Set();
const slots = { map: el("div", "hf-slot"), heads: el("div", "hf-slot") };
/** @type {{now: LensView, pick: (choice: object) => void, wait: (on: boolean) => void, slots: typeof slots,
      annotate: (heads: Annotation | null) => void, listen: (host: Element, hear: (view: LensView) => void) => void}} */
const lens = {
  now: null,
  pick: () => {},
  slots,
  annotate: () => {},
  wait: () => {}, // wait(true) while something new is on its way, wait(false) when it is refused
  listen: (host, hear) => {
    listeners.add({ host, hear });
    if (lens.now) hear(lens.now);
  },
};
const tellOthers = (/** @type {LensView} */ view) => {
  lens.now = view;
  listeners.forEach(one => {
    if (one.host.isConnected) one.hear(view);
    else listeners.delete(one);
  });
};

const open = (/** @type {Board.LensKind} */ kind) => {
  const maps = kind.small ? unpack(kind.small, kind.small_shape) : unpack(kind.maps, kind.shape);
  if (!maps) return null;
  const whole = new Map();
  const [m, n] = kind.shape.slice(2);
  Object.entries(kind.whole || {}).forEach(([at, packed]) => whole.set(at, unpack(packed, [m, n])));
  const { layers = range(maps.length), heads = range(maps[0].length) } = kind;
  const top = topOf(maps.flat(2)); // all heads have one scale
  const data = { ...kind, maps, whole, layers, heads, top, ahead: undefined };
  if (Number.isInteger(kind.ahead))
    data.allowed = range(m).map(r => range(n).map(c => c + kind.from[1] <= r + kind.from[0] + kind.ahead));
  return data;
};
const opened = (/** @type {Record<string, Board.LensKind>} */ kinds) =>
  Object.fromEntries(
    Object.entries(kinds || {})
      .filter(([, kind]) => kind)
      .map(([name, kind]) => [name, open(kind)])
      .filter(([, data]) => data),
  );
const mapAt = (/** @type {LensData} */ data, layer, head, isMean) => {
  if (!data.small && !isMean) return data.maps[layer][head];
  const at = `${layer}.${isMean ? "mean" : head}`;
  if (!data.small && !data.whole.has(at)) data.whole.set(at, meanOf(data.maps[layer]));
  return data.whole.get(at) || null;
};

/** The lines of Python about one head, for another. */
const linesForHead = (text, { kind, layer, head }) =>
  text.replace(/^kind, layer, head = .*$/m, `kind, layer, head = "${kind}", ${layer}, ${head}`);

/** @type {LensState} */
const START = {
  kinds: {},
  kind: null,
  layer: 0,
  head: 0,
  mean: false, // of the layer's heads, in place of one
  row: 0,
  tokens: [], // rows chosen besides
  key: null,
  floor: 0,
  sink: false,
  inside: false, // query, key and value are shown
  lines: false, // the map is drawn as lines between words
  more: false, // so is what researchers ask for
  heads: null, // what is said of them
  cell: null, // … and these are they
  title: "",
  untrained: false,
  silent: false, // a model without attention
  asks: [],
  window: null,
  id: null, // number of the input
  value: null, // as it came
  picked: false, // something was, since the input was shown
};
const SHARED = ["kind", "layer", "head", "mean", "floor", "sink", "inside", "more", "lines"]; // with a link, as they are

const explore_board = (element, trigger = (_event, _detail) => {}) => {
  const root = element.querySelector(".hf-explore");
  const main = el("div", "hf-explore-main");
  const state = { ...START };
  let telling = null;
  let [asked, moving, pending] = [null, false, null];
  root.append(main);

  const data = () => state.kinds[state.kind] || null;
  const settle = () => {
    // keep the choice inside the maps there are
    const d = data();
    if (!d) return;
    state.layer = clamp(state.layer, 0, d.maps.length - 1);
    state.head = clamp(state.head, 0, d.maps[0].length - 1);
    state.row = clamp(state.row, 0, d.rows.length - 1);
    state.tokens = state.tokens.filter(row => row < d.rows.length && row !== state.row);
    if (state.key !== null && state.key >= d.cols.length) state.key = null;
  };
  const placeOf = () => {
    // in the whole input
    const [first, second] = data()?.from || [0, 0];
    return { query: state.row + first, key: state.key === null ? null : state.key + second };
  };
  const tell = () => {
    const { query, key } = placeOf();
    const { kind, layer, head } = state;
    trigger("pick", { kind, layer, head, query: key === null ? null : query, key });
  };
  /** Another kind has other places: there the strongest cell of the head is chosen. */
  const strongest = () => {
    const map = data() && mapAt(data(), state.layer, state.head, state.mean);
    if (!map) return;
    const first = state.kind === "decoder" && map.length > 1 ? 1 : 0; // the first token has but itself to read
    const [top, row] = map
      .slice(first)
      .reduce(
        (best, weights, r) => (Math.max(...weights) > best[0] ? [Math.max(...weights), r + first] : best),
        [0, first],
      );
    Object.assign(state, { row, key: map[row].indexOf(top), tokens: [] });
  };
  const pick = patch => {
    const moves = patch.kind !== undefined && patch.kind !== state.kind && patch.key === undefined;
    Object.assign(state, patch, { picked: true });
    settle();
    if (moves) strongest();
    show();
    clearTimeout(telling); // an arrow key held down is one choice
    telling = setTimeout(tell, 200);
  };
  /** A token that reads: alone, or one more or less of several. */
  const pickRow = (row, several) => {
    const rows = [state.row, ...state.tokens];
    if (!several) return pick({ row, tokens: [] });
    const left = rows.includes(row) ? rows.filter(r => r !== row) : [...rows, row];
    const [first, ...tokens] = left.length ? left : [row];
    return pick({ row: first, tokens });
  };
  const board = {
    pick,
    pickRow,
    sieve: patch => {
      Object.assign(state, patch);
      show();
    },
    drawLines: lines => {
      state.lines = lines;
      show();
    },
    toggleInside: () => {
      state.inside = !state.inside;
      show();
    },
    toggleMore: isOpen => {
      if (state.more === isOpen) return;
      state.more = isOpen;
      show();
    },
    askCell: () => {
      const { id, kind, layer, head } = state;
      trigger("look_inside", { id, kind, layer, head, ...placeOf() });
    },
    move: (axis, i) => {
      const { of, from } = data();
      const [row, column] = from;
      const start = windowStarts(of[axis === "row" ? 0 : 1], state.window.size)[i];
      moving = true;
      show();
      const place = axis === "row" ? { row: start, column } : { row, column: start };
      trigger("move_window", { ...place, sent_at: sentAt() });
    },
    /** The lens as it stands, to be saved whole: its value, its maps; null where not all of them are here. */
    whole: () => {
      const { kind, layer, head, row, key, kinds } = state;
      const value = { ...state.value, kind, layer, head, query: row, key, asks: [] };
      return Object.values(kinds).some(one => one.small) ? null : { value, kinds };
    },
    /** The lines of Python for the head that is shown. */
    python: text => {
      const lines = linesForHead(text, state);
      return state.mean ? lines.replace("[layer, head]", "[layer].mean(0)") : lines;
    },
    file: () => {
      const { kind, layer, head, mean } = state;
      const { layers, heads } = data();
      return `attention-${kind}-layer-${layers[layer] + 1}-${mean ? "mean" : `head-${heads[head] + 1}`}`;
    },
  };
  const panels = [lensMap(main, board, slots.map), lensHeads(main, board, slots.heads), lensCell(main, board)];

  /** @returns {LensView} */
  const look = () => {
    const d = data();
    const { floor, sink, row, key, layer, head, mean } = state;
    const sieve = { floor, sink: sink && !d?.from?.[1] };
    const common = { ...state, kinds: Object.keys(state.kinds), all: state.kinds, data: d, sieve, at: placeOf() };
    if (!d) return { ...common, map: null, waiting: false };
    const map = mapAt(d, layer, head, mean);
    return {
      ...common,
      map,
      waiting: moving || !map,
      shown: map && (sieve.sink || floor) ? sieved(map, sieve) : map,
      selected: key === null ? null : { r: row, c: key },
      rows: [row, ...state.tokens].sort((a, b) => a - b),
      masked: key !== null && Boolean(d.allowed && !d.allowed[row][key]),
    };
  };
  const fetchMissing = (/** @type {LensView} */ view) => {
    if (!view.data || view.map) return;
    const { id, kind, layer, head, mean } = state;
    const place = [id, kind, layer, mean ? "mean" : head].join(".");
    if (asked !== place) trigger("fetch", { id, kind, layer, head: mean ? null : head });
    asked = place;
  };
  const show = () => {
    const view = look();
    panels.forEach(panel => panel.update(view));
    Object.assign(lens, { pick, wait, annotate });
    fetchMissing(view);
    tellOthers(view);
  };

  const annotate = heads => {
    if (JSON.stringify(heads) === JSON.stringify(state.heads)) return;
    state.heads = heads;
    panels[1].update(look());
  };
  const wait = on => {
    moving = on;
    if (data()) show();
  };

  /** What was asked for comes: a head, or what is behind a cell. */
  const receive = (/** @type {Partial<Board.LensHeadMessage & Board.LensCellMessage>} */ value) => {
    if (value.id !== state.id) return;
    if (value.cell) state.cell = value.cell;
    if (value.add) {
      const { kind, at, map } = value.add;
      const d = state.kinds[kind];
      d.whole.set(at, unpack(map, d.shape.slice(2)));
      if (d.whole.size > KEPT) d.whole.delete(d.whole.keys().next().value);
      asked = null;
    }
    show();
  };
  /** Places in the whole input → in the window that is shown. */
  const inWindow = ({ row, key, tokens = [] }) => {
    const [first, second] = data()?.from || [0, 0];
    const wide = data()?.cols.length ?? 0;
    const inside = key === null || key === undefined || key < second || key >= second + wide ? null : key - second;
    return { row: Math.max(0, row - first), key: inside, tokens: tokens.map(r => r - first).filter(r => r >= 0) };
  };
  const settleOn = ({ row, key, tokens, ...rest }) => {
    for (const name of SHARED) if (rest[name] !== undefined) state[name] = rest[name];
    if (!state.kinds[state.kind]) state.kind = Object.keys(state.kinds)[0] || null;
    Object.assign(state, inWindow({ row: row ?? 0, key: key ?? null, tokens }), { picked: true });
    telling = setTimeout(tell, 200); // the next input shows the same head
  };
  const update = (/** @type {Board.LensValue} */ value) => {
    const before = { ...placeOf(), tokens: [] };
    const same = state.picked && value?.id === state.id; // another window of the same input
    state.kinds = opened(value?.kinds);
    const first = Object.keys(state.kinds)[0] || null;
    const title = value?.title || "";
    moving = false;
    state.value = /** @type {Board.LensValue} */ (value);
    // the same input, answered once more: what was picked meanwhile stays
    if (!(state.picked && title === state.title && state.kinds[state.kind])) {
      Object.assign(state, {
        kind: state.kinds[value?.kind] ? value.kind : first,
        layer: value?.layer ?? 0,
        head: value?.head ?? 0,
        tokens: [],
        picked: false,
      });
      Object.assign(state, inWindow({ row: value?.query ?? state.row, key: value?.key ?? state.key }));
    } else if (same) Object.assign(state, inWindow({ row: before.query, key: before.key }));
    Object.assign(state, {
      title,
      untrained: Boolean(value?.untrained),
      silent: Boolean(value) && !first,
      asks: value?.asks || [],
      window: value?.window || null,
      id: value?.id ?? null,
      cell: null,
    });
    if (pending && first) {
      settleOn(pending);
      pending = null;
    }
    settle();
    show();
  };
  /** What a link keeps; places are those of the whole input. */
  const keep = () => {
    const { query, key } = placeOf();
    const first = data()?.from?.[0] || 0;
    const kept = Object.fromEntries(SHARED.map(name => [name, state[name]]));
    return { ...kept, row: query, key, tokens: state.tokens.map(r => r + first), window: data()?.from || null };
  };
  const restore = kept => {
    if (!data()) {
      pending = kept; // until there is something to show
      return;
    }
    settleOn(kept);
    settle();
    show();
  };
  return { update, receive, state: keep, restore };
};

export { explore_board, lens, linesForHead };
