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

/** A word with its meaning, line by line: under the pointer, and with keyboard or finger on it. */
const term = (text, ...lines) => {
  const word = Object.assign(el("abbr", "", text), { title: lines.join("\n"), tabIndex: 0 });
  word.onfocus = () => {
    const { left: clientX, top: clientY } = word.getBoundingClientRect();
    tip({ clientX, clientY }, lines);
  };
  word.onblur = event => tip(event, null);
  return word;
};

export { term, tip };
