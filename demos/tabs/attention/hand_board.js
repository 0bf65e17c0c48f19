/* The exercise by hand: scores, weights and outputs of three words, typed by the learner and checked one by one.
   What was typed is sent to Python as the event check {scores, weights, outputs}; the board takes a
   Board.HandValue. */
import { buildPanel, button, el } from "../../../hf_attn/viz/web/core/dom.js";
import { range } from "../../../hf_attn/viz/web/core/format.js";
import { takeAway } from "../../../hf_attn/viz/web/export/buttons.js";

/** @type {[keyof Board.HandChecks, string, string, number][]} */
const PARTS = [
  ["scores", "Scores", "q · k", 3],
  ["weights", "Weights", "softmax of the scores ÷ √2", 3],
  ["outputs", "Outputs", "weights × v", 2],
];
const vector = numbers => `(${numbers.join(", ")})`;

/** What a column is called: a word, or a number of a vector. */
const columnOf = (columns, names, c) => (columns === 3 ? names[c] : `number ${c + 1}`);
/** Every figure: where it stands, and what was said of it. */
const figuresOf = (/** @type {Board.HandValue} */ { checks, names }) =>
  PARTS.flatMap(([name, title, , columns]) =>
    names.flatMap((row, r) =>
      range(columns).map(c => ({ title, row, column: columnOf(columns, names, c), check: checks?.[name][r][c] })),
    ),
  );

const sheet = (host, [name, title, how, columns], /** @type {Board.HandValue} */ value, onEnter) => {
  const inputs = range(3).map(r =>
    range(columns).map(c => {
      const input = el("input");
      Object.assign(input, { type: "text", inputMode: "decimal", autocomplete: "off", maxLength: 12 });
      input.setAttribute("aria-label", `${title}: ${value.names[r]}, ${columnOf(columns, value.names, c)}`);
      input.addEventListener("keydown", event => {
        if (event.key === "Enter") onEnter();
      });
      return input;
    }),
  );
  const heads = range(columns).map(c => el("span", columns === 3 ? "hf-k" : "", columnOf(columns, value.names, c)));
  const grid = el("div", "hf-sheet", el("span"), ...heads);
  grid.style.setProperty("--columns", String(columns));
  inputs.forEach((line, r) => grid.append(el("b", "hf-q", value.names[r]), ...line));
  host.append(el("h3", "", title, " ", el("small", "", how)), grid);
  const read = () => inputs.map(line => line.map(input => input.value));
  const mark = (/** @type {Board.HandCheck[][]} */ checks) =>
    inputs.forEach((line, r) =>
      line.forEach((input, c) => {
        const is = checks?.[r]?.[c]?.is_right ?? null;
        input.className = is === null ? "" : is ? "right" : "wrong";
        input.setAttribute("aria-invalid", String(is === false));
      }),
    );
  return { read, mark, name };
};

const tell = (/** @type {Element} */ verdict, /** @type {Board.HandValue} */ value) => {
  const written = figuresOf(value).filter(one => one.check.is_right !== null);
  const wrong = written.filter(one => !one.check.is_right);
  if (!written.length) return verdict.replaceChildren("Nothing is written yet: fill in as many figures as you like.");
  const right = `${written.length - wrong.length} of ${written.length} figures are right`;
  if (!wrong.length) return verdict.replaceChildren(`${right}.`);
  const shown = wrong
    .slice(0, 3)
    .map(({ title, row, column, check }) => el("li", "", el("b", "", `${title}, ${row}, ${column}`), ": ", check.hint));
  const more = wrong.length > 3 ? [el("li", "hf-quiet", `and ${wrong.length - 3} more, underlined above`)] : [];
  return verdict.replaceChildren(el("b", "no", "Not yet. "), `${right}.`, el("ul", "", ...shown, ...more));
};

const VERDICTS = { true: "right", false: "wrong", null: "" };
const verdictOf = (/** @type {Board.HandCheck} */ check) => VERDICTS[check?.is_right ?? null];

const hand_board = (element, trigger) => {
  const root = element.querySelector(".hf-hand");
  const panel = buildPanel(root, "By hand");
  const verdict = el("div", "hf-hand-verdict");
  verdict.setAttribute("aria-live", "polite");
  let [sheets, shown] = [null, null];
  const lines = () => {
    const texts = sheets.flatMap(one => one.read().flat());
    const line = ({ title, row, column, check }, i) => [title, row, column, texts[i], verdictOf(check)];
    return [["figure", "row", "column", "written", "is it right"], ...figuresOf(shown).map(line)];
  };
  const caption = () => "Figures by hand, as they were written and judged";
  const refresh = takeAway(panel, { file: () => "by-hand", lines, caption });
  const send = () => trigger("check", Object.fromEntries(sheets.map(one => [one.name, one.read()])));
  const build = (/** @type {Board.HandValue} */ value) => {
    const given = `Q = K = ${value.query.map(vector).join(" ")}, V = ${value.value.map(vector).join(" ")}`;
    panel.rename("By hand", `exercise 1 of the textbook chapter “Self-Attention and Multi-Head Attention”: ${given}`);
    panel.body.append(el("p", "hf-hint", "Write any of the figures, two decimals or more; each is checked by itself."));
    sheets = PARTS.map(part => sheet(panel.body, part, value, send));
    const corrected = value.printed.map(one => `${one.printed} is ${one.computed.toFixed(4)}`).join(", ");
    const fold = el("details", "hf-document", el("summary", "", "What the chapter prints in the third row"));
    fold.append(el("p", "", `${corrected}: the other two rows hold.`));
    panel.body.append(button("Check", send, "hf-btn"), verdict, fold);
  };
  const update = (/** @type {Board.HandValue} */ value) => {
    if (!value) return;
    if (!sheets) build(value);
    shown = value;
    sheets.forEach(one => one.mark(value.checks?.[one.name]));
    if (value.checks) tell(verdict, value);
    refresh();
  };
  return { update };
};

export { hand_board };
