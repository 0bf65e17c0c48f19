/* How an attention map is laid out and drawn. Pure functions of (context, options, theme): the same calls make the
   picture on the page, the PNG and the SVG. See heatmap.js for the options. */
import { clip, count, range, shown, weight } from "../core/format.js";
import { casedFrame } from "../core/surface.js";
import { colourOf, css, drawText, font, numberOn } from "../core/theme.js";
import { paintLegend } from "./legend.js";

const ROLES = { query: ": reads ↓", key: ": is read →" };
const text = label => clip(shown(label));

/* ---- where everything goes ---- */

const measure = (ctx, theme, labels) => {
  ctx.font = font(theme, 13, 600); // as wide as the chosen one, so that choosing moves nothing
  return labels.map(label => ctx.measureText(text(label)).width);
};

/* Where the labels have no room, every tenth place has its number instead: some of the labels without the others would
   seem to stand side by side. */
const STEPS = [10, 20, 50, 100, 200, 500];
const stepFor = cells => STEPS.find(step => step >= cells) ?? STEPS.at(-1);

/** The place of a token in the whole input, from 1, as its name ends with it; 1 of the first label where none does. */
const numberOf = (o, axis, i) => Number(o[axis + "Names"]?.[i].split(" ").at(-1).replace(/\D/g, "") ?? i + 1);

/** On a slide, which says what room there is, cells are as large as they fit, and wider than high. */
const LARGEST = { wide: 76, high: 42, ratio: 1.8 };

