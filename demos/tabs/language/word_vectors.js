/* Language, Neighbours: word vectors while they are learned, a word's neighbours, an analogy's ranks, and the vectors
   in the plane in which they differ most. The board takes a Board.NeighboursValue. */
import { alertLine, buildPanel, el, live } from "../../../hf_attn/viz/web/core/dom.js";
import { count, number, percent, range } from "../../../hf_attn/viz/web/core/format.js";
import { surface } from "../../../hf_attn/viz/web/core/surface.js";
import { drawText, font } from "../../../hf_attn/viz/web/core/theme.js";
import { tipOver } from "../../../hf_attn/viz/web/core/tooltip.js";
import { takeAway } from "../../../hf_attn/viz/web/export/buttons.js";
import { lineChart } from "../../../hf_attn/viz/web/plots/line_chart.js";
import { wordBars } from "./word_bars.js";

const nearPanel = (host, title, file) => {
  const panel = buildPanel(host, title);
  const headline = el("p", "hf-merge");
  panel.body.append(headline);
  const bars = wordBars(panel.body);
  /** @type {Partial<Board.SumWord>[]} */
  let rows = [];
  const refresh = takeAway(panel, {
    file: () => file,
    lines: () => [["rank", "word", "cosine"], ...rows.map(one => [one.rank, one.word, number(one.cosine, 3)])],
    caption: () => headline.textContent,
  });
  const update = (/** @type {Partial<Board.SumWord>[]} */ near, ...words) => {
    rows = near ?? [];
    panel.section.hidden = !near;
    headline.replaceChildren(...words);
    const line = one => ({
      name: one.word,
      value: Math.max(0, one.cosine),
      told: number(one.cosine, 3),
      note: `${count(one.rank)}.`,
      cls: one.is_right ? "right" : "",
    });
    bars.update(rows.map(line), 1);
    refresh();
  };
  return { update, rename: panel.rename };
};

/* ---- the plane ---- */

const placeOf = (/** @type {Board.PlanePoint[]} */ points, width, height) => {
  const pad = { x: 58, y: 20 };
  const ends = axis => [Math.min(...points.map(p => p[axis])), Math.max(...points.map(p => p[axis]))];
  const [[x0, x1], [y0, y1]] = [ends("x"), ends("y")];
  // one scale for both, so that angles stay
  const scale = Math.min((width - 2 * pad.x) / (x1 - x0 || 1), (height - 2 * pad.y) / (y1 - y0 || 1));
  const X = x => width / 2 + (x - (x0 + x1) / 2) * scale;
  const Y = y => height / 2 - (y - (y0 + y1) / 2) * scale;
  return points.map(p => [X(p.x), Y(p.y)]);
};

const arrow = (ctx, [xa, ya], [xb, yb]) => {
  const [length, angle] = [Math.hypot(xb - xa, yb - ya), Math.atan2(yb - ya, xb - xa)];
  if (length < 14) return;
  const [x, y] = [xb - 7 * Math.cos(angle), yb - 7 * Math.sin(angle)];
  ctx.beginPath();
  ctx.moveTo(xa + 5 * Math.cos(angle), ya + 5 * Math.sin(angle));
  ctx.lineTo(x, y);
  for (const turn of [0.45, -0.45]) {
    ctx.moveTo(x, y);
    ctx.lineTo(x - 7 * Math.cos(angle + turn), y - 7 * Math.sin(angle + turn));
  }
  ctx.stroke();
};

/** Words beside their dots: the first of four sides where nothing stands yet; a word that finds none goes without. */
const writeWords = (ctx, theme, width, /** @type {Board.Plane} */ { points, arrows }, at) => {
  const leftFirst = new Set(arrows.flatMap(({ from, to }) => [at[to][0] > at[from][0] ? from : to]));
  const taken = at.map(([x, y]) => [x - 4, y - 4, x + 4, y + 4]);
  const isFree = box => taken.every(t => box[2] < t[0] || box[0] > t[2] || box[3] < t[1] || box[1] > t[3]);
  const order = range(points.length).sort((a, b) => Number(points[b].asked) - Number(points[a].asked));
  for (const i of order) {
    const { word, asked } = points[i];
    ctx.font = font(theme, 12, asked ? 600 : 400);
    const wide = ctx.measureText(word).width;
    const [x, y] = at[i];
    const sides = [
      [x + 7, y - 7],
      [x - 7 - wide, y - 7],
      [x - wide / 2, y - 21],
      [x - wide / 2, y + 7],
    ];
    if (leftFirst.has(i)) sides.unshift(sides.splice(1, 1)[0]); // off the arrow that begins here
    const side = sides.find(([l, t]) => l >= 0 && l + wide <= width && isFree([l, t, l + wide, t + 14]));
    if (!side) continue;
    taken.push([side[0], side[1], side[0] + wide, side[1] + 14]);
    const colour = asked ? theme.accent : theme["ink-2"];
    drawText(ctx, theme, word, side[0], side[1] + 7, { colour, weight: asked ? 600 : 400 });
  }
};

