/* Curves over the steps of training, with a cursor, or over another number.

   const curve = lineChart(host, options); curve.update({series: …, cursor: 620})
   options  series   [{name, points [[step, value]], raw [[step, value]], colour "series-1", dash 0..3}]; the first is
                     this run: solid, pale after the cursor; raw is drawn thin and pale behind it;
                     spans [[x, low, high]] are intervals, drawn upright through dots
            x, y     [low, high], which may be below 0;  log  true for a logarithmic y
            ticks    gridlines in y;  format(value)  their words;  tell(value)  those of the tip
            cursor   step or null;  onCursor(step)
            showX    step numbers under the picture;  xName "step": what x counts;  xTicks  how many at most;  height
            mark     {x, text}: an upright rule with its words
            near     the tip tells of the nearest points, not of what had been measured by then;  tellX(x)  its first line
            keys     where the legend of the curves stands
            empty    what to say while this run has no point
            name     for the reader of the screen;  digits  of a value in the tip and the table
   Without onCursor there is nothing to do on it by keyboard: give the numbers in a table beside it.
   sparkline(host, {points, colour, dash}) is one small curve from 0 to 1. */
import { el, svgShape } from "../core/dom.js";
import { clamp, count, number, percent, range } from "../core/format.js";
import { surface } from "../core/surface.js";
import { DASHES, drawText, font } from "../core/theme.js";
import { tip } from "../core/tooltip.js";
import { paintLegend } from "./legend.js";

const lastBefore = (points, x) => points.findLast(([at]) => at <= x) ?? null;
/** The upright scale of an accuracy. */
const ACCURACY = { y: [0, 1], ticks: [0, 0.25, 0.5, 0.75, 1], format: v => percent(v, 0), tell: percent };

/** The value of the last point at or before x: what had been measured by then. */
const measuredAt = (points, x) => lastBefore(points, x)?.[1] ?? null;
const nearest = (points, x) =>
  points.reduce((best, p) => (!best || Math.abs(p[0] - x) < Math.abs(best[0] - x) ? p : best), null);

const between = (points, x) => {
  // on the line, for the dot of the cursor
  const i = points.findIndex(p => p[0] >= x);
  if (i <= 0) return points.at(i)[1];
  const [[xa, ya], [xb, yb]] = [points[i - 1], points[i]];
  return ya + ((yb - ya) * (x - xa)) / (xb - xa);
};

const niceSteps = ([low, high], most) => {
  // numbers under the picture: 0, 500, 1 000, …
  const total = high - low;
  const size = 10 ** Math.floor(Math.log10(Math.max(1, total / most)));
  const by = [1, 2, 2.5, 5, 10].map(k => k * size).find(k => total / k <= most && Number.isInteger(k)) || size * 10;
  const first = Math.ceil(low / by);
  return range(Math.floor(high / by) - first + 1).map(i => (first + i) * by);
};

const place = (o, width) => {
  const x0 = 44;
  const x1 = width - 8;
  const y0 = o.mark ? 24 : 10;
  const y1 = o.height - (o.showX ? 24 : 8);
  const t = v => (o.log ? Math.log(Math.max(v, o.y[0])) : v);
  const span = o.x[1] - o.x[0] || 1;
  return {
    width,
    x0,
    x1,
    y0,
    y1,
    X: v => x0 + ((v - o.x[0]) / span) * (x1 - x0),
    Y: v => y1 - ((t(clamp(v, ...o.y)) - t(o.y[0])) / (t(o.y[1]) - t(o.y[0]) || 1)) * (y1 - y0),
  };
};

const straight = (ctx, xa, ya, xb, yb) => {
  ctx.beginPath();
  ctx.moveTo(xa, ya);
  ctx.lineTo(xb, yb);
  ctx.stroke();
};

const grid = (ctx, theme, o, box) => {
  ctx.font = font(theme, 12);
  ctx.textBaseline = "middle";
  ctx.textAlign = "right";
  ctx.lineWidth = 1;
  for (const v of o.ticks) {
    const y = Math.round(box.Y(v)) + 0.5;
    ctx.strokeStyle = theme[v === 0 && o.y[0] < 0 ? "line-strong" : "line"];
    straight(ctx, box.x0, y, box.x1, y);
    ctx.fillStyle = theme["ink-3"];
    ctx.fillText(o.format(v), box.x0 - 8, y);
  }
  if (!o.showX) return;
  const most = Math.floor(o.xTicks * (box.x1 - box.x0 < 300 ? 0.6 : 1));
  const ticks = o.x[1] > 1 ? niceSteps(o.x, most) : [0]; // no run, no end
  const isNamed = box.X(ticks[0]) - box.x0 < 1; // the first number stands with what it counts, or what it counts alone
  const name = isNamed ? `${o.xName} ${count(ticks[0])}` : o.xName;
  let free = box.x0 + drawText(ctx, theme, name, box.x0, o.height - 4, { base: "alphabetic" }) + 8;
  for (const v of ticks.slice(isNamed ? 1 : 0)) {
    const atEnd = box.X(v) > box.x1 - 16;
    const [x, wide] = [atEnd ? box.x1 : box.X(v), ctx.measureText(count(v)).width];
    const left = x - (atEnd ? wide : wide / 2);
    if (left < free) continue;
    drawText(ctx, theme, count(v), x, o.height - 4, { align: atEnd ? "right" : "center", base: "alphabetic" });
    free = left + wide + 8;
  }
};

