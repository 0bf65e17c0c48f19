/* All heads at a glance: rows are layers, columns are heads, no words but the indices; the chosen one is ringed.

   const grid = headGrid(host, {onPick(layer, head)}); grid.update({maps[L][H][Q][K], layer, head, wholeRow})
   top: where the colour scale ends (1)
   wholeRow: all heads of the layer are ringed; layers, heads: which of the model's these are, where not all are here
   or, with a number in each cell in place of its map, grid.update({left[L][H] {text, title, value} or null, layer, head}):
   value, from −1 to 1, is the cell's signed colour. */
import { button, el } from "../core/dom.js";
import { range } from "../core/format.js";
import { thumb } from "../core/surface.js";
import { onLook, themeOf } from "../core/theme.js";
import { paintSigned } from "./signed_colours.js";

const headGrid = (host, { onPick }) => {
  const grid = el("div", "hf-grid");
  const scroll = el("div", "hf-scroll", grid);
  grid.setAttribute("role", "group");
  grid.setAttribute("aria-label", "All heads: rows are layers, columns are heads; arrow keys move");
  host.append(scroll);
  let o = null;
  let presses = [];
  let shown = ""; // the place that was chosen last

  /** Scroll the grid alone, never the page, until a press stands in it. */
  const bringIntoView = press => {
    const [box, at] = [scroll.getBoundingClientRect(), press.getBoundingClientRect()];
    const past = (from, to, low, high) => Math.min(0, from - low) || Math.max(0, to - high);
    scroll.scrollTop += past(at.top, at.bottom, box.top, box.bottom);
    scroll.scrollLeft += past(at.left, at.right, box.left, box.right);
  };

  const layerAt = l => (o.layers?.[l] ?? l) + 1;
  const headAt = h => (o.heads?.[h] ?? h) + 1;
  const write = (press, l, h) => {
    const cell = o.left[l][h];
    const place = `layer ${layerAt(l)}, head ${headAt(h)}`;
    const number = el("span", "", cell ? cell.text : "–");
    number.dataset.value = String(cell ? cell.value : 0);
    number.dataset.end = "1";
    press.title = cell ? `${place}: ${cell.title}` : place;
    press.setAttribute("aria-label", press.title);
    press.replaceChildren(number);
  };
  const paint = () => {
    if (!o) return;
    if (o.left) {
      presses.forEach(({ press, l, h }) => write(press, l, h));
      paintSigned(grid);
      return;
    }
    const theme = themeOf(grid);
    presses.forEach(({ canvas, l, h }) => thumb(canvas, o.maps[l][h], theme, { most: o.top }));
  };
  onLook(grid, paint);

  const cells = of => of.maps || of.left;
  const thumbnail = (l, h) => {
    const canvas = el("canvas");
    const press = button("", () => onPick(l, h), "");
    press.append(canvas);
    press.title = `layer ${layerAt(l)}, head ${headAt(h)}`;
    press.setAttribute("aria-label", press.title);
    return { press, canvas, l, h };
  };
  const build = () => {
    const [layers, heads] = [cells(o).length, cells(o)[0].length];
    const index = number => el("b", "", String(number));
    presses = range(layers).flatMap(l => range(heads).map(h => thumbnail(l, h)));
    grid.style.setProperty("--heads", heads);
    grid.classList.toggle("many", layers * heads > 48);
    grid.replaceChildren(
      el("b"),
      ...range(heads).map(h => index(headAt(h))),
      ...range(layers).flatMap(l => [index(layerAt(l)), ...presses.filter(p => p.l === l).map(p => p.press)]),
    );
  };
  grid.addEventListener("keydown", event => {
    // one stop for Tab, arrows inside
    const [dl, dh] = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] }[event.key] || [
      0, 0,
    ];
    const next = (dl || dh) && presses.find(p => p.l === o.layer + dl && p.h === o.head + dh);
    if (!next) return;
    event.preventDefault();
    onPick(next.l, next.h);
    next.press.focus();
  });
  const update = next => {
    const [had, has] = [o && cells(o), cells(next)];
    const sameShape = had && had.length === has.length && had[0].length === has[0].length;
    const sameMaps = had === has;
    o = next;
    if (!sameShape) build();
    if (!sameMaps) paint();
    const place = `${o.layer} ${o.head}`;
    const moved = !sameShape || place !== shown;
    shown = place;
    presses.forEach(({ press, l, h }) => {
      const chosen = l === o.layer && h === o.head;
      const pressed = String(chosen || Boolean(o.wholeRow && l === o.layer));
      const stop = chosen ? 0 : -1;
      // of many heads few change, and each change is a new layout
      if (press.getAttribute("aria-pressed") !== pressed) press.setAttribute("aria-pressed", pressed);
      if (press.tabIndex !== stop) press.tabIndex = stop;
    });
    const press = presses.find(p => p.l === o.layer && p.h === o.head)?.press;
    if (moved && press) bringIntoView(press);
  };
  return { update };
};

export { headGrid };
