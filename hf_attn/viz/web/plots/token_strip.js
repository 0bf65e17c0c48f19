/* Tokens as chips and boxes.

   tokenStrip(host, {onPick(i, several)}).update({labels, weights, chosen, several, key}): one token's view; the
   chosen query in plum, the others tinted by the weight with which it reads them. weights null: no tint; several: all
   that are chosen; key: the token that is read, framed. onPick's several is true with Ctrl, Shift or a long press.
   symbolStrip(tokens, wrong, name): what a model wrote, wrong symbols tinted, underlined and bold; name says how a
   token is shown (with its spaces visible, unless told otherwise).
   predictions(host).update(rows, emptySentence, columns): rows of Board.ExampleAnswer; columns are the names of the
   first two. */
import { button, childrenOf, el } from "../core/dom.js";
import { number, shown } from "../core/format.js";
import { buildTable, emptyRow } from "../core/table.js";
import { colourOf, css, numberOn, onLook, themeOf } from "../core/theme.js";

const LONG_PRESS = 500; // ms

const tokenStrip = (host, { onPick }) => {
  const strip = el("div", "hf-tokens");
  strip.setAttribute("role", "group");
  host.append(strip);
  let o = null;
  let looks = []; // of the chips, as they are painted
  let held = false; // pressed so long that the click behind it is none
  const build = (label, i) => {
    const press = button(
      shown(label),
      event => {
        if (!held) onPick(i, event.ctrlKey || event.metaKey || event.shiftKey);
        held = false;
      },
      "hf-tok",
    );
    let timer = null;
    press.addEventListener("pointerdown", () => {
      held = false;
      timer = setTimeout(() => {
        held = true;
        onPick(i, true);
      }, LONG_PRESS);
    });
    for (const end of ["pointerup", "pointerleave", "pointercancel"])
      press.addEventListener(end, () => clearTimeout(timer));
    press.addEventListener("contextmenu", event => held && event.preventDefault()); // a finger held down opens one
    press.dir = "auto"; // a right-to-left word keeps its own direction
    return press;
  };
  const paint = () => {
    if (!o) return;
    const theme = themeOf(strip);
    childrenOf(strip).forEach((press, i) => {
      const query = i === o.chosen || Boolean(o.several?.includes(i));
      const rgb = !query && o.weights ? colourOf(theme, o.weights[i]) : null;
      const look = [query, i === o.key, rgb, theme.panel, rgb && number(o.weights[i], 3)].join();
      if (looks[i] === look) return; // of a long strip few change
      looks[i] = look;
      press.className = "hf-tok" + (query ? " query" : "") + (i === o.key ? " key" : "");
      press.setAttribute("aria-pressed", String(query));
      press.title = rgb ? `weight ${number(o.weights[i], 3)}` : "";
      press.style.background = rgb ? css(rgb) : "";
      press.style.color = rgb ? numberOn(theme, rgb) : "";
    });
  };
  onLook(strip, paint);
  const update = next => {
    const same = o && JSON.stringify(o.labels) === JSON.stringify(next.labels);
    o = next;
    strip.setAttribute("aria-label", o.name || "Tokens");
    if (!same) {
      looks = [];
      strip.replaceChildren(...o.labels.map(build));
    }
    paint();
    const chip = childrenOf(strip)[o.chosen]; // a long strip scrolls by itself, the page stays
    if (chip && strip.scrollHeight > strip.clientHeight)
      strip.scrollTop = chip.offsetTop - strip.offsetTop - strip.clientHeight / 2;
  };
  return { update };
};

const symbolStrip = (tokens, wrong = [], name = shown) => {
  const wide = tokens.some(t => [...t].length > 1);
  const one = (token, i) => el(wrong[i] ? "b" : "span", wrong[i] ? "wrong" : "", name(token));
  return el("span", wide ? "hf-symbols wide" : "hf-symbols", ...tokens.map(one));
};

const row = (/** @type {Board.ExampleAnswer} */ { source, text, label, written, wrong, right, answer }) => {
  if (text !== undefined) {
    const cell = el("td", "hf-passage", text || "nothing yet");
    cell.colSpan = 2;
    return el("tr", "", el("td", "hf-quiet", source), cell);
  }
  const verdict = right
    ? "right"
    : right === null || right === undefined
      ? ""
      : answer
        ? `wrong, is ${answer}`
        : "wrong";
  const line = el(
    "tr",
    "",
    el("td", label === undefined ? "hf-mono" : "hf-prose", source),
    el("td", "", label === undefined ? symbolStrip(written, wrong) : symbolStrip([label], [right === false], String)),
    el("td", right === false ? "no" : "", verdict),
  );
  return line;
};

const predictions = host => {
  const body = el("tbody");
  const names = [el("span"), el("span")];
  host.append(el("div", "hf-scroll", buildTable("hf-says", [...names, el("span", "hf-sr", "verdict")], body)));
  let had = null;
  const update = (rows, sentence, columns = ["source", "written"]) => {
    names.forEach((name, i) => {
      name.textContent = columns[i];
    });
    const key = JSON.stringify([rows, sentence]);
    if (key !== had) body.replaceChildren(...(rows?.length ? rows.map(row) : [emptyRow(sentence, 3)]));
    had = key;
  };
  return { update };
};

export { predictions, symbolStrip, tokenStrip };
