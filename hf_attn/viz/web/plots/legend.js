/* What the marks of a picture mean, as a picture: in one line where there is room for it; words that are wider than the
   picture go on in the next line. */
import { drawText, font } from "../core/theme.js";

const [LINE, APART] = [22, 14]; // px

/** Words in lines of at most this width, of one word at least. */
const linesOf = (ctx, words, width) =>
  words.split(" ").reduce((lines, word) => {
    const longer = lines.length ? `${lines.at(-1)} ${word}` : word;
    if (lines.length && ctx.measureText(longer).width <= width) lines[lines.length - 1] = longer;
    else lines.push(word);
    return lines;
  }, []);

/** Parts are [width of the mark, words, draw(x, y)]: where the mark begins, and the middle of its line. */
const paintLegend = (ctx, width, theme, size, parts) => {
  ctx.font = font(theme, 12);
  let [x, line] = [0, 0];
  const placed = parts.map(([before, words, draw]) => {
    const wide = before + ctx.measureText(words).width;
    if (x && x + wide > width) [x, line] = [0, line + 1];
    const lines = wide > width ? linesOf(ctx, words, width - before) : [words];
    const at = { x, line, before, lines, draw };
    line += lines.length - 1;
    x += wide + APART;
    return at;
  });
  size(width, (line + 1) * LINE);
  for (const { x, line, before, lines, draw } of placed) {
    draw(x, (line + 0.5) * LINE);
    lines.forEach((words, i) =>
      drawText(ctx, theme, words, x + before, (line + i + 0.5) * LINE, { colour: theme["ink-2"] }),
    );
  }
};

export { paintLegend };
