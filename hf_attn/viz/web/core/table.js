/* Tables of a board.

   buildTable(cls, heads, ...bodies)   a head is what stands in it, or [what stands in it, its class]
   headCell(scope, content, cls)       a content is a text, an element, or several in a list
   cells(cls, ...contents)             the cells of a row, of one class
   emptyRow(sentence, columns)         what stands there while there is nothing to list */
import { el } from "./dom.js";

const headCell = (scope, content, cls = "") => Object.assign(el("th", cls, ...[content].flat()), { scope });
const buildTable = (cls, heads, ...bodies) => {
  const row = heads.map(head => (Array.isArray(head) ? headCell("col", ...head) : headCell("col", head)));
  return el("table", cls, el("thead", "", el("tr", "", ...row)), ...bodies);
};
const cells = (cls, ...contents) => contents.map(content => el("td", cls, ...[content].flat()));
const emptyRow = (sentence, columns) =>
  el("tr", "", Object.assign(el("td", "hf-quiet", sentence), { colSpan: columns }));

export { buildTable, cells, emptyRow, headCell };