const planePanel = host => {
  const panel = buildPanel(host, "In a plane", { cls: "hf-wide-panel" });
  const pictureHost = el("div");
  panel.body.append(pictureHost);
  /** @type {Board.Plane} */
  let plane = null;
  let at = [];
  const picture = surface(pictureHost, "Word vectors in a plane", (ctx, width, theme, size) => {
    const height = Math.min(440, Math.max(340, width * 0.5));
    size(width, height);
    if (!plane) return;
    at = placeOf(plane.points, width, height);
    for (const { from, to, asked } of plane.arrows) {
      ctx.strokeStyle = asked ? theme.accent : theme["line-strong"];
      ctx.lineWidth = asked ? 2 : 1;
      arrow(ctx, at[from], at[to]);
    }
    plane.points.forEach(({ asked }, i) => {
      ctx.fillStyle = asked ? theme.accent : theme["ink-3"];
      ctx.beginPath();
      ctx.arc(...at[i], asked ? 4 : 3, 0, 2 * Math.PI);
      ctx.fill();
    });
    writeWords(ctx, theme, width, plane, at);
  });
  tipOver(picture.canvas, event => {
    const box = picture.canvas.getBoundingClientRect();
    const [x, y] = [event.clientX - box.left, event.clientY - box.top];
    const point = plane?.points[at.findIndex(([px, py]) => Math.hypot(px - x, py - y) < 9)];
    return point ? [point.word, `${number(point.x)}, ${number(point.y)}`] : null;
  });
  const refresh = takeAway(panel, {
    file: () => "language-plane",
    lines: () => [
      ["word", "first component", "second component"],
      ...(plane?.points ?? []).map(p => [p.word, number(p.x, 3), number(p.y, 3)]),
    ],
    caption: () => "The words' first two principal components",
    picture,
  });
  const update = (/** @type {Board.Plane} */ next) => {
    plane = next;
    panel.section.hidden = !plane;
    if (!plane) return;
    panel.rename(
      "In a plane",
      `two principal components, ${percent(plane.share, 0)} of the variance; ${plane.arrows_title}`,
    );
    picture.relabel(`${plane.points.length} words by their first two principal components`);
    picture.redraw();
    refresh();
  };
  return { update };
};

const trainingPanel = host => {
  const panel = buildPanel(host, "", { cls: "hf-wide-panel" });
  const curve = lineChart(panel.body, {
    name: "Loss by step",
    height: 130,
    empty: "the loss will be drawn here",
  });
  /** @type {Board.NeighboursValue} */
  let value = null;
  const refresh = takeAway(panel, {
    file: () => "language-vectors-loss",
    lines: () => [["step", "loss"], ...(value?.losses ?? []).map(([step, loss]) => [step, number(loss, 3)])],
    caption: () => "Loss by step",
    picture: curve,
  });
  const update = (/** @type {Board.NeighboursValue} */ next) => {
    value = next;
    panel.rename(
      "Learning",
      value
        ? `${value.kind}, ${count(value.words)} words in ${value.width} numbers each, step ${count(value.step)} of ${count(value.steps)}`
        : "negative sampling",
    );
    const points = value?.losses ?? [];
    const most = Math.max(1, Math.ceil(Math.max(0, ...points.map(p => p[1]))));
    curve.update({
      x: [0, value?.steps ?? 1],
      y: [0, most],
      ticks: most > 5 ? [0, most] : range(most + 1),
      series: points.length ? [{ name: "loss", colour: "series-1", dash: 0, points }] : [],
    });
    refresh();
  };
  return { update };
};

const neighbours_board = element => {
  const root = element.querySelector(".hf-language");
  const spoken = live();
  const say = alertLine(root);
  const near = nearPanel(root, "Neighbours", "language-neighbours");
  near.rename("Neighbours", "by the cosine of their vectors");
  const analogy = nearPanel(root, "Analogy", "language-analogy");
  const plane = planePanel(root);
  const training = trainingPanel(root);
  root.append(spoken.element);
  const strong = word => el("b", "", word);
  const ranked = (/** @type {Board.Analogy} */ a) => {
    if (!a.right) return ["nearest to ", strong(`${a.word} − ${a.without} + ${a.plus}`)];
    return [
      strong(`${a.word} − ${a.without} + ${a.plus}`),
      ": ",
      strong(a.right.word),
      ` has rank ${count(a.right.rank)} of ${count(a.others)}`,
    ];
  };
  const update = (/** @type {Board.NeighboursValue} */ value) => {
    root.hidden = !value;
    say(value?.message);
    near.update(value?.near?.found, ...(value?.near ? ["nearest to ", strong(value.near.word)] : []));
    analogy.update(value?.analogy?.found, ...(value?.analogy ? ranked(value.analogy) : []));
    const share = value?.share ?? null;
    const all =
      share === null
        ? "all words by their nearness to the sum"
        : `of all ${count(value.pairs)} such sums ${percent(share)} have the right word first`;
    analogy.rename("Analogy", all);
    plane.update(value?.plane ?? null);
    training.update(value);
    if (value && value.status !== "running") {
      spoken.say(value.near ? `${value.near.word}: ${value.near.found.map(one => one.word).join(", ")}` : "");
    }
  };
  return { update };
};

export { neighbours_board };
