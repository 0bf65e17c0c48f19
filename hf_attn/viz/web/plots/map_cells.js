/* The cells of a map under the pointer and the arrow keys: the tip tells of the cell under the pointer, a click or an
   arrow chooses one, and the live line says which.

   const cells = mapCells(picture, o, {spoken, box, words, page, onKey, whole}); cells.hover is the cell under the pointer
   o            the map's options: rows, cols, selected {r, c} or null, onSelect; the chosen cell is written there
   box()        where the cells lie, {x0, y0, w, h}, or what lies at(x, y); null before the first picture
   words(cell)  what is told of a cell, line by line;  spoken  the live line
   page         how many rows Page Up and Page Down move
   onKey(event, choose)  what else a key does: true where it did
   whole(cell)  which cell is chosen where this is pointed at */
import { clamp } from "../core/format.js";
import { tip } from "../core/tooltip.js";

const never = (_event, _choose) => false;

const mapCells = (picture, o, { spoken, box, words, page, onKey = never, whole = cell => cell }) => {
  const canvas = picture.canvas;
  const cells = { hover: null };
  const moves = {
    ArrowLeft: [0, -1],
    ArrowRight: [0, 1],
    ArrowUp: [-1, 0],
    ArrowDown: [1, 0],
    Home: [0, -Infinity],
    End: [0, Infinity],
    PageUp: [-page, 0],
    PageDown: [page, 0],
  };
  const cellAt = event => {
    const { x0, y0, w, h, at } = box();
    const { left, top } = canvas.getBoundingClientRect();
    const [x, y] = [event.clientX - left, event.clientY - top];
    if (at) return at(x, y);
    const [c, r] = [Math.floor((x - x0) / w), Math.floor((y - y0) / h)];
    return r >= 0 && c >= 0 && r < o.rows.length && c < o.cols.length ? { r, c } : null;
  };
  /** The cell that a key leads to. */
  const step = key => {
    if (!o.selected) return { r: 0, c: key === "End" ? o.cols.length - 1 : 0 };
    const [dr, dc] = moves[key];
    const to = (at, by, count) => clamp(at + by, 0, count - 1);
    return { r: to(o.selected.r, dr, o.rows.length), c: to(o.selected.c, dc, o.cols.length) };
  };
  const choose = pointed => {
    const at = pointed && whole(pointed);
    o.selected = at;
    picture.redraw();
    spoken.say(at ? words(at).join(", ") : "no cell chosen");
    o.onSelect?.(at);
  };
  const point = (event, at) => {
    if (at?.r !== cells.hover?.r || at?.c !== cells.hover?.c) {
      cells.hover = at;
      picture.redraw();
    }
    tip(event, at && words(at));
  };
  canvas.tabIndex = 0;
  canvas.addEventListener("pointermove", event => {
    if (box()) point(event, cellAt(event));
  });
  canvas.addEventListener("pointerleave", event => point(event, null));
  canvas.addEventListener("click", event => {
    const at = box() && cellAt(event);
    if (at) choose(at);
  });
  canvas.addEventListener("keydown", event => {
    if (onKey(event, choose) || !moves[event.key] || event.altKey || event.ctrlKey || event.metaKey) return;
    event.preventDefault();
    choose(step(event.key));
  });
  return cells;
};

export { mapCells };
