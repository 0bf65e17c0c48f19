/* The figures that a text prints, each one to be pressed: what is computed, whether it is the same, where it stands.

   printedPanel(host, {onFigure({row, column, head})}).update(value), a Board.AttentionValue */
import { buildPanel, button, el } from "../../../hf_attn/viz/web/core/dom.js";
import { named } from "../../../hf_attn/viz/web/core/format.js";

const STATIONS = {
  query: (r, c) => `number ${c + 1} of the query of ${r}`,
  key: (r, c) => `number ${c + 1} of the key of ${r}`,
  scores: (r, c) => `station 1, the score of ${r} and ${c}`,
  scaled: (r, c) => `station 2, the scaled score of ${r} and ${c}`,
  weights: (r, c) => `station 4, the weight with which ${r} reads ${c}`,
  outputs: (r, c) => `station 5, number ${c + 1} of what ${r} becomes`,
};
const NUMBERED = ["query", "key", "outputs"]; // their columns count the numbers of a vector, not tokens

const isSame = (/** @type {Board.PrintedFigure} */ { verdict }) => verdict === "reproduced";

const printedPanel = (host, { onFigure }) => {
  const panel = buildPanel(host, "What the text prints", {
    note: "choose a figure to see where it is computed",
    cls: "hf-printed-panel",
  });
  const told = el("p", "hf-figure-told");
  const list = el("div", "hf-printed");
  told.setAttribute("aria-live", "polite");
  panel.body.append(told, list);
  /** @type {Board.AttentionValue} */
  let value = null;
  let had = null;

  const tell = (/** @type {Board.PrintedFigure} */ figure, /** @type {Board.PrintedClaim} */ claim) => {
    const { rows, cols } = value;
    const same = isSame(figure);
    const verdict = el("b", same ? "" : "no", same ? "the same" : "not the same");
    const words = [`printed ${figure.printed}, computed ${figure.computed}: `, verdict, ". "];
    if (figure.station) {
      const names = figure.station === "key" ? cols : rows;
      const column = NUMBERED.includes(figure.station) ? figure.column : `“${named(cols, figure.column)}”`;
      const head = figure.head ? `, head ${figure.head + 1}` : "";
      words.push(`You find it at ${STATIONS[figure.station](`“${named(names, figure.row)}”`, column)}${head}. `);
    }
    told.replaceChildren(...words, el("span", "hf-quiet", claim.why));
  };
  const choose = (press, /** @type {Board.PrintedFigure} */ figure, /** @type {Board.PrintedClaim} */ claim) => {
    list.querySelector("[aria-pressed=true]")?.setAttribute("aria-pressed", "false");
    press.setAttribute("aria-pressed", "true");
    tell(figure, claim);
    if (!figure.station) return;
    const isCell = !NUMBERED.includes(figure.station);
    onFigure({
      row: figure.station === "key" ? null : figure.row,
      column: isCell ? figure.column : figure.station === "key" ? figure.row : null,
      head: figure.head,
    });
  };
  const group = (/** @type {Board.PrintedClaim} */ claim) => {
    const presses = claim.figures.map(figure => {
      const press = button(figure.printed, () => choose(press, figure, claim), "hf-figure");
      press.setAttribute("aria-pressed", "false");
      press.classList.toggle("no", !isSame(figure));
      if (!isSame(figure)) press.title = `computed ${figure.computed}`;
      return press;
    });
    const right = claim.figures.filter(isSame).length;
    const count = right === claim.figures.length ? "all the same" : `${right} of ${claim.figures.length} the same`;
    const words = el("p", "", claim.claim, " ", el("span", "hf-quiet", count));
    return el("div", "hf-claim", words, el("div", "", ...presses));
  };
  const update = (/** @type {Board.AttentionValue} */ next) => {
    value = next;
    const { printed } = value;
    panel.section.hidden = !printed.length;
    const key = JSON.stringify(printed);
    if (key === had) return;
    had = key;
    told.replaceChildren("Figures that come out differently are underlined.");
    told.hidden = !printed.length;
    list.replaceChildren(...printed.map(group));
  };
  return { update };
};

export { printedPanel };