const layout = (ctx, width, theme, o, room) => {
  const [rowWidths, colWidths] = [measure(ctx, theme, o.rows), measure(ctx, theme, o.cols)];
  const [n, m, widest] = [o.cols.length, o.rows.length, Math.max(...colWidths)];
  ctx.font = font(theme, 12, 600);
  const title = ctx.measureText("query" + ROLES.query).width + 12;
  const [numbers] = measure(ctx, theme, [count(Math.max(numberOf(o, "row", m - 1), numberOf(o, "col", n - 1)))]);
  const gutter = Math.max(...rowWidths, width < 14 * n + 60 ? numbers : 0) + 18;
  const oneLine = width < 420 && gutter < 60; // narrow map, short tokens: both axis names on one line above
  const x0 = Math.ceil(oneLine ? gutter : Math.max(gutter, title));
  const high = y0 => (room ? Math.min(LARGEST.high, (room.height - y0 - 2) / m) : Infinity);
  const largest = room ? Math.min(LARGEST.wide, LARGEST.ratio * high(50)) : o.maxCell;
  const free = over => (width - x0 - over - 1) / n;
  const fit = over => (room ? Math.min(largest, free(over)) : Math.max(4, Math.min(largest, Math.floor(free(over)))));
  const last = n - 1;
  const gap = c => (colWidths[c - 1] + colWidths[c]) / 2 + 6; // between the middles of a label and the one before
  // a first and a last label wider than the others ("start", "end") move outwards, if those have room without them
  const outwards = cell => (n < 3 ? [0, 0] : [gap(1), gap(last)].map(wanted => Math.max(0, wanted - cell)));
  const beyond = cell => Math.ceil(Math.max(0, outwards(cell)[1] + (colWidths[last] - cell) / 2));
  let over = beyond(fit(0));
  let w = fit(over);
  const crowded =
    (n === 2 && gap(1) > w) ||
    range(Math.max(0, n - 3)).some(i => gap(i + 2) > w) ||
    colWidths[0] / 2 + outwards(w)[0] + 4 > x0 + w / 2;
  const inner = Math.max(0, ...colWidths.slice(1, -1)); // of digits the first or the last alone may be a word
  const slanted = crowded && (inner > 12 || (widest > 12 && inner + 4 <= w)); // all slanted or none; never on end
  if (!slanted) over = beyond(w);
  else {
    // the last slanted label needs room on the right
    over = Math.max(0, ...colWidths.map((wide, c) => (wide + 12) * 0.707 - (n - c - 0.5) * w));
    w = fit(over);
  }
  const everyC = slanted ? Math.ceil(17 / w) : !crowded || inner + 4 <= w ? 1 : stepFor((numbers + 8) / w);
  const y0 = slanted ? 40 + Math.ceil(widest * 0.707) : 50;
  const h = room ? Math.min(high(y0), 1.2 * w) : w;
  return {
    x0,
    y0,
    n,
    m,
    w,
    h,
    slanted,
    oneLine,
    title,
    everyC,
    numbers,
    outwards: slanted ? [0, 0] : outwards(w),
    everyR: slanted || h >= 14 ? Math.ceil(14 / h) : stepFor(14 / h),
    gap: h >= 18 ? 1 : room ? -0.4 : 0, // small cells of a slide lie over one another: nothing shines between them
    radius: h >= 24 ? 2 : 0,
    width: Math.ceil(x0 + n * w + over) + 1,
    height: y0 + m * h + 2,
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

/** What stands beside a token: itself, or where labels have no room the number of every tenth place, or every second
    word, third, …; the marked one always, and its neighbours give way. */
const labelOf = (box, o, axis, i, marked) => {
  const isRow = axis === "row";
  const every = isRow ? box.everyR : box.everyC;
  if (i === marked || every === 1) return text(o[axis + "s"][i]);
  const place = box.slanted ? i : numberOf(o, axis, i);
  const apart = box.slanted ? every : isRow ? 18 / box.h : (box.numbers + 12) / box.w;
  if (place % every || (marked !== null && Math.abs(marked - i) < apart)) return "";
  return box.slanted ? text(o[axis + "s"][i]) : count(place);
};

const colLabel = (ctx, theme, box, o, c, state, label) => {
  ctx.font = font(theme, 13, state ? 600 : 500);
  const w = ctx.measureText(label).width;
  ctx.save();
  if (box.slanted) {
    ctx.translate(box.x0 + (c + 0.5) * box.w - 3, box.y0 - 8);
    ctx.rotate(-Math.PI / 4);
  } else {
    const shift = c === 0 ? -box.outwards[0] : c === box.n - 1 ? box.outwards[1] : 0;
    ctx.translate(box.x0 + (c + 0.5) * box.w - w / 2 - box.gap / 2 + shift, box.y0 - 12);
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

const rowLabel = (ctx, theme, box, r, state, label) => {
  const y = box.y0 + (r + 0.5) * box.h;
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
  for (const c of range(box.n)) {
    const label = labelOf(box, o, "col", c, at ? at.c : null);
    if (label) colLabel(ctx, theme, box, o, c, stateOf(c, "c"), label);
  }
  for (const r of range(box.m)) {
    const label = labelOf(box, o, "row", r, at ? at.r : null);
    if (label) rowLabel(ctx, theme, box, r, stateOf(r, "r"), label);
  }
};

/* ---- cells and marks ---- */

const readable = (o, r, c) => !o.padding?.[c] && (!o.allowed || o.allowed[r][c]);

const hatch = (ctx, theme, x, y, w, h, radius) => {
  ctx.save();
  ctx.beginPath();
  ctx.roundRect(x, y, w, h, radius);
  ctx.fillStyle = theme.sunken;
  ctx.fill();
  ctx.clip();
  ctx.strokeStyle = theme["line-strong"];
  ctx.lineWidth = 1;
  ctx.beginPath();
  for (let k = -h; k < w; k += 7) {
    ctx.moveTo(x + k, y + h);
    ctx.lineTo(x + k + h, y);
  }
  ctx.stroke();
  ctx.restore();
};

/** Where a cell lies: [x, y, width, height]. */
const placeOf = (box, r, c) => [box.x0 + c * box.w, box.y0 + r * box.h, box.w - box.gap, box.h - box.gap];

const cellOf = (ctx, theme, box, o, values, r, c) => {
  const [x, y, w, h] = placeOf(box, r, c);
  if (!readable(o, r, c)) {
    hatch(ctx, theme, x, y, w, h, box.radius);
    return;
  }
  const rgb = colourOf(theme, values[r][c], o.most);
  const value = o.values[r][c];
  ctx.beginPath();
  ctx.roundRect(x, y, w, h, box.radius);
  ctx.fillStyle = css(rgb);
  ctx.fill();
  if (box.w < 27 || box.h < 15 || (box.n > 12 && value < 0.05)) return; // many keys: small numbers would be noise
  const bold = o.selected?.r === r && o.selected?.c === c;
  ctx.font = font(theme, box.w >= 38 ? 13 : 12, bold ? 700 : 400);
  ctx.fillStyle = numberOn(theme, rgb);
  ctx.textAlign = "center";
  ctx.textBaseline = "middle";
  ctx.fillText(weight(value), x + w / 2, y + h / 2 + 1);
};

const ring = (ctx, theme, box, o, values, r, c) => {
  // in the colour a number would have there
  const [x, y, w, h] = placeOf(box, r, c);
  const thick = h >= 24;
  const inset = Math.min(thick ? 4 : 1.5, h / 2 - 1);
  ctx.strokeStyle = readable(o, r, c) ? numberOn(theme, colourOf(theme, values[r][c], o.most)) : theme.ink;
  ctx.lineWidth = thick ? 1.75 : 1.25;
  ctx.setLineDash(o.truth[r][c] === 2 ? [2, 3.5] : []);
  ctx.beginPath();
  const left = inset + (thick ? (w - h) / 6 : 0); // around the number of a wide cell
  ctx.roundRect(x + left, y + inset, w - 2 * left, h - 2 * inset, h / 2 - inset);
  ctx.stroke();
  ctx.setLineDash([]);
};

/** The frame of the cells from [r, c] on, so many wide and high. */
const frameOf = (box, r, c, wide, high) => {
  const [x, y] = placeOf(box, r, c);
  return [x - 1, y - 1, wide * box.w + 2 - box.gap, high * box.h + 2 - box.gap, 3];
};
const rowFrame = (ctx, theme, box, r) => casedFrame(ctx, theme, frameOf(box, r, 0, box.n, 1), theme.query, 1.25);

const chosen = (ctx, theme, box, { r, c }) => {
  rowFrame(ctx, theme, box, r);
  casedFrame(ctx, theme, frameOf(box, 0, c, 1, box.m), theme.key, 1.25);
  casedFrame(ctx, theme, frameOf(box, r, c, 1, 1), theme.ink, 2);
};

const hovered = (ctx, theme, box, { r, c }) => {
  const [x, y, w, h] = placeOf(box, r, c);
  ctx.lineWidth = 1.5;
  ctx.strokeStyle = theme.ink;
  ctx.beginPath();
  ctx.roundRect(x - 0.5, y - 0.5, w + 1, h + 1, 3);
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

/* ---- the scale, with its ends named, and what the marks mean ---- */

const BARS = { narrow: 88, wide: 132 }; // how long the scale is

/** A mark as in the map, beside its words. */
const markOf = (ctx, theme, dash, x, y) => {
  ctx.strokeStyle = theme.ink;
  ctx.lineWidth = 1.75;
  ctx.setLineDash(dash);
  ctx.beginPath();
  ctx.arc(x + 6, y, 6, 0, 2 * Math.PI);
  ctx.stroke();
  ctx.setLineDash([]);
};
const scaleOf = (ctx, theme, bar, x, y) => {
  drawText(ctx, theme, "0", x, y, { colour: theme["ink-2"] });
  for (const i of range(bar)) {
    ctx.fillStyle = css(colourOf(theme, i / bar));
    ctx.fillRect(x + 13 + i, y - 5, i < bar - 1 ? 1.5 : 1, 10);
  }
};
/** What the rings mean, where there are some. */
const ringParts = (ctx, theme, o) => {
  const ring = dash => (x, y) => markOf(ctx, theme, dash, x, y);
  const has = kind => o.truth?.some(row => row.includes(kind));
  return [has(1) && [19, "known answer", ring([])], has(2) && [19, "needed indirectly", ring([2, 3])]];
};
const legend = (ctx, width, theme, o, size) => {
  const end = String(Math.round(o.most * 1000) / 1000);
  const sums = o.most < 1 || o.sums === false || width < 260 ? "" : "; a row sums to 1";
  const hidden = o.allowed?.some(row => row.some(may => !may)) || o.padding?.some(Boolean);
  const bar = width < 520 ? BARS.narrow : BARS.wide;
  const parts = [
    [bar + 20, `${end}   weight${sums}`, (x, y) => scaleOf(ctx, theme, bar, x, y)],
    ...ringParts(ctx, theme, o),
    hidden && [20, "may not be read", (x, y) => hatch(ctx, theme, x, y - 6, 12, 12, 2)],
    o.note && [0, o.note, () => {}],
  ];
  paintLegend(ctx, width, theme, size, parts.filter(Boolean));
};

const heatmapPaint = { layout, paint, legend, readable, text, labelOf, stepFor, ringParts };

export { heatmapPaint };
