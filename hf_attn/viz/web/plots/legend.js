/* What the marks of a picture mean, as a picture: in one line where there is room for it. */
import { drawText, font } from "../core/theme.js";

const [LINE, APART] = [22, 14]; // px

/** Parts are [width of the mark, words, draw(x, y)]: where the mark begins, and the middle of its line. */
const paintLegend = (ctx, width, theme, size, parts) => {
  ctx.font = font(theme, 12);
  let [x, line] = [0, 0];
  const placed = parts.map(([before, words, draw]) => {
    const wide = before + ctx.measureText(words).width;
    if (x && x + wide > width) [x, line] = [0, line + 1];
    const at = { x, y: (line + 0.5) * LINE, before, words, draw };
    x += wide + APART;
    return at;
  });
  size(width, (line + 1) * LINE);
  for (const { x, y, before, words, draw } of placed) {
    draw(x, y);
    drawText(ctx, theme, words, x + before, y, { colour: theme["ink-2"] });
  }
};

export { paintLegend };
