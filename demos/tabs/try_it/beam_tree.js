/* The tree of a beam search: the best answer straight and full, the others leave downwards, the last branching
   nearest, so that no two lines cross. A line is 1 + 3.5 p thick, what was dropped is dashed, and below each symbol
   stands its sum of log p. In less than 560 px the steps run downwards. Wide trees scroll inside their host.

   const tree = beamTree(host, {onPick(i)}); tree.update({nodes, ends, chosen, path})
   nodes, ends: as Board.Beams has them
   chosen   a node, counted from 1, or null;  path: the node at whose way the tree is full; the best answer's without
   tree.lines() gives the same as rows of words and numbers, tree.png(file) and tree.svg(file) the picture.
   layBeams(value) → {all, rows}: where each node stands, its depth and row. */
import { el, live } from "../../../hf_attn/viz/web/core/dom.js";
import { clip, number, range, shown } from "../../../hf_attn/viz/web/core/format.js";
import { casedFrame, surface } from "../../../hf_attn/viz/web/core/surface.js";
import { font } from "../../../hf_attn/viz/web/core/theme.js";
import { tip } from "../../../hf_attn/viz/web/core/tooltip.js";

const [WIDTH, HEIGHT] = [62, 24]; // of a symbol's box
const [STEP, ROW] = [86, 46]; // from box to box where the steps run to the right
const [DOWN, COLUMN] = [56, 70]; // … and where they run downwards
const NARROW = 560;
const FATES = { kept: "kept", ended: "an answer, outdone by others", dropped: "dropped" };

/** @typedef {Partial<Board.BeamNode> & {i: number, kids: TreeNode[], up?: TreeNode, depth?: number, rank?: number,
      reach?: number, answer?: number, full?: boolean, row?: number}} TreeNode */

/** The nodes as a tree, with depth, children and the rank of the answer that each leads to. */
const grow = (/** @type {Pick<Board.Beams, "nodes" | "ends">} */ { nodes, ends }) => {
  const root = { depth: 0, fate: /** @type {const} */ ("kept"), p: 1, score: 0, token: "" };
  /** @type {TreeNode[]} */
  const all = [root, ...nodes].map((n, i) => ({ ...n, i, kids: [] }));
  all.forEach(n => {
    if (!n.i) return;
    n.up = all[n.parent];
    n.depth = n.up.depth + 1;
    n.up.kids.push(n);
  });
  all.forEach(n => Object.assign(n, { rank: Infinity, reach: n.depth }));
  ends.forEach((end, rank) => {
    for (let n = all[end]; n; n = n.up) n.rank = Math.min(n.rank, rank);
    all[end].answer = rank + 1;
  });
  [...all].reverse().forEach(n => {
    if (n.up) n.up.reach = Math.max(n.up.reach, n.reach);
  });
  all.forEach(n => n.kids.sort((a, b) => a.rank - b.rank || b.reach - a.reach || b.score - a.score));
  return all;
};

const meets = ([a, b], [c, d]) => a <= d && c <= b;
const fits = (taken, rows, at) =>
  rows.every((spans, r) => spans.every(span => !(taken[at + r] || []).some(other => meets(span, other))));

/** Rows of a chain and all that leaves it: spans of depth that are taken, the chain's own row first.
    A branch goes into the first row where all of it has room; what leads there takes half a step. */
const lay = head => {
  const chain = [head];
  while (chain.at(-1).kids.length) chain.push(chain.at(-1).kids[0]);
  const rows = [[[head.depth, chain.at(-1).depth]]];
  const below = [];
  for (const node of [...chain].reverse())
    for (const kid of node.kids.slice(1)) {
      const part = lay(kid);
      let at = 1;
      while (!fits(rows, part.rows, at)) at += 1;
      part.rows.forEach((spans, r) => (rows[at + r] ||= []).push(...spans));
      range(at - 1).forEach(r => (rows[r + 1] ||= []).push([node.depth + 0.5, node.depth + 0.5]));
      below.push([part, at]);
    }
  for (let r = 0; r < rows.length; r += 1) rows[r] ||= [];
  const settle = row => {
    chain.forEach(n => Object.assign(n, { row }));
    below.forEach(([part, at]) => part.settle(row + at));
  };
  return { rows, settle };
};

/** A tree's nodes, each with its row, and the number of rows. */
const layBeams = (/** @type {Pick<Board.Beams, "nodes" | "ends">} */ value) => {
  const all = grow(value);
  const laid = lay(all[0]);
  laid.settle(0);
  return { all, rows: laid.rows.length };
};

const measure = (all, rows, hostWidth) => {
  const steps = Math.max(1, ...all.map(n => n.depth));
  const down = hostWidth < NARROW;
  if (down) {
    const column = Math.max(COLUMN, (hostWidth - 30) / rows);
    const X = n => 30 + (n.row + 0.5) * column;
    return { down, steps, X, Y: n => 12 + n.depth * DOWN, width: 30 + rows * column, height: 12 + steps * DOWN + 50 };
  }
  const step = Math.max(STEP, Math.min(150, (hostWidth - 110) / steps));
  const Y = n => 34 + n.row * ROW;
  return { down, steps, X: n => 14 + n.depth * step, Y, width: 72 + steps * step, height: 34 + (rows - 1) * ROW + 36 };
};