const rule = (ctx, theme, { mark }, box) => {
  const x = Math.round(box.X(mark.x)) + 0.5;
  ctx.strokeStyle = theme["ink-3"];
  ctx.setLineDash([3, 3]);
  straight(ctx, x, box.y0 - 4, x, box.y1);
  ctx.setLineDash([]);
  const align = x > box.width / 2 ? "right" : "left";
  drawText(ctx, theme, mark.text, x, 12, { align, base: "alphabetic" });
};

const trace = (ctx, box, points) => {
  ctx.beginPath();
  points.forEach(([x, y], i) => ctx[i ? "lineTo" : "moveTo"](box.X(x), box.Y(y)));
  ctx.stroke();
};

const spans = (ctx, theme, box, s) => {
  ctx.lineWidth = 1.5;
  for (const [x, low, high] of s.spans) straight(ctx, box.X(x), box.Y(low), box.X(x), box.Y(high));
  ctx.fillStyle = theme[s.colour];
  for (const [x, y] of s.points) {
    ctx.beginPath();
    ctx.arc(box.X(x), box.Y(y), 3, 0, 2 * Math.PI);
    ctx.fill();
  }
};

const line = (ctx, theme, o, box, s) => {
  ctx.strokeStyle = theme[s.colour];
  ctx.lineJoin = "round";
  const pale = (points, alpha) => {
    ctx.globalAlpha = alpha;
    trace(ctx, box, points);
    ctx.globalAlpha = 1;
  };
  ctx.lineWidth = 1;
  if (s.raw) pale(s.raw, 0.28);
  ctx.lineWidth = s.dash ? 1.5 : 2;
  ctx.setLineDash(DASHES[s.dash || 0]);
  const cut = s.dash || o.cursor === null ? Infinity : o.cursor;
  const join = cut < (s.points.at(-1)?.[0] ?? 0) && s.points.length ? [[cut, between(s.points, cut)]] : [];
  trace(ctx, box, [...s.points.filter(p => p[0] <= cut), ...join]);
  if (join.length) pale([...join, ...s.points.filter(p => p[0] > cut)], 0.3); // after the cursor: pale
  ctx.setLineDash([]);
  if (s.spans) spans(ctx, theme, box, s);
};

const cursor = (ctx, theme, o, box) => {
  const x = box.X(o.cursor);
  ctx.strokeStyle = theme.ink;
  ctx.lineWidth = 1;
  straight(ctx, Math.round(x) + 0.5, box.y0 - 4, Math.round(x) + 0.5, box.y1);
  const own = o.series[0];
  if (!own?.points.length || own.points[0][0] > o.cursor) return;
  ctx.beginPath();
  ctx.arc(x, box.Y(between(own.points, Math.min(o.cursor, own.points.at(-1)[0]))), 4, 0, 2 * Math.PI);
  ctx.fillStyle = theme[own.colour];
  ctx.fill();
  ctx.lineWidth = 2;
  ctx.strokeStyle = theme.panel;
  ctx.stroke();
};

const sentence = (ctx, theme, o, box) => {
  const [x, y, w] = [(box.x0 + box.x1) / 2, (box.y0 + box.y1) / 2, ctx.measureText(o.empty).width + 16];
  ctx.textAlign = "center";
  ctx.textBaseline = "middle";
  ctx.fillStyle = theme.panel;
  ctx.fillRect(x - w / 2, y - 9, w, 18);
  ctx.fillStyle = theme["ink-3"];
  ctx.fillText(o.empty, x, y);
};

const ABOVE = 20; // of a slide's chart: the name of its upright axis

