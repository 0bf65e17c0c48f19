/* A canvas that follows its host's width, the theme and the pixel ratio.

   const picture = surface(host, label, paint, {title, legend}); picture.redraw()
   paint(ctx, width, theme, size, room) measures first, calls size(w, h) once, then draws. The same paint also draws
   the PNG and the SVG, on a slide (slide.js): room {width, height} is what it may fill there, undefined on the page
   title()  of that slide, parts that are texts or [text, name of a colour]; null for the panel's heading
   legend(ctx, width, theme, size)  of that slide, where the page has it beside the picture
   picture.relabel(label, name)  for the reader of the screen; name where the slide says it in other words */
import { el, save } from "./dom.js";
import { range } from "./format.js";
import { HIGH, paintSlide, WIDE } from "./slide.js";
import { drawSvg } from "./svg.js";
import { colourOf, onLook, readTheme, themeOf } from "./theme.js";

const drawings = new WeakMap(); // canvas → (colours) → the same picture as SVG

/** Clear a canvas. A size that is set has the page's styles computed again, even where it is the same: it is set
    only where it changes, and in browsers of before 2024 that cannot clear otherwise. */
const resize = (canvas, width, height) => {
  const ctx = canvas.getContext("2d");
  if (ctx.reset && canvas.width === width && canvas.height === height) ctx.reset();
  else Object.assign(canvas, { width, height });
};

const SHARPNESS = 2; // of a slide's pixels
const dayTheme = () => readTheme(document.documentElement);

const surface = (host, label, paint, { title = null, legend = null } = {}) => {
  const canvas = el("canvas");
  canvas.setAttribute("role", "img");
  canvas.setAttribute("aria-label", label);
  host.append(canvas);
  let asked = false;
  let width = 0;
  const now = () => {
    asked = false;
    width ||= host.clientWidth; // later the observer says it: asking here would lay the page out once a canvas
    if (!width) return;
    const [ctx, ratio] = [canvas.getContext("2d"), devicePixelRatio || 1];
    paint(ctx, width, themeOf(host), (w, h) => {
      resize(canvas, Math.round(w * ratio), Math.round(h * ratio));
      ctx.setTransform(ratio, 0, 0, ratio, 0, 0);
      canvas.style.width = w + "px";
      canvas.style.height = h + "px";
    });
  };
  const redraw = () => {
    if (!asked) {
      asked = true;
      requestAnimationFrame(now);
    }
  };
  new ResizeObserver(() => {
    if (host.clientWidth === width) return;
    width = host.clientWidth;
    redraw();
  }).observe(host);
  onLook(canvas, redraw);
  let slideName = label;
  const labelled = () => canvas.getAttribute("aria-label");
  const slide = (ctx, theme) => {
    paintSlide(ctx, theme, { host, name: slideName, paint, title, legend });
    redraw(); // what is remembered of where things lie is of the slide now
  };
  const png = name => {
    const paper = Object.assign(el("canvas"), { width: SHARPNESS * WIDE, height: SHARPNESS * HIGH });
    const ctx = paper.getContext("2d");
    ctx.scale(SHARPNESS, SHARPNESS);
    slide(ctx, dayTheme());
    paper.toBlob(blob => save(name + ".png", blob));
  };
  const paintPaper = (ctx, _, theme, size) => {
    size(WIDE, HIGH);
    slide(ctx, theme);
  };
  const svg = name => {
    const text = drawSvg(paintPaper, WIDE, dayTheme(), labelled());
    save(name + ".svg", new Blob([text], { type: "image/svg+xml" }));
  };
  drawings.set(canvas, colours => drawSvg(paint, width, colours, labelled()));
  const relabel = (text, name = text.split(": ")[0]) => {
    slideName = name;
    canvas.setAttribute("aria-label", text);
  };
  return { canvas, redraw, png, svg, relabel };
};

/** A frame [x, y, width, height, radius], cased in the panel's colour, so that it is seen on any cell. */
const casedFrame = (ctx, theme, frame, colour, line) => {
  const stroke = (style, wide) => {
    ctx.lineWidth = wide;
    ctx.strokeStyle = style;
    ctx.beginPath();
    ctx.roundRect(...frame);
    ctx.stroke();
  };
  stroke(theme.panel, line + 2);
  stroke(colour, line);
};

const pooled = (values, by) =>
  range(Math.ceil(values.length / by)).map(r =>
    range(Math.ceil(values[0].length / by)).map(c => {
      const block = values.slice(r * by, (r + 1) * by).map(row => Math.max(...row.slice(c * by, (c + 1) * by)));
      return Math.max(...block);
    }),
  );

/* one small map: no labels, no numbers, one pixel a cell; over `longest` cells it is pooled by the maximum */
const thumb = (canvas, values, colours, { most = 1, longest = 64 } = {}) => {
  const by = Math.ceil(Math.max(values.length, values[0].length) / longest);
  const small = by > 1 ? pooled(values, by) : values;
  const [m, n] = [small.length, small[0].length];
  const ctx = canvas.getContext("2d");
  resize(canvas, n, m);
  const image = ctx.createImageData(n, m);
  small.forEach((row, r) =>
    row.forEach((v, c) => image.data.set([...colourOf(colours, v, most), 255], 4 * (r * n + c))),
  );
  ctx.putImageData(image, 0, 0);
};

export { casedFrame, drawings, pooled, surface, thumb };
