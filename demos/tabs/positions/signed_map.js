/* A table of signed numbers as a picture.

   const map = signedMap(host, options); map.update({values: …})
   options  rows, cols     numbers or words beside each row and above each column
            rowName, colName, role   what they count; role true: rows are queries, columns keys
            values[r][c]   any numbers;  most  end of both sides of the colour scale;  ends  its words
            selected       {r, c};  onSelect({r, c});  tell(r, c)  the lines of the tip
            name           what it is, for the reader of the screen */
import { el, live } from "../../../hf_attn/viz/web/core/dom.js";
import { clamp, number, range } from "../../../hf_attn/viz/web/core/format.js";
import { casedFrame, surface } from "../../../hf_attn/viz/web/core/surface.js";
import { css, drawText, font, numberOn } from "../../../hf_attn/viz/web/core/theme.js";
import { mapCells } from "../../../hf_attn/viz/web/plots/map_cells.js";
import { signedColour } from "../../../hf_attn/viz/web/plots/signed_colours.js";

const TALLEST = 400;
const LARGEST = 30; // of a cell: more makes a small table no clearer
const NUMBERS = 27; // from which size on a cell holds its number
const plan = (ctx, width, theme, o) => {
  ctx.font = font(theme, 12, 500);
  const x0 = Math.ceil(Math.max(...o.rows.map(label => ctx.measureText(String(label)).width)) + 12);
  const [n, m, y0] = [o.cols.length, o.rows.length, 42];
  const w = Math.min(LARGEST, (width - x0 - 2) / n);
  const h = Math.max(4, Math.min(LARGEST, w >= 4 ? w : LARGEST, TALLEST / m));
  const widest = Math.max(...o.cols.map(label => ctx.measureText(String(label)).width));
  const [everyR, everyC] = [Math.ceil(14 / h), Math.ceil((widest + 8) / w)];
  return { x0, y0, n, m, w, h, everyR, everyC, width: x0 + n * w + 2, height: y0 + m * h + 2 };
};

const axisNames = (ctx, theme, o, box) => {
  const base = "alphabetic";
  const write = (name, rest, colour, x) => {
    const wide = drawText(ctx, theme, name, x, 12, { base, colour: theme[colour], weight: 600 });
    return x + wide + drawText(ctx, theme, rest, x + wide, 12, { base });
  };
  const [row, col] = o.role ? ["query", "key"] : ["ink-2", "ink-2"];
  const end = write(o.rowName, o.role ? ": reads ↓" : " ↓", row, 0);
  write(o.colName, o.role ? ": is read →" : " →", col, Math.max(box.x0, end + 16));
};

const labels = (ctx, theme, o, box, at) => {
  const shows = (i, every, marked) => i === marked || (i % every === 0 && Math.abs(i - marked) >= every);
  const put = (text, x, y, align, chosen, role) => {
    const colour = theme[chosen ? (o.role ? role : "ink") : "ink-3"];
    drawText(ctx, theme, text, x, y, { align, colour, weight: chosen ? 600 : 500 });
  };
  for (const r of range(box.m).filter(i => shows(i, box.everyR, at?.r ?? -99)))
    put(o.rows[r], box.x0 - 7, box.y0 + (r + 0.5) * box.h, "right", r === at?.r, "query");
  for (const c of range(box.n).filter(i => shows(i, box.everyC, at?.c ?? -99))) {
    const x = clamp(box.x0 + (c + 0.5) * box.w, box.x0 + 4, box.width - 8);
    put(o.cols[c], x, box.y0 - 12, "center", c === at?.c, "key");
  }
};

const paintMap = (ctx, width, theme, size, o, hover) => {
  const box = plan(ctx, width, theme, o);
  size(Math.min(width, box.width), box.height);
  axisNames(ctx, theme, o, box);
  labels(ctx, theme, o, box, hover || o.selected);
  const gap = Math.min(box.w, box.h) >= 18 ? 1 : 0;
  const hasNumbers = Math.min(box.w, box.h) >= NUMBERS;
  for (const r of range(box.m))
    for (const c of range(box.n)) {
      const [x, y] = [box.x0 + c * box.w, box.y0 + r * box.h];
      const rgb = signedColour(theme, o.values[r][c], o.most);
      ctx.fillStyle = css(rgb);
      const bleed = gap ? -gap : 0.5; // dense cells touch
      ctx.fillRect(x, y, box.w + bleed, box.h + bleed);
      if (!hasNumbers) continue;
      const look = { align: "center", colour: numberOn(theme, rgb) };
      drawText(ctx, theme, number(o.values[r][c], 1), x + box.w / 2, y + box.h / 2 + 1, look);
    }
  if (!o.selected) return box;
  const { r, c } = o.selected;
  const [row, col] = o.role ? [theme.query, theme.key] : [theme.ink, theme.ink];
  casedFrame(ctx, theme, [box.x0 - 1, box.y0 + r * box.h - 1, box.n * box.w + 2, box.h + 2, 1], row, 2);
  casedFrame(ctx, theme, [box.x0 + c * box.w - 1, box.y0 - 1, box.w + 2, box.m * box.h + 2, 1], col, 2);
  return box;
};

const paintLegend = (ctx, width, theme, size, o) => {
  const [bar, left] = [Math.min(180, width - 40), 14];
  size(Math.min(width, bar + 60), 30);
  for (const i of range(45)) {
    ctx.fillStyle = css(signedColour(theme, i / 22 - 1, 1));
    ctx.fillRect(left + (i * bar) / 45, 0, bar / 45 + 0.5, 11);
  }
  const look = { align: "center", base: "alphabetic" };
  o.ends.forEach((text, i) => drawText(ctx, theme, text, left + (bar * i) / 2, 26, look));
};

const signedMap = (host, options) => {
  const o = { rows: [""], cols: [""], values: [[0]], most: 1, ends: ["−1", "0", "1"], selected: null, ...options };
  const [pictureHost, legendHost, spoken] = [el("div"), el("div", "hf-legend"), live()];
  host.append(pictureHost, legendHost, spoken.element);
  let box = null;
  const legend = (ctx, width, theme, size) => paintLegend(ctx, width, theme, size, o);
  const paint = (ctx, width, theme, size) => {
    box = paintMap(ctx, width, theme, size, o, cells.hover);
  };
  const picture = surface(pictureHost, o.name || "", paint, { legend });
  const scale = surface(legendHost, "Colour scale", legend);
  const cells = mapCells(picture, o, { spoken, box: () => box, words: at => o.tell(at.r, at.c), page: 8 });
  const update = patch => {
    Object.assign(o, patch);
    cells.hover = null;
    picture.relabel(`${o.name}: ${o.rows.length} rows by ${o.cols.length} columns`, o.name);
    picture.redraw();
    scale.redraw();
  };
  return { update, png: picture.png, svg: picture.svg };
};

export { signedMap };
