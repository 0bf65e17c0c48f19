/* An attention map drawn as lines: queries at the left, keys at the right, a line from each query to what it reads, as
   wide and as dense as the weight. Pure functions, called as those of heatmap_paint.js and with the options of
   heatmap.js; `part` says which window of a longer map is shown. A word is a cell without its other half: {r, c: null}
   is a query, {r: null, c} a key; while one is pointed at, only its lines are drawn, with their weights. The known
   answers of a word that is pointed at or chosen are ringed. */
import { clamp, number, range, sum, weight } from "../core/format.js";
import { colourOf, css, drawText, font } from "../core/theme.js";
import { heatmapPaint } from "./heatmap_paint.js";
import { paintLegend } from "./legend.js";

const LEAST = 0.02; // of the scale's end: below it no line is drawn
const MANY = 12; // lines that one query has at most
const WIDEST = 10; // px, at the end of the scale
const LIGHTEST = 0.25; // opacity of the thinnest line; that of the widest is 1
const INK = 0.7; // the place of all lines' colour on the attention scale
const BEHIND = 0.3; // of its opacity, where another query is chosen
const [TOP, NAME, GAP, FIGURE, CURVE] = [26, 92, 8, 34, 420]; // px: axis names, one of them, word to line, weight, line
const PITCH = { least: 16, most: 26, all: 416, slide: 34 }; // px from one word to the next

/* ---- what is drawn ---- */

const opacity = share => LIGHTEST + (1 - LIGHTEST) * share;

/** The strongest weights of each query: [{r, c, share}], share of the scale. */
const linesOf = (o, values) =>
  values.flatMap((row, r) =>
    range(row.length)
      .filter(c => heatmapPaint.readable(o, r, c) && row[c] >= LEAST * o.most)
      .sort((a, b) => row[b] - row[a])
      .slice(0, MANY)
      .map(c => ({ r, c, share: Math.min(1, row[c] / o.most) })),
  );
const isOf = (word, { r, c }) => (word.r === null || word.r === r) && (word.c === null || word.c === c);

/** A word as a cell: what a query reads most, who of all reads a key most; a chosen query stays. */
const cellOf = (o, { r, c }) => {
  const best = weights => weights.indexOf(Math.max(...weights));
  if (r === null) return { r: o.selected?.r ?? best(o.values.map(row => row[c])), c };
  return { r, c: c ?? best(o.values[r]) };
};

/** The second line of a word's tip. */
const toldOf = (o, word) => {
  const own = linesOf(o, o.values).filter(line => isOf(word, line));
  const all = sum(own.map(({ r, c }) => o.values[r][c]));
  return `${own.length} line${own.length === 1 ? "" : "s"}, together ${number(all, 3)}`;
};

/** The caption: what a line is, and what is left out. */
const caption = o => {
  const many = o.cols.length > MANY ? `; at most ${MANY} lines a query` : "";
  const least = String(Number((LEAST * o.most).toFixed(4)));
  return `weight; no line below ${least}${many}${o.part ? `; ${o.part}` : ""}`;
};

/* ---- where everything goes ---- */

const layout = (ctx, width, theme, o, room) => {
  ctx.font = font(theme, 13, 600);
  const sideOf = labels =>
    Math.ceil(Math.max(...labels.map(label => ctx.measureText(heatmapPaint.text(label)).width))) + GAP + FIGURE;
  const [m, n] = [o.rows.length, o.cols.length];
  const [x0, right, most] = [sideOf(o.rows), sideOf(o.cols), Math.max(m, n)];
  const pitch = room
    ? Math.min(PITCH.slide, (room.height - TOP) / most)
    : clamp(PITCH.all / most, PITCH.least, PITCH.most);
  const x1 = x0 + clamp(width - x0 - right, 40, room ? Infinity : CURVE);
  const every = pitch >= 14 ? 1 : heatmapPaint.stepFor(14 / pitch);
  const y = (count, i) => TOP + ((most - count) / 2 + i + 0.5) * pitch; // the shorter list stands in the middle
  const at = (px, py) => {
    const [isRow, count] = px < x0 ? [true, m] : [false, n];
    const i = Math.round((py - y(count, 0)) / pitch);
    if ((px > x0 && px < x1) || i < 0 || i >= count) return null;
    return isRow ? { r: i, c: null } : { r: null, c: i };
  };
  const size = { width: Math.max(x1 + right, 2 * NAME + 16), height: TOP + most * pitch + 2 };
  const labels = { everyR: every, everyC: every, h: pitch, w: pitch, numbers: 6, slanted: false };
  return { x0, x1, m, n, pitch, y, at, ...labels, ...size };
};

/* ---- words and lines ---- */

const axes = (ctx, theme, box) => {
  const name = (role, more, x) =>
    drawText(ctx, theme, more, x + drawText(ctx, theme, role, x, 10, { colour: theme[role], weight: 600 }), 10, {});
  name("query", ": reads ↓", 0);
  name("key", ": is read ↓", Math.min(box.x1 + GAP, box.width - NAME));
};

