/* All heads at a glance: rows are layers, columns are heads, no words but the indices; the chosen one is ringed.

   const grid = headGrid(host, {onPick(layer, head), onLeave(way, head)})
   grid.update({maps[L][H][Q][K], layer, head, wholeRow, notes}); grid.focus(layer, head)
   layer   null: none of these is chosen, and the keyboard does not stop here
   top     where the colour scale ends (1)
   wholeRow: all heads of the layer are ringed; layers, heads: which of the model's these are, where not all are here
   notes[L][H]  {text, cls, title} under a map, where there is one
   onLeave      an arrow key goes up (−1) or down (1) from the first or the last layer */
import { button, el } from "../core/dom.js";
import { range } from "../core/format.js";
import { thumb } from "../core/surface.js";
import { onLook, themeOf } from "../core/theme.js";

const FEW = 4; // heads that need no numbers above them

const headGrid = (host, { onPick, onLeave = (_way, _head) => {} }) => {
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
  /** The note under each map: of many heads few change. */
  const annotate = () => {
    for (const { press, note, l, h } of presses) {
      const { text = "", cls = "", title = "" } = o.notes?.[l]?.[h] || {};
      const name = `layer ${layerAt(l)}, head ${headAt(h)}${title ? `, ${title}` : ""}`;
      note.hidden = !o.notes;
      if (note.textContent !== text) note.textContent = text;
      if (note.className !== cls) note.className = cls;
      if (press.title === name) continue;
      press.title = name;
      press.setAttribute("aria-label", name);
    }
  };
  const paint = () => {
    if (!o) return;
    const theme = themeOf(grid);
    presses.forEach(({ canvas, l, h }) => thumb(canvas, o.maps[l][h], theme, { most: o.top }));
  };
  onLook(grid, paint);

  const thumbnail = (l, h) => {
    const [canvas, note] = [el("canvas"), el("span")];
    const press = button("", () => onPick(l, h), "");
    press.append(canvas, note);
    return { press, canvas, note, l, h };
  };
  const build = () => {
    const [layers, heads] = [o.maps.length, o.maps[0].length];
    const index = number => el("b", "", String(number));
    presses = range(layers).flatMap(l => range(heads).map(h => thumbnail(l, h)));
    grid.style.setProperty("--heads", heads);
    grid.classList.toggle("many", heads > 8);
    grid.classList.toggle("close", heads > FEW);
    const numbers = heads > FEW ? [el("b"), ...range(heads).map(h => index(headAt(h)))] : [];
    grid.replaceChildren(
      ...numbers,
      ...range(layers).flatMap(l => [index(layerAt(l)), ...presses.filter(p => p.l === l).map(p => p.press)]),
    );
  };
  grid.addEventListener("keydown", event => {
    // one stop for Tab, arrows inside
    const [dl, dh] = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] }[event.key] || [
      0, 0,
    ];
    if (!(dl || dh)) return;
    event.preventDefault();
    const next = presses.find(p => p.l === o.layer + dl && p.h === o.head + dh);
    if (!next) return dl ? onLeave(dl, o.head) : undefined;
    onPick(next.l, next.h);
    next.press.focus();
  });
  const update = next => {
    const [had, has] = [o?.maps, next.maps];
    const sameShape = had && had.length === has.length && had[0].length === has[0].length;
    const sameMaps = had === has;
    o = next;
    if (!sameShape) build();
    if (!sameMaps) paint();
    annotate();
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
  const focus = (layer, head) => presses.find(p => p.l === layer && p.h === head)?.press.focus();
  return { update, focus };
};

export { headGrid };
