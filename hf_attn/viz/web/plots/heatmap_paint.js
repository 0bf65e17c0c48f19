/* How an attention map is laid out and drawn. Pure functions of (context, options, theme): the same calls make the
   picture on the page, the PNG and the SVG. See heatmap.js for the options. */
import { clip, range, shown, weight } from "../core/format.js";
import { casedFrame } from "../core/surface.js";
import { colourOf, css, font, numberOn } from "../core/theme.js";

const ROLES = { query: ": reads ↓", key: ": is read →" };
const text = label => clip(shown(label));

/* ---- where everything goes ---- */

const measure = (ctx, theme, labels) => {
  ctx.font = font(theme, 13, 600); // as wide as the chosen one, so that choosing moves nothing
  return labels.map(label => ctx.measureText(text(label)).width);
};

const layout = (ctx, width, theme, o) => {
  const [rowWidths, colWidths] = [measure(ctx, theme, o.rows), measure(ctx, theme, o.cols)];
  const [n, m, widest] = [o.cols.length, o.rows.length, Math.max(...colWidths)];
  ctx.font = font(theme, 12, 600);
  const title = ctx.measureText("query" + ROLES.query).width + 12;
  const gutter = Math.max(...rowWidths) + 18;
  const oneLine = width < 420 && gutter < 60; // narrow map, short tokens: both axis names on one line above
  const x0 = Math.ceil(oneLine ? gutter : Math.max(gutter, title));
  const fit = over => Math.max(4, Math.min(o.maxCell, Math.floor((width - x0 - over - 1) / n)));
  const last = n - 1;
  const gap = c => (colWidths[c - 1] + colWidths[c]) / 2 + 6; // between the middles of a label and the one before
  // a first and a last label wider than the others ("start", "end") move outwards, if those have room without them
  const outwards = cell => (n < 3 ? [0, 0] : [gap(1), gap(last)].map(wanted => Math.max(0, wanted - cell)));
  const beyond = cell => Math.ceil(Math.max(0, outwards(cell)[1] + (colWidths[last] - cell) / 2));
  let over = beyond(fit(0));
  let cell = fit(over);
  const crowded =
    (n === 2 && gap(1) > cell) ||
    range(Math.max(0, n - 3)).some(i => gap(i + 2) > cell) ||
    colWidths[0] / 2 + outwards(cell)[0] + 4 > x0 + cell / 2;
  const slanted = crowded && widest > 12; // all slanted or none; never on end
  if (!slanted) over = beyond(cell);
  else {
    // the last slanted label needs room on the right
    over = Math.max(0, ...colWidths.map((w, c) => (w + 12) * 0.707 - (n - c - 0.5) * cell));
    cell = fit(over);
  }
  const everyC = slanted ? Math.ceil(17 / cell) : crowded ? Math.ceil((widest + 4) / cell) : 1;
  const y0 = slanted ? 40 + Math.ceil(widest * 0.707) : 50;
  return {
    x0,
    y0,
    n,
    m,
    cell,
    slanted,
    oneLine,
    title,
    everyC,
    outwards: slanted ? [0, 0] : outwards(cell),
    everyR: Math.ceil(14 / cell),
    gap: cell >= 18 ? 1 : 0,
    radius: cell >= 24 ? 2 : 0,
    width: Math.ceil(x0 + n * cell + over) + 1,
    height: y0 + m * cell + 2,
  };
};

/* ---- axes and labels ---- */

const axisName = (ctx, theme, role, x, y, align) => {
  ctx.textAlign = "left";
  ctx.textBaseline = "alphabetic";
  ctx.font = font(theme, 12, 600);
  const strong = ctx.measureText(role).width;
  ctx.font = font(theme, 12);
  const left = align === "right" ? x - strong - ctx.measureText(ROLES[role]).width : x;
  ctx.fillStyle = theme["ink-3"];
  ctx.fillText(ROLES[role], left + strong, y);
  ctx.font = font(theme, 12, 600);
  ctx.fillStyle = theme[role];
  ctx.fillText(role, left, y);
};

const axes = (ctx, theme, box) => {
  axisName(ctx, theme, "key", box.oneLine ? Math.max(box.x0, box.title + 14) : box.x0, 12, "left");
  if (box.oneLine) axisName(ctx, theme, "query", 0, 12, "left");
  else axisName(ctx, theme, "query", box.x0 - 10, box.y0 - 10, "right");
};

const pill = (ctx, colour, x, y, w, h) => {
  ctx.beginPath();
  ctx.roundRect(x, y, w, h, 4);
  ctx.fillStyle = colour;
  ctx.fill();
};