/** One word, its weight beside it where there is one; state: "", "on" or "chosen". */
const drawWord = (ctx, theme, box, o, role, i, { label, state, off, figure, bold, ring }) => {
  const isRow = role === "query";
  const way = isRow ? -1 : 1;
  const [x, y] = [isRow ? box.x0 - GAP : box.x1 + GAP, box.y(isRow ? box.m : box.n, i)];
  const align = isRow ? "right" : "left";
  ctx.font = font(theme, 13, state ? 600 : 500);
  const wide = ctx.measureText(label).width;
  const left = isRow ? x - wide : x;
  const tall = box.everyR > 1 ? 20 : Math.min(20, box.pitch); // thinned out, labels have room
  ctx.beginPath();
  ctx.roundRect(left - 5, y - tall / 2, wide + 10, tall, ring ? tall / 2 : 4);
  ctx.fillStyle = theme[`${role}-soft`];
  ctx.strokeStyle = theme.ink;
  ctx.lineWidth = 1.25;
  ctx.setLineDash(ring === 2 ? [2, 3] : []);
  if (state === "chosen") ctx.fill();
  if (ring) ctx.stroke();
  ctx.setLineDash([]);
  const colour = state ? theme[role] : off ? theme["ink-3"] : theme["ink-2"];
  drawText(ctx, theme, label, x, y + 0.5, { align, colour, weight: state ? 600 : 500, size: 13 });
  if (!isRow && o.padding?.[i]) ctx.fillRect(left - 2, y - 0.5, wide + 4, 1.25); // struck out
  const look = { align, colour: theme.ink, weight: bold ? 700 : 400, size: 12 };
  if (figure !== null) drawText(ctx, theme, weight(figure), x + way * (wide + 11), y + 0.5, look);
};

const words = (ctx, theme, box, o, hover, lines) => {
  const at = hover ?? (o.selected ? { r: o.selected.r, c: null } : { r: null, c: null });
  const isChosen = (axis, i) => o.selected?.[axis] === i || Boolean(axis === "r" && o.also?.includes(i));
  const draw = (axis, count) => {
    for (const i of range(count)) {
      const marked = at[axis] ?? o.selected?.[axis] ?? null;
      const label = heatmapPaint.labelOf(box, o, axis === "r" ? "row" : "col", i, marked);
      if (!label) continue;
      const cell = axis === "r" ? { r: i, c: at.c } : { r: at.r, c: i };
      const isMet = cell.r !== null && cell.c !== null; // the pointed or chosen word is on the other side
      const bold = isMet && o.selected?.r === cell.r && o.selected?.c === cell.c;
      const off = isMet && !heatmapPaint.readable(o, cell.r, cell.c);
      const has = isMet && !off && (bold || lines.some(line => line.r === cell.r && line.c === cell.c));
      const state = isChosen(axis, i) ? "chosen" : at[axis] === i ? "on" : "";
      const ring = isMet && o.truth?.[cell.r]?.[cell.c];
      const look = { label, state, off, figure: has ? o.values[cell.r][cell.c] : null, bold, ring };
      drawWord(ctx, theme, box, o, axis === "r" ? "query" : "key", i, look);
    }
  };
  draw("r", box.m);
  draw("c", box.n);
};

const paint = (ctx, theme, box, o, values, hover) => {
  const lines = linesOf(o, values);
  const rows = o.selected ? [o.selected.r, ...(o.also ?? [])] : (o.also ?? []);
  const lit = hover ? line => isOf(hover, line) : ({ r }) => !rows.length || rows.includes(r);
  const drawn = (hover ? lines.filter(lit) : lines).map(line => ({ ...line, lit: lit(line) }));
  drawn.sort((a, b) => Number(a.lit) - Number(b.lit) || a.share - b.share); // the strongest chosen one lies on top
  const [x0, x1, bend] = [box.x0, box.x1, (box.x1 - box.x0) * 0.45];
  ctx.strokeStyle = css(colourOf(theme, INK));
  for (const { r, c, share, lit } of drawn) {
    const [y0, y1] = [box.y(box.m, r), box.y(box.n, c)];
    ctx.lineWidth = WIDEST * share;
    ctx.globalAlpha = opacity(share) * (lit ? 1 : BEHIND);
    ctx.beginPath();
    ctx.moveTo(x0, y0);
    ctx.bezierCurveTo(x0 + bend, y0, x1 - bend, y1, x1, y1);
    ctx.stroke();
  }
  ctx.globalAlpha = 1;
  axes(ctx, theme, box);
  words(ctx, theme, box, o, hover, lines);
};

/* ---- the caption, with a line that grows as its weight ---- */

const legend = (ctx, width, theme, o, size) => {
  const steps = (x, y) => {
    drawText(ctx, theme, "0", x, y, { colour: theme["ink-2"] });
    ctx.fillStyle = css(colourOf(theme, INK));
    for (const i of range(10)) {
      ctx.globalAlpha = opacity((i + 1) / 10);
      ctx.fillRect(x + 13 + 7 * i, y - (WIDEST * (i + 1)) / 20, 6, (WIDEST * (i + 1)) / 10);
    }
    ctx.globalAlpha = 1;
  };
  const scale = [90, `${Number(o.most.toFixed(3))}   ${caption(o)}`, steps];
  paintLegend(ctx, width, theme, size, [scale, ...heatmapPaint.ringParts(ctx, theme, o)].filter(Boolean));
};

const mapLines = { layout, paint, legend, caption, cellOf, toldOf };

export { mapLines };
