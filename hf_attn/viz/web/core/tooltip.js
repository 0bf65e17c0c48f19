/* The tip beside the pointer, and words that show their meaning in it. */
import { el } from "./dom.js";
import { clamp } from "./format.js";

let tipBox = null;
const tip = (event, lines) => {
  if (!tipBox) {
    tipBox = Object.assign(el("div", "hf-tip"), { ariaHidden: "true" });
    document.body.append(tipBox);
  }
  tipBox.hidden = !lines;
  if (!lines) return;
  tipBox.replaceChildren(...lines.map(line => el("div", "", line)));
  const box = tipBox.getBoundingClientRect();
  tipBox.style.left = clamp(event.clientX + 14, 8, Math.max(8, innerWidth - box.width - 8)) + "px";
  tipBox.style.top = Math.max(8, event.clientY - box.height - 12) + "px";
};

/** Show what linesAt(event) tells of the place under the pointer, or nothing where that is null. */
const tipOver = (element, linesAt) => {
  element.addEventListener("pointermove", event => tip(event, linesAt(event)));
  element.addEventListener("pointerleave", event => tip(event, null));
};
/** Show these lines with keyboard or finger on an element. */
const tipOnFocus = (element, lines) => {
  element.tabIndex = 0;
  element.addEventListener("focus", () => {
    const { left: clientX, top: clientY } = element.getBoundingClientRect();
    tip({ clientX, clientY }, lines);
  });
  element.addEventListener("blur", event => tip(event, null));
};

/** A word with its meaning, line by line: under the pointer, and with keyboard or finger on it. */
const term = (text, ...lines) => {
  const word = Object.assign(el("abbr", "", text), { title: lines.join("\n") });
  tipOnFocus(word, lines);
  return word;
};

export { term, tip, tipOnFocus, tipOver };