/* too dense for every label: every second, third, …; the marked one always, and its neighbours give way */
const isShown = (i, every, marked) =>
  i === marked || (i % every === 0 && !(every > 1 && marked !== null && Math.abs(marked - i) < every));

const colLabel = (ctx, theme, box, o, c, state) => {
  const label = text(o.cols[c]);
  ctx.font = font(theme, 13, state ? 600 : 500);
  const w = ctx.measureText(label).width;
  ctx.save();
  if (box.slanted) {
    ctx.translate(box.x0 + (c + 0.5) * box.cell - 3, box.y0 - 8);
    ctx.rotate(-Math.PI / 4);
  } else {
    const shift = c === 0 ? -box.outwards[0] : c === box.n - 1 ? box.outwards[1] : 0;
    ctx.translate(box.x0 + (c + 0.5) * box.cell - w / 2 - box.gap / 2 + shift, box.y0 - 12);
  }
  const tall = box.slanted ? 16 : 20; // slanted, its neighbours stand 12 px away
  if (state === "chosen") pill(ctx, theme["key-soft"], -4, 4 - tall + (tall - 16) / 2, w + 8, tall);
  ctx.fillStyle = state ? theme.key : o.padding?.[c] ? theme["ink-3"] : theme["ink-2"];
  ctx.textAlign = "left";
  ctx.textBaseline = "alphabetic";
  ctx.fillText(label, 0, 0);
  if (o.padding?.[c]) ctx.fillRect(-2, -5, w + 4, 1.25); // struck out
  ctx.restore();
};

const rowLabel = (ctx, theme, box, o, r, state) => {
  const label = text(o.rows[r]);
  const y = box.y0 + (r + 0.5) * box.cell;
  ctx.font = font(theme, 13, state ? 600 : 500);
  const w = ctx.measureText(label).width;
  if (state === "chosen") pill(ctx, theme["query-soft"], box.x0 - 15 - w, y - 10, w + 10, 20);
  ctx.fillStyle = state ? theme.query : theme["ink-2"];
  ctx.textAlign = "right";
  ctx.textBaseline = "middle";
  ctx.fillText(label, box.x0 - 10, y + 0.5);
};

const labels = (ctx, theme, box, o, hover) => {
  const at = hover || o.selected;
  const isChosen = (i, key) => o.selected?.[key] === i || (key === "r" && Boolean(o.also?.includes(i)));
  const stateOf = (i, key) => (isChosen(i, key) ? "chosen" : at?.[key] === i ? "hover" : "");
  for (const c of range(box.n))
    if (isShown(c, box.everyC, at ? at.c : null)) colLabel(ctx, theme, box, o, c, stateOf(c, "c"));
  for (const r of range(box.m))
    if (isShown(r, box.everyR, at ? at.r : null)) rowLabel(ctx, theme, box, o, r, stateOf(r, "r"));
};

/* ---- cells and marks ---- */

const readable = (o, r, c) => !o.padding?.[c] && (!o.allowed || o.allowed[r][c]);

const hatch = (ctx, theme, x, y, s, radius) => {
  ctx.save();
  ctx.beginPath();
  ctx.roundRect(x, y, s, s, radius);
  ctx.fillStyle = theme.sunken;
  ctx.fill();
  ctx.clip();
  ctx.strokeStyle = theme["line-strong"];
  ctx.lineWidth = 1;
  ctx.beginPath();
  for (let k = -s; k < s; k += 7) {
    ctx.moveTo(x + k, y + s);
    ctx.lineTo(x + k + s, y);
  }
  ctx.stroke();
  ctx.restore();
};

const cellOf = (ctx, theme, box, o, values, r, c) => {
  const [x, y, s] = [box.x0 + c * box.cell, box.y0 + r * box.cell, box.cell - box.gap];
  if (!readable(o, r, c)) {
    hatch(ctx, theme, x, y, s, box.radius);
    return;
  }
  const rgb = colourOf(theme, values[r][c], o.most);
  const value = o.values[r][c];
  ctx.beginPath();
  ctx.roundRect(x, y, s, s, box.radius);
  ctx.fillStyle = css(rgb);
  ctx.fill();
  if (box.cell < 27 || (box.n > 12 && value < 0.05)) return; // many keys: the small numbers would only be noise
  const bold = o.selected?.r === r && o.selected?.c === c;
  ctx.font = font(theme, box.cell >= 38 ? 13 : 12, bold ? 700 : 400);
  ctx.fillStyle = numberOn(theme, rgb);
  ctx.textAlign = "center";
  ctx.textBaseline = "middle";
  ctx.fillText(weight(value), x + s / 2, y + s / 2 + 1);
};

