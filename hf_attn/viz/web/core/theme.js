/* The page's colours: what tokens.css sets, read of an element; the colour of a weight; who redraws when the look changes. */
import { el } from "./dom.js";
import { clamp, range } from "./format.js";

const NAMES = [
  "bg",
  "panel",
  "sunken",
  "line",
  "line-strong",
  "control",
  "ink",
  "ink-2",
  "ink-3",
  "accent",
  "accent-soft",
  "on-accent",
  "query",
  "query-soft",
  "key",
  "key-soft",
  "bad",
  "bad-soft",
  "cell-dark",
  "cell-light",
  "series-1",
  "series-2",
  "series-3",
  "series-4",
];
const SIGNED = ["m4", "m3", "m2", "m1", "0", "p1", "p2", "p3", "p4"];
const rgbOf = hex => [1, 3, 5].map(i => parseInt(hex.slice(i, i + 2), 16));
const reduced = matchMedia("(prefers-reduced-motion: reduce)");
let known = { look: null };
const themeOf = element => {
  const look = `${document.body.className} ${reduced.matches}`; // all that the variables hang on
  if (known.look !== look) known = { look, ...readTheme(element) };
  return known;
};
/** What is read of an element that has the night's colours, whatever the page has. */
const atNight = read => {
  const night = el("div", "dark");
  document.body.append(night);
  const found = read(night);
  night.remove();
  return found;
};
const readTheme = element => {
  const style = getComputedStyle(element);
  const get = name => style.getPropertyValue("--hf-" + name).trim();
  const read = { font: get("font"), mono: get("font-mono"), fade: parseFloat(get("t-map")) || 0 };
  for (const name of NAMES) read[name] = get(name);
  read.attention = range(11).map(i => rgbOf(get("att-" + i)));
  read.signed = SIGNED.map(name => rgbOf(get("sgn-" + name)));
  return read;
};
const colourOf = (colours, value, most = 1) => {
  // one weight as [r, g, b] on the attention scale
  const stops = colours.attention;
  const at = clamp(value / most || 0, 0, 1) * (stops.length - 1);
  const i = Math.min(stops.length - 2, Math.floor(at));
  return stops[i].map((x, k) => Math.round(x + (stops[i + 1][k] - x) * (at - i)));
};
const css = rgb => `rgb(${rgb.join(",")})`;
const numberOn = (colours, rgb) => {
  // black or white, whichever contrasts more
  const [r, g, b] = rgb.map(v => v / 255).map(v => (v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4));
  return 0.2126 * r + 0.7152 * g + 0.0722 * b > 0.179 ? colours["cell-dark"] : colours["cell-light"];
};
const font = (colours, size, weightOf = 400, family = colours.font) => `${weightOf} ${size}px ${family}`;
/** Write on a picture, and give how wide that is. */
const drawText = (ctx, theme, text, x, y, look) => {
  const { align = "left", base = "middle", colour = theme["ink-3"], weight = 400, size = 12 } = look;
  ctx.font = font(theme, size, weight);
  Object.assign(ctx, { textAlign: align, textBaseline: base, fillStyle: colour });
  ctx.fillText(text, x, y);
  return ctx.measureText(text).width;
};
const DASHES = [[], [7, 4], [2, 3], [9, 3, 2, 3]]; // one a series, beside its colour

/* ---- redraw when the look changes ---- */

const lookers = new Set();
const lookChanged = () =>
  lookers.forEach(one => {
    if (one.host.isConnected) one.redraw();
    else lookers.delete(one);
  });
const watchRatio = () => {
  matchMedia(`(resolution: ${devicePixelRatio}dppx)`).addEventListener(
    "change",
    () => {
      lookChanged();
      watchRatio();
    },
    { once: true },
  );
};
const watchLook = () => {
  const observer = new MutationObserver(lookChanged);
  const what = { attributes: true, attributeFilter: ["class"] };
  observer.observe(document.documentElement, what);
  observer.observe(document.body, what);
  watchRatio();
};
let watching = false;
const onLook = (host, redraw) => {
  // until the host leaves the page
  if (!watching) {
    watching = true;
    watchLook();
  }
  lookers.add({ host, redraw });
};

export { atNight, colourOf, css, DASHES, drawText, font, numberOn, onLook, readTheme, themeOf };
