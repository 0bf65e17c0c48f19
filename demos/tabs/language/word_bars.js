/* Bars of words, in three boards of the Language tab.

   wordBars(host).update([{name, value, told, note, cls}], most): one bar a line, from 0 to most. */
import { el } from "../../../hf_attn/viz/web/core/dom.js";

const wordBars = host => {
  const list = el("div", "hf-bars");
  host.append(list);
  const line = (one, most) => {
    const stroke = el("i", one.cls || "");
    stroke.style.width = `${most ? (100 * one.value) / most : 0}%`;
    const name = el("span", "hf-mono", one.name);
    const track = el("span", "track", stroke);
    return el(
      "div",
      `line ${one.cls || ""}`,
      name,
      track,
      el("span", "n", one.told),
      el("span", "n quiet", one.note ?? ""),
    );
  };
  const update = (rows, most) => {
    list.classList.toggle(
      "noted",
      rows.some(one => one.note),
    );
    list.replaceChildren(...rows.map(one => line(one, most)));
  };
  return { update };
};

export { wordBars };
