/* Every head of the lens, to take away: small maps as one picture, all weights, the whole lens as one page.

   const take = takeHeads(panel, board, titles) at the foot of the panel; take(data, kind) after each update, both as
   explore_board.js has them */
import { el } from "../core/dom.js";
import { entropy, mean, range } from "../core/format.js";
import { pooled, surface } from "../core/surface.js";
import { colourOf, css, font } from "../core/theme.js";
import { heatmapPaint } from "../plots/heatmap_paint.js";
import { takeRow } from "./buttons.js";

const NOTE = "in each map: rows are queries, columns keys";
const [LARGEST, GAP, LEFT, TOP] = [96, 6, 58, 40];
const MOST = 32; // cells on a side of a small map

const paint = (ctx, width, theme, size, { maps, layers, heads: numbers, top }, room) => {
  const heads = maps[0].length;
  const fits = (length, many) => Math.floor(length / many) - GAP;
  const largest = room ? fits(room.height - TOP, maps.length) : LARGEST;
  const side = Math.max(12, Math.min(largest, fits(width - LEFT, heads)));
  size(LEFT + heads * (side + GAP), TOP + maps.length * (side + GAP));
  ctx.font = font(theme, 12);
  ctx.textAlign = "center";
  ctx.textBaseline = "middle";
  const put = (text, x, y) => {
    ctx.fillStyle = theme["ink-3"];
    ctx.fillText(String(text), x, y);
  };
  put("head →", LEFT + 20, 10);
  put("layer ↓", 24, TOP - 10);
  range(heads).forEach(h => put(numbers[h] + 1, LEFT + h * (side + GAP) + side / 2, TOP - 10));
  maps.forEach((layer, l) => {
    put(layers[l] + 1, LEFT - 14, TOP + l * (side + GAP) + side / 2);
    layer.forEach((map, h) => {
      const small = pooled(map, Math.ceil(Math.max(map.length, map[0].length) / MOST));
      const [x0, y0] = [LEFT + h * (side + GAP), TOP + l * (side + GAP)];
      const [wide, high] = [side / small[0].length, side / small.length];
      small.forEach((row, r) =>
        row.forEach((weight, c) => {
          ctx.fillStyle = css(colourOf(theme, weight, top));
          ctx.fillRect(x0 + c * wide, y0 + r * high, wide, high);
        }),
      );
    });
  });
};

/** Names as `hf_attn.viz.draw_map.save_maps` gives them: what it wrote and what this writes are read alike. Where not all
    layers and heads are here, which these are, from 0. */
const arraysOf = kinds => {
  const axes = { encoder: ["source_tokens", "source_tokens"], decoder: ["target_tokens", "decoder_tokens"] };
  axes.cross = ["target_tokens", "source_tokens"];
  return Object.assign(
    {},
    ...Object.entries(kinds).map(([kind, { maps, rows, cols, layers, heads }]) => {
      const [reads, isRead] = axes[kind];
      const numbers = { [`${kind}_layers`]: layers, [`${kind}_heads`]: heads };
      return { [kind]: maps, [reads]: rows, [isRead]: cols, ...numbers };
    }),
  );
};

const takeHeads = (panel, board, titles) => {
  let shown = null;
  const host = el("div", "hf-unseen"); // the picture of the page is made of buttons; this one is only saved
  const picture = surface(
    host,
    "Every head",
    (ctx, width, theme, size, room) => {
      if (shown) paint(ctx, width, theme, size, shown.data, room);
    },
    {
      title: () => [`Every head: ${titles[shown.kind]}`],
      legend: (ctx, width, theme, size) =>
        heatmapPaint.legend(ctx, width, theme, { most: shown.data.top, note: NOTE }, size),
    },
  );
  picture.canvas.setAttribute("aria-hidden", "true");
  panel.body.append(host);
  const places = maps => maps.flatMap((layer, l) => layer.map((map, h) => ({ map, l, h })));
  const meanEntropy = map => mean(map.map(entropy));
  const most = map => Math.max(...map.map(row => Math.max(...row)));
  const take = takeRow({
    picture,
    of: "every head",
    file: () => `attention-${shown?.kind ?? "none"}-all-heads`,
    lines: () => [
      ["layer, head", "mean entropy in bits", "largest weight"],
      ...places(shown.data.maps).map(({ map, l, h }) => [
        `${shown.data.layers[l] + 1}, ${shown.data.heads[h] + 1}`,
        meanEntropy(map),
        most(map),
      ]),
    ],
    caption: () => `Every head of the ${shown?.kind} attention`,
    arrays: () => arraysOf(board.whole().kinds),
    page: () => ({ kind: "lens", title: `Attention: ${board.whole().value.title}`, value: board.whole().value }),
    python: board.python,
  });
  panel.footer.append(take.row);
  panel.section.append(take.below);
  return (data, kind) => {
    shown = data && { data, kind };
    panel.footer.hidden = !data || !board.whole();
    if (!data) return;
    picture.relabel(`Every head of the ${kind} attention`);
    picture.redraw();
    take.refresh();
  };
};

export { takeHeads };
