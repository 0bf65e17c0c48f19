/* The attention map: hover tip, chosen cell, keyboard, live line, table, legend, exports.

   const map = heatmap(host, options); map.update({values: …})
   options  rows, cols     labels of the queries and of the keys
            values[r][c]   weights 0..1
            most           end of the colour scale (1; the legend says so where it is less)
            allowed[r][c]  false = masked: hatched, no number
            padding[c]     true = padding: hatched, label struck out
            truth[r][c]    1 = known answer (ring), 2 = carried or indirect (dotted ring)
            selected       {r, c} or null: the chosen cell;  also  other rows that are chosen
            onSelect({r, c} | null)
            maxCell        60
            name           what the map is, for the reader of the screen
            sums           false where small weights are left out, so that rows do not sum to 1
            rowNames, colNames   what to call a token in words, where its place in the labels is not its place
            whole          {rows, cols, values} that the CSV holds, where only a window of it is shown
            onPage(-1 | 1) what Page Up and Page Down do instead of moving the cell
            lines          drawn as lines between words (map_lines.js)
   Maps of over 64 tokens show a window of them beside an overview pooled by the maximum (long_heatmap.js). */
import { el, live } from "../core/dom.js";
import { count, named, number, shown } from "../core/format.js";
import { surface } from "../core/surface.js";
import { numbersTable, takeRow } from "../export/buttons.js";
import { heatmapPaint } from "./heatmap_paint.js";
import { mapCells } from "./map_cells.js";
import { mapLines } from "./map_lines.js";

const nameOf = (o, axis, i) => o[axis + "Names"]?.[i] ?? named(o[axis + "s"], i);

const words = (o, { r, c }) => {
  if (r === null) return [`${nameOf(o, "col", c)} is read`, mapLines.toldOf(o, { r, c })];
  if (c === null) return [`${nameOf(o, "row", r)} reads`, mapLines.toldOf(o, { r, c })];
  const [query, key] = [nameOf(o, "row", r), nameOf(o, "col", c)];
  if (o.padding?.[c]) return [`${query} may not read ${key}`, "padding"];
  if (!heatmapPaint.readable(o, r, c)) return [`${query} may not read ${key}`, "masked"];
  return [`${query} reads ${key}`, "weight " + number(o.values[r][c], 3)];
};

/** The chosen cell in words: the title of a slide. */
const sentence = o => {
  if (!o.selected) return null;
  const { r, c } = o.selected;
  const [query, key] = [nameOf(o, "row", r), nameOf(o, "col", c)];
  const reads = heatmapPaint.readable(o, r, c);
  const end = reads ? ` with weight ${number(o.values[r][c], 3)}` : "";
  return [[query, "query"], reads ? " reads " : " may not read ", [key, "key"], end];
};

/** The same numbers as a table with row and column headers. */
const table = o => {
  const value = (r, c) => (heatmapPaint.readable(o, r, c) ? number(o.values[r][c], 3) : "masked");
  const heads = ["query", ...o.cols.map((_, c) => nameOf(o, "col", c))];
  const rows = o.rows.map((_, r) => [nameOf(o, "row", r), ...o.cols.map((_, c) => value(r, c))]);
  const caption = `${o.name}: each row is a query that reads, each column a key that is read.`;
  return numbersTable([heads, ...rows], caption, { name: o.name });
};

/** Where the first row's largest weight stands: what Enter pins where nothing is pointed at. */
const strongest = o => ({ r: 0, c: o.values[0].indexOf(Math.max(...o.values[0])) });

/* one map fades into the next; a new size, or a reader who wants no motion, gets it at once */
const APART = 40; // ms between two frames: while a model learns one map always fades, on its machine
const fader = redraw => {
  let from = null;
  let since = 0;
  const sameShape = (a, b) => a && b && a.length === b.length && a[0].length === b[0].length;
  return {
    start: (before, after) => {
      from = sameShape(before, after) && before !== after ? before : null;
      since = performance.now();
    },
    now: (values, lasts) => {
      const t = from && lasts ? (performance.now() - since) / lasts : 1;
      if (t >= 1) {
        from = null;
        return values;
      }
      setTimeout(redraw, APART);
      return values.map((row, r) => row.map((v, c) => from[r][c] + (v - from[r][c]) * t));
    },
  };
};

/** Options that a saved page has; the weights are shortened. */
const SAVED = ["rows", "cols", "values", "most", "allowed", "padding", "truth", "selected", "sums", "from", "name"];

/** What the legend hangs on. */
const legendOf = ({ most, sums, truth, allowed, padding, lines, cols, part }) =>
  JSON.stringify(lines ? [most, truth, cols.length, part] : [most, sums, truth, allowed, padding]);

/** What draws it. */
const drawing = o => (o.lines ? mapLines : heatmapPaint);

/* where everything goes, found anew only where something that it hangs on is new: not in each frame of a fade */
const laidOut = o => {
  let had = { on: [], plan: null };
  return (ctx, width, theme) => {
    const on = [width, theme, JSON.stringify([o.rows, o.cols]), o.maxCell, Boolean(o.lines)];
    if (on.some((one, i) => one !== had.on[i])) had = { on, plan: drawing(o).layout(ctx, width, theme, o) };
    return had.plan;
  };
};

