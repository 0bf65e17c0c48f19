/* What the boards show while a link hides the answers: what a model wrote, not whether it is right. Every value comes
   through the veil of hf_attn/viz/web/core/mount.js, which takes the known answers out of it; hideAnswers(on) draws
   anew. While it is on, `data-hf-answers=hidden` stands on the document. */
import { boards, setVeil } from "../../hf_attn/viz/web/core/mount.js";

const BOARDS = ["try_board", "explore_board", "attention_board", "checks_board", "duel_board", "compare_board"];
const VEILED = [...BOARDS, "train_state"]; // the train board merges its messages, so what it draws is veiled
const HIDDEN = "not shown: the link hides the answers";
/* key → what stands there instead, where the key holds an answer: elsewhere the same word may name something else */
const INSTEAD = {
  truth: () => null,
  correct: () => null,
  check: () => HIDDEN,
  answer: value => (typeof value === "string" ? "" : undefined),
  expected: () => null,
  decided: () => ({}),
  right: value => (typeof value === "boolean" ? null : undefined),
  wrong: value => (Array.isArray(value) ? [] : false),
};
const seen = new WeakMap(); // the same object is veiled once, so that what is drawn of it stays

const entry = ([key, value]) => {
  const instead = value === null || value === undefined ? undefined : INSTEAD[key]?.(value);
  return [key, instead === undefined ? veiled(value) : instead];
};
const veiled = value => {
  if (value === null || typeof value !== "object" || typeof value[0] === "number") return value;
  if (!Array.isArray(value) && Object.getPrototypeOf(value) !== Object.prototype) return value;
  if (!seen.has(value))
    seen.set(value, Array.isArray(value) ? value.map(veiled) : Object.fromEntries(Object.entries(value).map(entry)));
  return seen.get(value);
};

const areHidden = () => document.documentElement.dataset.hfAnswers === "hidden";

setVeil((name, value) => (areHidden() && VEILED.includes(name) ? veiled(value) : value));

/** Hide the answers, or show them; every board that knows some is drawn anew. */
const hideAnswers = on => {
  if (on === areHidden()) return;
  if (on) document.documentElement.dataset.hfAnswers = "hidden";
  else delete document.documentElement.dataset.hfAnswers;
  boards.redraw([...BOARDS, "train_board"], { keep: !on }); // a link that hides them brings its own choices
};

export { hideAnswers };