const colourOf = (theme, n) => (n.full ? theme.accent : n.fate === "dropped" ? theme["line-strong"] : theme["ink-3"]);

const drawEdge = (ctx, theme, n, { X, Y, down }) => {
  const [a, b] = [n.up, n];
  ctx.strokeStyle = colourOf(theme, n);
  ctx.lineWidth = n.fate === "dropped" ? 1 : 1 + 3.5 * n.p;
  ctx.setLineDash(n.fate === "dropped" ? [3, 3] : []);
  ctx.beginPath();
  if (down) {
    const [xa, ya, xb, yb] = [X(a), Y(a) + (a.depth ? HEIGHT / 2 : 6), X(b), Y(b) - HEIGHT / 2];
    const from = xa === xb ? ya : a.depth ? ya + 16 : ya; // below the figure, so that no line runs through one
    ctx.moveTo(xa, xa === xb ? ya : a.depth ? ya : ya - 6);
    if (xa === xb) ctx.lineTo(xb, yb);
    else ctx.bezierCurveTo(xa, from + 12, xb, yb - 18, xb, yb);
  } else {
    const [xa, ya, xb, yb] = [X(a) + (a.depth ? WIDTH / 2 : 6), Y(a), X(b) - WIDTH / 2, Y(b)];
    const bend = Math.min(22, (xb - xa) / 2);
    ctx.moveTo(xa, ya);
    ctx.bezierCurveTo(xa + bend, ya, xb - bend, yb, xb, yb);
  }
  ctx.stroke();
  ctx.setLineDash([]);
};

const drawNode = (ctx, theme, n, { X, Y, down }, isChosen, isHovered) => {
  const [x, y] = [X(n), Y(n)];
  ctx.textBaseline = "middle";
  if (!n.depth) {
    ctx.beginPath();
    ctx.arc(x, y, 6, 0, 7);
    ctx.fillStyle = theme.accent;
    ctx.fill();
    return;
  }
  const dropped = n.fate === "dropped";
  ctx.beginPath();
  ctx.roundRect(x - WIDTH / 2, y - HEIGHT / 2, WIDTH, HEIGHT, 6);
  ctx.fillStyle = n.full ? theme.accent : isHovered ? theme["accent-soft"] : theme.panel;
  ctx.fill();
  ctx.lineWidth = dropped ? 1 : 1.25;
  ctx.strokeStyle = n.full ? theme.accent : dropped ? theme["line-strong"] : theme.control;
  ctx.setLineDash(dropped ? [3, 3] : []);
  ctx.stroke();
  ctx.setLineDash([]);
  if (isChosen) casedFrame(ctx, theme, [x - WIDTH / 2 - 3, y - HEIGHT / 2 - 3, WIDTH + 6, HEIGHT + 6, 8], theme.ink, 2);
  ctx.textAlign = "center";
  ctx.font = font(theme, 12, dropped ? 400 : 600, theme.mono);
  ctx.fillStyle = n.full ? theme["on-accent"] : dropped ? theme["ink-2"] : theme.ink;
  ctx.fillText(clip(shown(n.token), 7), x, y + 1);
  ctx.font = font(theme, 12, dropped ? 400 : 500);
  const score = number(n.score, 2);
  const half = ctx.measureText(score).width / 2 + 2;
  ctx.fillStyle = theme.panel;
  ctx.fillRect(x - half, y + HEIGHT / 2 + 3, 2 * half, 13);
  ctx.fillStyle = n.full ? theme.accent : theme["ink-3"];
  ctx.fillText(score, x, y + HEIGHT / 2 + 10);
  if (!n.answer) return;
  ctx.fillStyle = theme.ink;
  ctx.font = font(theme, 12, 600);
  ctx.fillText(String(n.answer), down ? x : x + WIDTH / 2 + 12, down ? y + HEIGHT / 2 + 26 : y + 1);
};

const pathOf = (/** @type {TreeNode} */ n) => (n?.depth ? [...pathOf(n.up), n] : []);
const before = (/** @type {TreeNode} */ n) =>
  pathOf(n.up)
    .map(one => shown(one.token))
    .join(" ") || "the beginning";
const words = (/** @type {TreeNode} */ n) => [
  `${shown(n.token)} after ${before(n)}`,
  `p ${number(n.p, 3)}, sum of log p ${number(n.score, 2)}`,
  n.answer ? `answer ${n.answer}` : FATES[n.fate],
];