const SCALE = "Colour scale from 0 to 1";

const heatmap = (host, options) => {
  const o = { rows: [], cols: [], values: [], maxCell: 60, most: 1, selected: null, ...options };
  const pictureHost = el("div");
  const legendHost = el("div", "hf-legend");
  const spoken = live();
  host.append(pictureHost, legendHost, spoken.element);
  const layout = laidOut(o);
  let box = null;
  /** Which part of the map a window shows. */
  const partOf = () => {
    const part = (names, of) =>
      `${names[0].split(" ").at(-1)} to ${names.at(-1).split(" ").at(-1)} of ${count(of.length)}`;
    return o.whole && `queries ${part(o.rowNames, o.whole.rows)}, keys ${part(o.colNames, o.whole.cols)}`;
  };
  const label = () => `${o.name}: ${o.rows.length} queries by ${o.cols.length} keys`;
  const paint = (ctx, width, theme, size, room) => {
    const plan = room ? drawing(o).layout(ctx, width, theme, o, room) : layout(ctx, width, theme);
    size(Math.min(width, plan.width), plan.height);
    if (room) return drawing(o).paint(ctx, theme, plan, o, o.values, null);
    drawing(o).paint(ctx, theme, plan, o, fade.now(o.values, theme.fade), cells.hover || focused());
    box = plan;
  };
  const legend = (ctx, width, theme, size) => drawing(o).legend(ctx, width, theme, o, size);
  const picture = surface(pictureHost, label(), paint, { title: () => sentence(o), legend });
  const fade = fader(picture.redraw);
  const scale = surface(legendHost, SCALE, legend);
  let side = null; // "r" or "c": whether the keys moved along the queries or the keys; only that word has lines then
  const focused = () => o.lines && side && o.selected && { r: null, c: null, [side]: o.selected[side] };
  const look = next => {
    if (side === next) return;
    side = next;
    if (o.lines) picture.redraw();
  };
  picture.canvas.addEventListener("focus", () => picture.canvas.matches(":focus-visible") && look("r"));
  picture.canvas.addEventListener("blur", () => look(null));
  picture.canvas.addEventListener("pointerdown", () => look(null));
  picture.canvas.addEventListener("keydown", ({ key }) => {
    if (/^(Arrow(Left|Right)|Home|End)$/.test(key)) look("c");
    else if (/^(Arrow|Page)(Up|Down)$/.test(key)) look("r");
  });
  const onKey = (event, choose) => {
    if (event.key === "Escape" && o.selected) choose(null);
    else if (event.key === "Enter") {
      event.preventDefault();
      choose(cells.hover || o.selected || strongest(o));
    } else if (o.onPage && /^Page(Up|Down)$/.test(event.key)) {
      event.preventDefault();
      o.onPage(event.key === "PageUp" ? -1 : 1);
    } else return false;
    return true;
  };
  const whole = at => (o.lines ? mapLines.cellOf(o, at) : at);
  const told = { spoken, box: () => box, words: at => words(o, at), page: 16, onKey, whole };
  const cells = mapCells(picture, o, told);

  let take = null; // once the map can be taken away
  const update = patch => {
    const [before, told, drawn] = [o.values, legendOf(o), drawing(o)];
    Object.assign(o, patch);
    o.part = partOf();
    const isGone = cells.hover?.r >= o.rows.length || cells.hover?.c >= o.cols.length;
    if (isGone || drawn !== drawing(o)) cells.hover = null;
    fade.start(before, o.values);
    picture.relabel(label(), [o.name, !o.lines && o.part].filter(Boolean).join("; "));
    picture.redraw();
    if (legendOf(o) !== told || drawn !== drawing(o)) {
      legendHost.classList.toggle("caption", Boolean(o.lines)); // it says what is left out: seen in any width
      scale.relabel(o.lines ? `Lines: ${mapLines.caption(o)}` : SCALE);
      scale.redraw();
    }
    take?.refresh();
  };
  const short = v => Number(v.toFixed(5));
  const lines = () => {
    const { rows, cols, values } = o.whole || o;
    return [["query \\ key", ...cols.map(shown)], ...rows.map((row, r) => [shown(row), ...values[r].map(short)])];
  };
  const arrays = () => {
    const { rows, cols, values } = o.whole || o;
    return { weights: values, query_tokens: rows, key_tokens: cols }; // as hf_attn.viz.draw_map names them
  };
  const page = file => () => {
    const all = o.whole || o;
    const map = Object.fromEntries(SAVED.map(name => [name, all[name]]));
    map.values = all.values.map(row => row.map(short));
    map.lines = Boolean(o.lines);
    return { kind: "map", title: all.name, value: { map, file: file() } };
  };

  /** Buttons that take the map away, named file; `more` as takeRow takes it, where other weights belong to it. */
  const exports = (file, more = {}) => {
    const given = {
      of: "this map",
      picture,
      file,
      lines,
      arrays,
      page: page(file),
      caption: () => o.name,
      table: () => table(o),
    };
    take = takeRow({ ...given, ...more });
    host.append(take.below);
    return take.row;
  };
  return { update, exports, say: spoken.say, element: host };
};

export { heatmap };
