/* Cards of the tasks that are offered first: a radio group of which one is chosen, or none where the task is another.
   What is chosen goes to Python as pick_task {task}; the mark moves at once. Behind the last card an arrow leads to the
   list of all tasks, which is no Tab stop of its own while there are cards. */
import { button, childrenOf, el } from "../../../hf_attn/viz/web/core/dom.js";
import { thumb } from "../../../hf_attn/viz/web/core/surface.js";
import { onLook, themeOf } from "../../../hf_attn/viz/web/core/theme.js";

/** What a symbol needs is dark, what it needs indirectly lighter. */
const shades = map => map.map(row => row.map(need => (need === 1 ? 1 : need ? 0.5 : 0)));

const listOfAll = () => /** @type {HTMLElement} */ (document.querySelector("#field-task input"));

const task_cards = (element, trigger) => {
  const root = element.querySelector(".hf-cards");
  root.setAttribute("role", "radiogroup");
  root.setAttribute("aria-label", "Common tasks; behind the last one the list of all");
  /** @type {Board.CardsValue} */
  let value = null;
  const mark = () =>
    childrenOf(root).forEach((card, i) => {
      const { task } = value.cards[i];
      const isFirst = i === 0 && !value.cards.some(one => one.task === value.chosen);
      card.setAttribute("aria-checked", String(task === value.chosen));
      card.tabIndex = task === value.chosen || isFirst ? 0 : -1;
    });
  const choose = task => {
    if (task === value.chosen) return;
    value = { ...value, chosen: task };
    mark();
    trigger("pick_task", { task });
  };
  const build = (/** @type {Board.TaskCard} */ { task, title, example, map }) => {
    const canvas = el("canvas");
    const card = button("", () => choose(task), "hf-task-card");
    card.setAttribute("role", "radio");
    card.append(canvas, el("span", "", el("b", "", title), el("small", "", example)));
    card.title = example;
    const draw = () => thumb(canvas, shades(map), themeOf(card));
    if (map.length) {
      onLook(card, draw);
      draw();
    }
    return card;
  };
  root.addEventListener("keydown", event => {
    const way = { ArrowUp: -1, ArrowLeft: -1, ArrowDown: 1, ArrowRight: 1 }[event.key];
    const cards = childrenOf(root);
    const at = cards.indexOf(/** @type {HTMLElement} */ (document.activeElement));
    if (!way || at < 0) return;
    event.preventDefault();
    const next = Math.max(at + way, 0);
    if (next === cards.length) return listOfAll().focus();
    choose(value.cards[next].task);
    cards[next].focus();
  });
  new ResizeObserver(() => (listOfAll().tabIndex = root.offsetWidth ? -1 : 0)).observe(root); // none on a phone
  const update = (/** @type {Board.CardsValue} */ next) => {
    if (!next) return;
    const isNew = !value;
    value = next;
    if (isNew) root.replaceChildren(...value.cards.map(build));
    mark();
  };
  return { update };
};

export { task_cards };
