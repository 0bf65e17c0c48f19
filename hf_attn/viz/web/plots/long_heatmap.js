/* A map of any length: up to 64 tokens it is the heatmap itself; beyond, an overview pooled by the maximum and a
   window of 48 with labels. The frame in the overview is dragged, or moved by Page Up and Page Down.

   const view = mapView(host, options) takes and updates the same options as heatmap, and
   from   [row, column] where the given map begins in a longer one: what tokens are called counts from there
   lines, onLines(lines)   whether it is drawn as lines between words, which a switch beside the exports chooses;
          view.lines() says whether it is, and view.drawLines(lines) chooses from outside */
import { buildSegment, el } from "../core/dom.js";
import { clamp, count, shown } from "../core/format.js";
import { thumb } from "../core/surface.js";
import { onLook, themeOf } from "../core/theme.js";
import { heatmap } from "./heatmap.js";

const LONGEST = 64;
const WINDOW = 48;
const OVERVIEW = 180;
const TOPS = [0.01, 0.02, 0.05, 0.1, 0.2];

/** Where every weight is small the scale ends at a round number above the largest. */
const topOf = values => TOPS.find(top => values.every(row => row.every(v => v <= top))) ?? 1;

const overview = (host, onMove) => {
  const picture = el("div", "hf-overview");
  const canvas = el("canvas");
  const frame = el("i");
  const note = el("p", "hf-hint");
  canvas.setAttribute("role", "img");
  picture.append(canvas, frame);
  host.append(picture, note);
  let o = null;
  const drag = event => {
    const box = canvas.getBoundingClientRect();
    onMove((event.clientY - box.top) / box.height, (event.clientX - box.left) / box.width);
  };
  picture.addEventListener("pointerdown", event => {
    picture.setPointerCapture(event.pointerId);
    drag(event);
  });
  picture.addEventListener("pointermove", event => {
    if (event.buttons) drag(event);
  });
  const paint = () => {
    if (o) thumb(canvas, o.values, themeOf(host), { most: o.top, longest: OVERVIEW });
  };
  onLook(canvas, paint);
  const update = (values, at) => {
    const [m, n] = [values.length, values[0].length];
    const by = Math.ceil(Math.max(m, n) / OVERVIEW);
    if (o?.values !== values) {
      o = { values, top: topOf(values) };
      paint();
    }
    canvas.setAttribute("aria-label", `Overview of ${count(m)} queries by ${count(n)} keys`);
    const share = (part, whole) => `${(100 * part) / whole}%`;
    Object.assign(frame.style, {
      top: share(at.r, m),
      left: share(at.c, n),
      height: share(Math.min(WINDOW, m), m),
      width: share(Math.min(WINDOW, n), n),
    });
    note.textContent = `${by > 1 ? `Each pixel is the largest of ${by} × ${by} weights. ` : ""}Drag the frame, or use Page Up and Page Down.`;
  };
  return { update };
};

const mapView = (host, options) => {
  const o = { rows: [], cols: [], values: [], selected: null, ...options };
  const at = { r: 0, c: 0 };
  const side = el("div", "hf-overview-side");
  const main = el("div");
  host.classList.add("hf-map-view");
  host.append(side, main);

  const long = () => o.rows.length > LONGEST || o.cols.length > LONGEST;
  const move = (r, c) => {
    at.r = clamp(Math.round(r), 0, Math.max(0, o.rows.length - WINDOW));
    at.c = clamp(Math.round(c), 0, Math.max(0, o.cols.length - WINDOW));
    show();
  };
  const page = way => {
    // along the diagonal, where most maps have their weight
    const part = o.cols.length / o.rows.length;
    move(at.r + way * WINDOW, at.c + way * WINDOW * part);
  };
  const inside = sel => sel && sel.r >= at.r && sel.r < at.r + WINDOW && sel.c >= at.c && sel.c < at.c + WINDOW;
  const cut = (grid, isRow) => {
    const rows = grid?.slice(at.r, at.r + WINDOW);
    return isRow ? rows : rows?.map(row => row.slice(at.c, at.c + WINDOW));
  };
  const names = (labels, from, before = 0, most = WINDOW) =>
    labels.slice(from, from + most).map((label, i) => `${shown(label)} ${count(before + from + i + 1)}`);
  /** The scale of all maps that it is one of, where they have one. */
  const mostOf = values => Math.max(topOf(values), o.top ?? 0);
  const windowed = () => ({
    ...o,
    rows: cut(o.rows, true),
    cols: o.cols.slice(at.c, at.c + WINDOW),
    values: cut(o.values),
    most: mostOf(cut(o.values)),
    allowed: cut(o.allowed) || null,
    truth: cut(o.truth) || null,
    padding: o.padding?.slice(at.c, at.c + WINDOW),
    whole: o,
    rowNames: names(o.rows, at.r, o.from?.[0]),
    colNames: names(o.cols, at.c, o.from?.[1]),
    also: o.also?.map(r => r - at.r).filter(r => r >= 0 && r < WINDOW),
    onPage: page,
    selected: inside(o.selected) ? { r: o.selected.r - at.r, c: o.selected.c - at.c } : null,
  });
  const whole = () => ({ ...o, most: mostOf(o.values), whole: null, rowNames: null, colNames: null, onPage: null });
  const onSelect = sel => {
    const { r, c } = long() ? at : { r: 0, c: 0 };
    o.selected = sel && { r: sel.r + r, c: sel.c + c };
    o.onSelect?.(o.selected);
  };
  const map = heatmap(main, { name: o.name, onSelect });
  const drawLines = lines => {
    o.lines = lines;
    show();
    o.onLines?.(lines);
  };
  const drawings = buildSegment("Drawn as", i => drawLines(i === 1));
  const small = overview(side, (r, c) => move(r * o.rows.length - WINDOW / 2, c * o.cols.length - WINDOW / 2));
  const show = () => {
    side.hidden = !long();
    drawings.update(["Map", "Lines"], o.lines ? 1 : 0);
    map.update({ ...(long() ? windowed() : whole()), onSelect });
    if (long()) small.update(o.values, at);
  };
  const follow = () => {
    // a chosen cell outside the window brings the window to it
    if (long() && o.selected && !inside(o.selected)) move(o.selected.r - WINDOW / 2, o.selected.c - WINDOW / 2);
  };
  const update = patch => {
    Object.assign(o, patch);
    at.r = clamp(at.r, 0, Math.max(0, o.rows.length - WINDOW));
    at.c = clamp(at.c, 0, Math.max(0, o.cols.length - WINDOW));
    follow();
    show();
  };
  const exports = (file, more) => {
    const row = map.exports(file, more);
    row.prepend(drawings.element);
    return row;
  };
  return { update, exports, say: map.say, lines: () => Boolean(o.lines), drawLines };
};

export { mapView, topOf };
