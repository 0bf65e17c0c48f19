/* A parse tree: operators round in accent with their sign, their name in mono beside them; leaves square.
   A wrong node has a rust outline and the right symbol beside it.

   parseTree(host).update(root), a Board.ParseNode; wide trees scroll inside their host. */
import { el, scrollRegion } from "../core/dom.js";
import { clip, shown } from "../core/format.js";
import { surface } from "../core/surface.js";
import { font } from "../core/theme.js";

const LEVEL = 68;
const TOP = 22;
const HALF = 19;

/** Every node with its place: x in leaves from the left, depth in levels from the top. */
const place = (/** @type {Board.ParseNode} */ root) => {
  const nodes = [];
  let leaves = 0;
  const visit = (/** @type {Board.ParseNode} */ node, /** @type {number} */ depth) => {
    const kids = (node.children || []).map(child => visit(child, depth + 1));
    const placed = { node, depth, kids, x: kids.length ? (kids[0].x + kids.at(-1).x) / 2 : leaves++ };
    nodes.push(placed);
    return placed;
  };
  visit(root, 0);
  return { nodes, leaves, deepest: Math.max(...nodes.map(n => n.depth)) };
};

const edges = (ctx, theme, nodes, X, Y) => {
  ctx.strokeStyle = theme.control;
  ctx.lineWidth = 1.5;
  for (const parent of nodes)
    for (const kid of parent.kids) {
      const [xa, ya, xb, yb] = [X(parent), Y(parent), X(kid), Y(kid)];
      ctx.beginPath();
      ctx.moveTo(xa, ya);
      ctx.bezierCurveTo(xa, ya + LEVEL * 0.55, xb, yb - LEVEL * 0.55, xb, yb);
      ctx.stroke();
    }
};

const beside = (ctx, theme, text, colour, x, y) => {
  ctx.font = font(theme, 12, 400, theme.mono);
  ctx.textAlign = "left";
  ctx.fillStyle = theme.panel;
  ctx.fillRect(x - 2, y - 8, ctx.measureText(text).width + 4, 16);
  ctx.fillStyle = theme[colour];
  ctx.fillText(text, x, y);
};

const drawNode = (ctx, theme, /** @type {{node: Board.ParseNode, kids: any[]}} */ { node, kids }, x, y) => {
  const leaf = !kids.length;
  const label = clip(shown(node.sign || node.label), 6);
  ctx.font = font(theme, leaf ? 14 : node.sign ? 17 : 12, 600);
  ctx.textBaseline = "middle";
  const half = Math.max(15, ctx.measureText(label).width / 2 + 6);
  if (node.sign && !leaf) beside(ctx, theme, shown(node.label), "ink-3", x + 23, y - 8);
  if (node.wrong && node.expected)
    beside(ctx, theme, "is " + shown(node.expected), "bad", x + (leaf ? half + 6 : 23), y + (leaf ? 0 : 7));
  ctx.beginPath();
  if (leaf) ctx.roundRect(x - half, y - 15, 2 * half, 30, 6);
  else ctx.arc(x, y, 17, 0, 2 * Math.PI);
  ctx.fillStyle = node.wrong ? theme["bad-soft"] : leaf ? theme.panel : theme.accent;
  ctx.fill();
  ctx.lineWidth = node.wrong ? 2.5 : 1.5;
  ctx.strokeStyle = node.wrong ? theme.bad : leaf ? theme.control : theme.accent;
  ctx.stroke();
  ctx.font = font(theme, leaf ? 14 : node.sign ? 17 : 12, 600);
  ctx.textAlign = "center";
  ctx.fillStyle = node.wrong ? theme.bad : leaf ? theme.ink : theme["on-accent"];
  ctx.fillText(label, x, y + 1);
};

/** The tree in words: ASSIGN(x, SUB(MUL(3, ADD(y, 4)), 7)). */
const inWords = (/** @type {Board.ParseNode} */ node) =>
  shown(node.label) + (node.children?.length ? `(${node.children.map(inWords).join(", ")})` : "");

const parseTree = host => {
  const inside = el("div");
  host.append(scrollRegion("Parse tree, scrolls sideways where it is wider than the panel", "hf-tree", inside));
  /** @type {Board.ParseNode} */
  let root = null;
  const picture = surface(inside, "Parse tree", (ctx, width, theme, size) => {
    if (!root) {
      size(width, 1);
      return;
    }
    const { nodes, leaves, deepest } = place(root);
    size(width, TOP + deepest * LEVEL + HALF + 4);
    const X = n => (leaves === 1 ? width / 2 : HALF + 4 + (n.x / (leaves - 1)) * (width - 2 * HALF - 44));
    const Y = n => TOP + n.depth * LEVEL;
    edges(ctx, theme, nodes, X, Y);
    nodes.forEach(n => drawNode(ctx, theme, n, X(n), Y(n)));
  });
  const update = (/** @type {Board.ParseNode} */ next) => {
    root = next;
    inside.style.minWidth = root ? place(root).leaves * 58 + "px" : "";
    picture.relabel(root ? "Parse tree " + inWords(root) : "Parse tree");
    picture.redraw();
  };
  return { update, png: picture.png, svg: picture.svg };
};

export { parseTree };