const lineChart = (host, options) => {
  const o = {
    height: 148,
    log: false,
    showX: true,
    xName: "step",
    xTicks: 5,
    format: String,
    digits: 3,
    cursor: null,
    x: [0, 1],
    y: [0, 1],
    ticks: [0, 0.5, 1],
    series: [],
    name: "",
    empty: "",
    ...options,
  };
  let box = null;
  const keys = el("div", "hf-keys");
  o.keys?.append(keys);
  const draw = (ctx, width, theme, o) => {
    box = place(o, width);
    grid(ctx, theme, o, box);
    if (o.mark) rule(ctx, theme, o, box);
    [...o.series].reverse().forEach(s => line(ctx, theme, o, box, s)); // this run on top
    if (!o.series[0]?.points.length && o.empty) sentence(ctx, theme, o, box);
    if (o.cursor !== null) cursor(ctx, theme, o, box);
  };
  const paint = (ctx, width, theme, size, room) => {
    size(width, room ? room.height : o.height);
    if (!room) return draw(ctx, width, theme, o);
    drawText(ctx, theme, o.name.split(/ by |[:,;] /)[0], 0, 10, {}); // the upright axis
    ctx.translate(0, ABOVE);
    draw(ctx, width, theme, { ...o, showX: true, xTicks: 8, height: room.height - ABOVE });
  };
  const legend = (ctx, width, theme, size) => {
    const mark = s => (x, y) => {
      ctx.strokeStyle = theme[s.colour];
      ctx.lineWidth = s.dash ? 1.75 : 2.5;
      ctx.setLineDash(DASHES[s.dash || 0]);
      straight(ctx, x, y, x + 28, y);
      ctx.setLineDash([]);
    };
    const parts = o.series.map(s => [36, s.name, mark(s)]);
    paintLegend(ctx, width, theme, size, parts);
  };
  const picture = surface(host, o.name, paint, { legend });
  const canvas = picture.canvas;
  if (o.onCursor) canvas.tabIndex = 0;
  const stepAt = event => {
    const at = canvas.getBoundingClientRect();
    const u = clamp((event.clientX - at.left - box.x0) / (box.x1 - box.x0), 0, 1);
    return o.x[0] + u * (o.x[1] - o.x[0]);
  };
  const tell = event => {
    const x = stepAt(event);
    const pointAt = o.near ? nearest : lastBefore;
    const found = o.series.map(s => ({ ...s, point: pointAt(s.raw || s.points, x) }));
    const told = found.filter(s => (s.point?.[1] ?? null) !== null);
    if (!told.length) return tip(event, null);
    const lines = told.map(({ name, point }) => `${name} ${o.tell ? o.tell(point[1]) : number(point[1], o.digits)}`);
    const points = told.map(s => s.point);
    const at = o.near ? nearest(points, x)[0] : x;
    tip(event, [o.tellX ? o.tellX(at) : `${o.xName} ${count(at)}`, ...lines]);
  };
  const ready = () => box && o.cursor !== null && o.onCursor;
  canvas.addEventListener("pointerdown", event => {
    if (ready()) {
      canvas.setPointerCapture(event.pointerId);
      o.onCursor(stepAt(event));
    }
  });
  canvas.addEventListener("pointermove", event => {
    if (box) tell(event);
    if (event.buttons && ready()) o.onCursor(stepAt(event));
  });
  canvas.addEventListener("pointerleave", event => tip(event, null));
  canvas.addEventListener("keydown", event => {
    const by = ((event.shiftKey ? 10 : 1) * (o.x[1] - o.x[0])) / 100;
    const to = { ArrowLeft: o.cursor - by, ArrowRight: o.cursor + by, Home: o.x[0], End: o.x[1] }[event.key];
    if (to === undefined || !ready()) return;
    event.preventDefault();
    o.onCursor(to, Math.sign(to - o.cursor));
  });
  return {
    update: patch => {
      Object.assign(o, patch);
      if (patch.name) picture.relabel(patch.name);
      if (o.keys) keys.replaceChildren(...o.series.map(s => curveKey(s.name, s.colour, s.dash)));
      picture.redraw();
    },
    png: picture.png,
    svg: picture.svg,
  };
};

const sparkline = (host, o) =>
  surface(host, "", (ctx, width, theme, size) => {
    const height = 28;
    const last = o.points.at(-1)?.[0] || 1;
    const [X, Y] = [x => 2 + (x / last) * (width - 6), y => height - 3 - clamp(y, 0, 1) * (height - 6)];
    size(width, height);
    ctx.strokeStyle = theme.line;
    ctx.lineWidth = 1;
    straight(ctx, 0, height - 2.5, width, height - 2.5);
    if (!o.points.length) return;
    ctx.strokeStyle = ctx.fillStyle = theme[o.colour];
    ctx.lineWidth = 1.5;
    ctx.setLineDash(DASHES[o.dash]);
    trace(ctx, { X, Y }, o.points);
    ctx.setLineDash([]);
    ctx.beginPath();
    ctx.arc(X(last), Y(o.points.at(-1)[1]), 2.5, 0, 2 * Math.PI);
    ctx.fill();
  }).canvas.setAttribute("aria-hidden", "true");

/** Colour and dash of the curve at this place, from 0. */
const seriesStyle = i => ({ colour: `series-${i + 1}`, dash: i });
/** A line as the curve's: its dash and its colour. */
const dashLine = ({ colour, dash }) => {
  const how = { stroke: "currentColor", "stroke-width": dash ? 1.75 : 2.5, "stroke-dasharray": DASHES[dash].join(" ") };
  const svg = svgShape({ width: 28, height: 8 }, "line", { x1: 1, x2: 27, y1: 4, y2: 4, ...how });
  svg.style.color = `var(--hf-${colour})`;
  return svg;
};
/** One entry of the legend. */
const curveKey = (name, colour, dash) => el("span", "", dashLine({ colour, dash }), name);

export { ACCURACY, curveKey, dashLine, lastBefore, lineChart, measuredAt, seriesStyle, sparkline };