/** The node that an arrow leads to: along the way, or to the neighbour in the same step. */
const moveTo = (all, n, key, down) => {
  if (!n) return all[0].kids[0];
  const along = down ? ["ArrowUp", "ArrowDown"] : ["ArrowLeft", "ArrowRight"];
  if (key === along[0]) return n.up.depth ? n.up : n;
  if (key === along[1]) return n.kids[0] || n;
  const level = all.filter(one => one.depth === n.depth).sort((a, b) => a.row - b.row);
  const at = level.indexOf(n);
  if (key === "Home") return level[0];
  if (key === "End") return level.at(-1);
  return level[at + (key === "ArrowLeft" || key === "ArrowUp" ? -1 : 1)] || n;
};

const beamTree = (host, { onPick }) => {
  const inside = el("div");
  const scroll = el("div", "hf-scroll hf-beam-scroll", inside);
  const spoken = live();
  scroll.setAttribute("role", "region");
  scroll.setAttribute("aria-label", "Beam tree, scrolls where it is wider than the panel");
  host.append(scroll, spoken.element);
  let [all, rows, chosen, hovered, plan] = [[], 1, null, null, null];
  const picture = surface(inside, "Beam tree", (ctx, _, theme, size) => {
    if (all.length < 2) return size(1, 1);
    const at = measure(all, rows, scroll.clientWidth || NARROW);
    size(at.width, at.height);
    plan = at;
    ctx.font = font(theme, 12);
    ctx.fillStyle = theme["ink-3"];
    Object.assign(ctx, { textAlign: at.down ? "left" : "center", textBaseline: "alphabetic" });
    for (const s of range(at.steps).map(i => i + 1)) {
      const text = s === 1 && !at.down ? "step 1" : String(s);
      ctx.fillText(text, at.down ? 0 : at.X({ depth: s }), at.down ? at.Y({ depth: s }) + 4 : 12);
    }
    const order = [...all].sort((a, b) => (a.full ?? 0) - (b.full ?? 0));
    order.forEach(n => n.up && drawEdge(ctx, theme, n, at));
    order.forEach(n => drawNode(ctx, theme, n, at, n.i === chosen, n === hovered));
  });
  const canvas = picture.canvas;
  canvas.tabIndex = 0;

  const nodeAt = event => {
    if (!plan) return null;
    const box = canvas.getBoundingClientRect();
    const [x, y] = [event.clientX - box.left, event.clientY - box.top];
    const near = n => Math.abs(plan.X(n) - x) <= WIDTH / 2 + 3 && Math.abs(plan.Y(n) - y) <= HEIGHT / 2 + 12;
    return all.find(n => n.depth && near(n)) || null;
  };
  const hover = (event, n) => {
    if (n !== hovered) {
      hovered = n;
      picture.redraw();
    }
    canvas.style.cursor = n ? "pointer" : "";
    tip(event, n && words(n));
  };
  const see = n => {
    // the tree scrolls in its host, the page stays
    if (!plan) return;
    for (const [at, half, side, size] of [
      [plan.X(n), WIDTH, "scrollLeft", "clientWidth"],
      [plan.Y(n), ROW, "scrollTop", "clientHeight"],
    ]) {
      if (at - half < scroll[side]) scroll[side] = at - half;
      if (at + half > scroll[side] + scroll[size]) scroll[side] = at + half - scroll[size];
    }
  };
  const pick = n => {
    spoken.say(words(n).join(", "));
    see(n);
    onPick(n.i);
  };
  canvas.addEventListener("pointermove", event => hover(event, nodeAt(event)));
  canvas.addEventListener("pointerleave", event => hover(event, null));
  canvas.addEventListener("click", event => {
    const n = nodeAt(event);
    if (n) pick(n);
  });
  canvas.addEventListener("keydown", event => {
    if (!/^(Arrow\w+|Home|End)$/.test(event.key) || event.altKey || event.ctrlKey || event.metaKey || !all[1]) return;
    event.preventDefault();
    pick(moveTo(all, all[chosen], event.key, plan?.down));
  });
  new ResizeObserver(picture.redraw).observe(scroll);

  const update = (/** @type {Pick<Board.Beams, "nodes" | "ends"> & {chosen: number | null, path: number}} */ value) => {
    hovered = null;
    chosen = value?.chosen ?? null;
    ({ all, rows } = value ? layBeams(value) : { all: [], rows: 1 });
    if (value) pathOf(all[value.path ?? value.ends[0]]).forEach(n => Object.assign(n, { full: true }));
    const steps = Math.max(0, ...all.map(n => n.depth));
    picture.relabel(`Beam tree: ${Math.max(0, all.length - 1)} symbols in ${steps} steps`);
    picture.redraw();
  };
  const lines = () => [
    ["symbol", "step", "after", "p", "sum of log p", "what became of it"],
    ...all
      .slice(1)
      .map(n => [shown(n.token), n.depth, before(n), n.p, n.score, n.answer ? `answer ${n.answer}` : FATES[n.fate]]),
  ];
  return { update, lines, png: picture.png, svg: picture.svg };
};

export { beamTree, layBeams };