const ring = (ctx, theme, box, o, values, r, c) => {
  // in the colour a number would have there
  const s = box.cell - box.gap;
  const thick = box.cell >= 24;
  ctx.strokeStyle = readable(o, r, c) ? numberOn(theme, colourOf(theme, values[r][c], o.most)) : theme.ink;
  ctx.lineWidth = thick ? 1.75 : 1.25;
  ctx.setLineDash(o.truth[r][c] === 2 ? [2, 3.5] : []);
  ctx.beginPath();
  ctx.arc(
    box.x0 + c * box.cell + s / 2,
    box.y0 + r * box.cell + s / 2,
    Math.max(1, s / 2 - (thick ? 4 : 1.5)),
    0,
    2 * Math.PI,
  );
  ctx.stroke();
  ctx.setLineDash([]);
};

const rowFrame = (ctx, theme, box, r) => {
  const [wide, tall] = [box.n * box.cell + 2 - box.gap, box.cell - box.gap + 2];
  casedFrame(ctx, theme, [box.x0 - 1, box.y0 + r * box.cell - 1, wide, tall, 3], theme.query, 1.25);
};

const chosen = (ctx, theme, box, { r, c }) => {
  const s = box.cell - box.gap;
  const [x, y] = [box.x0 + c * box.cell - 1, box.y0 + r * box.cell - 1];
  rowFrame(ctx, theme, box, r);
  casedFrame(ctx, theme, [x, box.y0 - 1, s + 2, box.m * box.cell + 2 - box.gap, 3], theme.key, 1.25);
  casedFrame(ctx, theme, [x, y, s + 2, s + 2, 3], theme.ink, 2);
};

const hovered = (ctx, theme, box, { r, c }) => {
  const s = box.cell - box.gap;
  ctx.lineWidth = 1.5;
  ctx.strokeStyle = theme.ink;
  ctx.beginPath();
  ctx.roundRect(box.x0 + c * box.cell - 0.5, box.y0 + r * box.cell - 0.5, s + 1, s + 1, 3);
  ctx.stroke();
};

/** Draw the map; values are what is shown now (halfway, while one map fades into the next). */
const paint = (ctx, theme, box, o, values, hover) => {
  axes(ctx, theme, box);
  labels(ctx, theme, box, o, hover);
  for (const r of range(box.m)) for (const c of range(box.n)) cellOf(ctx, theme, box, o, values, r, c);
  if (o.truth)
    for (const r of range(box.m))
      for (const c of range(box.n)) if (o.truth[r]?.[c]) ring(ctx, theme, box, o, values, r, c);
  for (const r of o.also || []) rowFrame(ctx, theme, box, r);
  if (o.selected) chosen(ctx, theme, box, o.selected);
  if (hover) hovered(ctx, theme, box, hover);
};

/* ---- the scale, with its ends named ---- */

const marks = (ctx, theme, o, x, y) => {
  const one = (left, dash, word) => {
    ctx.strokeStyle = theme.ink;
    ctx.lineWidth = 1.75;
    ctx.setLineDash(dash);
    ctx.beginPath();
    ctx.arc(left + 6, y - 4, 6, 0, 2 * Math.PI);
    ctx.stroke();
    ctx.setLineDash([]);
    ctx.fillText(word, left + 18, y);
    return left + 34 + ctx.measureText(word).width;
  };
  const next = one(x, [], "known answer");
  if (o.truth.some(row => row.includes(2))) one(next, [2, 3], "needed for the carry");
};

const legend = (ctx, width, theme, o, size) => {
  const bar = Math.min(168, width * 0.45);
  const below = o.truth && width < 400;
  size(width, below ? 62 : 36);
  for (const i of range(Math.round(bar))) {
    ctx.fillStyle = css(colourOf(theme, i / bar));
    ctx.fillRect(i, 0, 1.5, 10);
  }
  ctx.font = font(theme, 12);
  ctx.fillStyle = theme["ink-3"];
  ctx.textBaseline = "alphabetic";
  [0, o.most / 2, o.most].forEach((value, i) => {
    ctx.textAlign = ["left", "center", "right"][i];
    ctx.fillText(String(Math.round(value * 1000) / 1000), (bar * i) / 2, 25);
  });
  ctx.textAlign = "left";
  const note = o.most < 1 ? `; scale ends at ${o.most}` : o.sums === false || width < 400 ? "" : "; each row sums to 1";
  ctx.fillText("weight" + note, bar + 12, 9.5);
  if (o.truth) marks(ctx, theme, o, below ? 1 : bar + 12, below ? 52 : 30);
};

const heatmapPaint = { layout, paint, legend, readable };

export { heatmapPaint };
