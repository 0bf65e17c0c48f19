/* A parse tree: operators round in accent with their sign, their name in mono beside them; leaves square.
   A wrong node has a rust outline and the right symbol beside it.

   parseTree(host, {level}).update(root, written)   root is a Board.ParseNode; level, px from one to the next; written, the
   place of the symbol that is being written: it is plum, those behind it are dashed. Wide trees scroll inside their host. */
import { el, scrollRegion } from "../core/dom.js";
import { clip, shown } from "../core/format.js";
import { surface } from "../core/surface.js";
import { font } from "../core/theme.js";

const TOP = 22;
const HALF = 19;

/** Every node with its place: x in leaves from the left, depth in levels from the top, `at` in the order of writing. */
const place = (/** @type {Board.ParseNode} */ root) => {
  const nodes = [];
  let [leaves, count] = [0, 0];
  const visit = (/** @type {Board.ParseNode} */ node, /** @type {number} */ depth) => {
    const at = count++;
    const kids = (node.children || []).map(child => visit(child, depth + 1));
    const placed = { node, depth, at, kids, x: kids.length ? (kids[0].x + kids.at(-1).x) / 2 : leaves++ };
    nodes.push(placed);
    return placed;
  };
  visit(root, 0);
  return { nodes, leaves, deepest: Math.max(...nodes.map(n => n.depth)) };
};

/** Of a node that is not written yet, that is being written, or that stands. */
const DASH = [3, 4];
const stateOf = (at, written) => (written === null || at < written ? "" : at === written ? "now" : "later");

const edges = (ctx, theme, nodes, X, Y, { level, written }) => {
  for (const parent of nodes)
    for (const kid of parent.kids) {
      const [xa, ya, xb, yb] = [X(parent), Y(parent), X(kid), Y(kid)];
      const state = stateOf(kid.at, written);
      ctx.strokeStyle = state === "later" ? theme["line-strong"] : state ? theme.query : theme.control;
      ctx.lineWidth = state === "now" ? 2.5 : 1.5;
      ctx.setLineDash(state === "later" ? DASH : []);
      ctx.beginPath();
      ctx.moveTo(xa, ya);
      ctx.bezierCurveTo(xa, ya + level * 0.55, xb, yb - level * 0.55, xb, yb);
      ctx.stroke();
    }
  ctx.setLineDash([]);
};

const beside = (ctx, theme, text, colour, x, y) => {
  ctx.font = font(theme, 12, 400, theme.mono);
  ctx.textAlign = "left";
  ctx.fillStyle = theme.panel;
  ctx.fillRect(x - 2, y - 8, ctx.measureText(text).width + 4, 16);
  ctx.fillStyle = theme[colour];
  ctx.fillText(text, x, y);
};

/** Fill, outline and text of a node. */
const colours = (theme, wrong, leaf, state) => {
  if (state === "later") return [theme.panel, theme["line-strong"], theme["ink-3"]];
  if (wrong) return [theme["bad-soft"], theme.bad, theme.bad];
  if (state === "now") return [theme["query-soft"], theme.query, theme.query];
  return leaf ? [theme.panel, theme.control, theme.ink] : [theme.accent, theme.accent, theme["on-accent"]];
};

const drawNode = (ctx, theme, /** @type {{node: Board.ParseNode, kids: any[]}} */ { node, kids }, x, y, state) => {
  const leaf = !kids.length;
  const wrong = node.wrong && state !== "later";
  const [fill, outline, ink] = colours(theme, wrong, leaf, state);
  const label = clip(shown(node.sign || node.label), 6);
  ctx.font = font(theme, leaf ? 14 : node.sign ? 17 : 12, 600);
  ctx.textBaseline = "middle";
  const half = Math.max(15, ctx.measureText(label).width / 2 + 6);
  if (node.sign && !leaf) beside(ctx, theme, shown(node.label), state === "now" ? "query" : "ink-3", x + 23, y - 8);
  if (wrong && node.expected)
    beside(ctx, theme, "is " + shown(node.expected), "bad", x + (leaf ? half + 6 : 23), y + (leaf ? 0 : 7));
  ctx.beginPath();
  if (leaf) ctx.roundRect(x - half, y - 15, 2 * half, 30, 6);
  else ctx.arc(x, y, 17, 0, 2 * Math.PI);
  ctx.fillStyle = fill;
  ctx.fill();
  ctx.lineWidth = wrong || state === "now" ? 2.5 : 1.5;
  ctx.strokeStyle = outline;
  ctx.setLineDash(state === "later" ? DASH : []);
  ctx.stroke();
  ctx.setLineDash([]);
  ctx.font = font(theme, leaf ? 14 : node.sign ? 17 : 12, 600);
  ctx.textAlign = "center";
  ctx.fillStyle = ink;
  ctx.fillText(label, x, y + 1);
};

/** The tree in words: ASSIGN(x, SUB(MUL(3, ADD(y, 4)), 7)). */
const inWords = (/** @type {Board.ParseNode} */ node) =>
  shown(node.label) + (node.children?.length ? `(${node.children.map(inWords).join(", ")})` : "");

const parseTree = (host, { level = 68 } = {}) => {
  const inside = el("div");
  const region = scrollRegion("Parse tree, scrolls sideways where it is wider than the panel", "hf-tree", inside);
  const watch = () => (region.tabIndex = inside.offsetWidth > region.clientWidth ? 0 : -1); // else no stop for Tab
  new ResizeObserver(watch).observe(inside);
  host.append(region);
  /** @type {Board.ParseNode} */
  let root = null;
  /** @type {number | null} */
  let written = null;
  const picture = surface(inside, "Parse tree", (ctx, width, theme, size) => {
    if (!root) {
      size(width, 1);
      return;
    }
    const { nodes, leaves, deepest } = place(root);
    size(width, TOP + deepest * level + HALF + 4);
    const X = n => (leaves === 1 ? width / 2 : HALF + 4 + (n.x / (leaves - 1)) * (width - 2 * HALF - 44));
    const Y = n => TOP + n.depth * level;
    edges(ctx, theme, nodes, X, Y, { level, written });
    nodes.forEach(n => drawNode(ctx, theme, n, X(n), Y(n), stateOf(n.at, written)));
  });
  const update = (/** @type {Board.ParseNode} */ next, /** @type {number | null} */ now = null) => {
    [root, written] = [next, now];
    inside.style.minWidth = root ? place(root).leaves * 58 + "px" : "";
    picture.relabel(root ? "Parse tree " + inWords(root) : "Parse tree");
    picture.redraw();
  };
  return { update, png: picture.png, svg: picture.svg };
};

export { parseTree };
