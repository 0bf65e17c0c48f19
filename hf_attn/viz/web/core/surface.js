/* A canvas that follows its host's width, the theme and the pixel ratio.

   const picture = surface(host, label, paint); picture.redraw()
   paint(ctx, width, theme, size) measures first, calls size(w, h) once, then draws. The same paint also draws
   the PNG and the SVG, so that what is saved is what is seen. */
import { el, save } from "./dom.js";
import { range } from "./format.js";
import { drawSvg } from "./svg.js";
import { colourOf, onLook, themeOf } from "./theme.js";

const drawings = new WeakMap(); // canvas → (colours) → the same picture as SVG

/** Clear a canvas. A size that is set has the page's styles computed again, even where it is the same: it is set
    only where it changes, and in browsers of before 2024 that cannot clear otherwise. */
const resize = (canvas, width, height) => {
  const ctx = canvas.getContext("2d");
  if (ctx.reset && canvas.width === width && canvas.height === height) ctx.reset();
  else Object.assign(canvas, { width, height });
};

const surface = (host, label, paint) => {
  const canvas = el("canvas");
  canvas.setAttribute("role", "img");
  canvas.setAttribute("aria-label", label);
  host.append(canvas);
  let asked = false;
  let width = 0;
  const onto = (target, ratio, ground) => {
    const ctx = target.getContext("2d");
    const colours = themeOf(host);
    paint(ctx, width, colours, (w, h) => {
      resize(target, Math.round(w * ratio), Math.round(h * ratio));
      ctx.setTransform(ratio, 0, 0, ratio, 0, 0);
      if (ground) {
        ctx.fillStyle = colours.panel;
        ctx.fillRect(0, 0, w, h);
      } else {
        target.style.width = w + "px";
        target.style.height = h + "px";
      }
    });
  };
  const now = () => {
    asked = false;
    width ||= host.clientWidth; // later the observer says it: asking here would lay the page out once a canvas
    if (width) onto(canvas, devicePixelRatio || 1, false);
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
  const png = name => {
    const copy = el("canvas");
    onto(copy, Math.max(2, devicePixelRatio || 1), true);
    copy.toBlob(blob => save(name + ".png", blob));
  };
  const drawn = colours => drawSvg(paint, width, colours, canvas.getAttribute("aria-label"));
  drawings.set(canvas, drawn);
  const svg = name => save(name + ".svg", new Blob([drawn(themeOf(host))], { type: "image/svg+xml" }));
  return { canvas, redraw, png, svg, relabel: text => canvas.setAttribute("aria-label", text) };
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
