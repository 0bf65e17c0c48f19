/* Tokens that are read above, tokens that read below, a curve for every weight: the same weights as a map, as a picture
   of who looks where. Wider means more weight; the chosen token's curves are coloured, its weights stand above.

   tokenCurves(host, {onPick(row)}).update({rows, cols, weights, allowed, row, write, name, gone})
     row     the token that reads, chosen by pointing, tapping or the arrow keys
     gone    the place of a token that was taken away
     write   what the rows are is written one after the other: those behind the chosen one are not there yet
     Of more tokens than fit, those around the chosen one and the one that it reads most are shown. */
import { button, el } from "../core/dom.js";
import { clip, number, range, shown, weight } from "../core/format.js";
import { colourOf, css, numberOn, onLook, themeOf } from "../core/theme.js";

const SVG = "http://www.w3.org/2000/svg";
const LEAST = 0.02; // of the weights that are drawn
/** How large tokens are: px of a letter, around it and between tokens, and from which weight on it is written above. */
const SIZES = {
  roomy: { letter: 9.1, pad: 24, least: 40, gap: 8, written: 0.045 },
  close: { letter: 7.9, pad: 12, least: 28, gap: 4, written: 0.1 },
  tight: { letter: 7.3, pad: 8, least: 14, gap: 2, written: 0.2 },
};
const LONGEST = 12; // letters of a token
const FOLD = 24; // px of the mark that tokens are left out

const widthOf = (label, { letter, pad, least, gap }) =>
  Math.max(least, letter * [...clip(shown(label), LONGEST)].length + pad) + gap;
const total = (labels, size) => labels.reduce((all, label) => all + widthOf(label, size), 0);

/** [first, behind the last] of the tokens around one that fit side by side.
    @returns {[number, number]} */
const around = (labels, at, size, room) => {
  let [first, end] = [at, at + 1];
  let left = room - widthOf(labels[at], size) - 2 * FOLD;
  const take = i => {
    const fits = i in labels && widthOf(labels[i], size) <= left;
    if (fits) left -= widthOf(labels[i], size);
    return fits;
  };
  for (let grew = true; grew; ) {
    const before = take(first - 1);
    if (before) first -= 1;
    const behind = take(end);
    if (behind) end += 1;
    grew = before || behind;
  }
  return [first, end];
};

const curve = (from, to, tall, look) => {
  const path = document.createElementNS(SVG, "path");
  const d = `M${from} 0 C${from} ${tall * 0.55} ${to} ${tall * 0.45} ${to} ${tall}`;
  Object.entries({ d, fill: "none", ...look }).forEach(([name, value]) => path.setAttribute(name, String(value)));
  return path;
};

const tokenCurves = (host, { onPick }) => {
  const [figures, above, below] = ["hf-curve-figures", "hf-curve-line", "hf-curve-line"].map(cls => el("div", cls));
  const space = document.createElementNS(SVG, "svg");
  space.setAttribute("aria-hidden", "true");
  below.setAttribute("role", "radiogroup");
  const box = el("div", "hf-curves", figures, above, below);
  above.after(space);
  host.append(box);
  let o = null;
  let places = { rows: [], cols: [] }; // the tokens that are shown
  let built = "";
  let size = SIZES.roomy;

  const token = (label, cls) => {
    const one = el("span", cls, clip(shown(label), LONGEST));
    one.dir = "auto"; // a right-to-left word keeps its own direction
    if ([...shown(label)].length > LONGEST) one.title = shown(label);
    return one;
  };
  const reader = r => {
    const press = button("", () => onPick(r), "hf-curve-token");
    press.append(token(o.rows[r], ""));
    press.setAttribute("role", "radio");
    press.addEventListener("pointerenter", event => event.pointerType === "mouse" && r !== o.row && onPick(r));
    press.addEventListener("keydown", event => {
      const step = { ArrowLeft: -1, ArrowRight: 1, Home: -o.rows.length, End: o.rows.length }[event.key];
      if (!step) return;
      event.preventDefault();
      onPick(Math.max(0, Math.min(o.rows.length - 1, r + step)));
      below.querySelector("[aria-checked=true]")?.focus();
    });
    return press;
  };
  const withFolds = (parts, [first, end], length) => [
    ...(first > 0 ? [el("span", "hf-curve-fold", "…")] : []),
    ...parts,
    ...(end < length ? [el("span", "hf-curve-fold", "…")] : []),
  ];
  /** Which tokens are shown, and how large: as they were, while the chosen one is among them. */
  const build = () => {
    const room = host.clientWidth;
    const key = o.weights[o.row].indexOf(most());
    const wide = of => Math.max(total(o.rows, of), total(o.cols, of));
    const [name] = Object.entries(SIZES).find(([, of]) => wide(of) <= room) || ["tight"];
    size = SIZES[name];
    const fits = labels => total(labels, size) <= room;
    /** @type {(labels: string[], at: number) => [number, number]} */
    const windowed = (labels, at) => (fits(labels) ? [0, labels.length] : around(labels, at, size, room));
    const seen = [JSON.stringify([o.rows, o.cols, room, o.name])];
    const [rows, cols] = [windowed(o.rows, o.row), windowed(o.cols, key)];
    if (!fits(o.rows)) seen.push(rows.join());
    if (!fits(o.cols)) seen.push(cols.join());
    if (seen.join("|") === built) return;
    built = seen.join("|");
    places = {
      rows: range(rows[1] - rows[0]).map(i => i + rows[0]),
      cols: range(cols[1] - cols[0]).map(i => i + cols[0]),
    };
    box.dataset.size = name;
    box.style.setProperty("--gap", `${size.gap}px`);
    below.setAttribute("aria-label", o.name);
    above.replaceChildren(
      ...withFolds(
        places.cols.map(c => token(o.cols[c], "hf-curve-token")),
        cols,
        o.cols.length,
      ),
    );
    below.replaceChildren(...withFolds(places.rows.map(reader), rows, o.rows.length));
  };
  const most = () => Math.max(...o.weights[o.row]);
  const paintAbove = (theme, tokens) => {
    const best = o.weights[o.row].indexOf(most());
    const spans = places.cols.map((c, i) => {
      const w = o.weights[o.row][c];
      const rgb = colourOf(theme, w);
      const hidden = o.allowed && !o.allowed[o.row][c];
      tokens[i].className =
        `hf-curve-token${c === best ? " best" : ""}${hidden ? " off" : ""}${c === o.gone ? " gone" : ""}`;
      tokens[i].style.background = w > 0.005 ? css(rgb) : "";
      tokens[i].style.color = w > 0.005 ? numberOn(theme, rgb) : "";
      const figure = el(c === best ? "b" : "span", "", w >= size.written ? weight(w) : "");
      figure.style.left = `${middle(tokens[i])}px`;
      return figure;
    });
    figures.replaceChildren(...spans);
  };
  const middle = element => element.offsetLeft + element.offsetWidth / 2;
  const paint = () => {
    if (!o || !host.clientWidth) return;
    build();
    const theme = themeOf(box);
    /** @type {(line: Element) => HTMLElement[]} */
    const tokensOf = line => [...line.querySelectorAll(":scope > .hf-curve-token")];
    const [tops, bottoms] = [tokensOf(above), tokensOf(below)];
    paintAbove(theme, tops);
    places.rows.forEach((r, i) => {
      const isChosen = r === o.row;
      bottoms[i].className = `hf-curve-token${isChosen ? " query" : ""}${o.write && r > o.row ? " off" : ""}`;
      bottoms[i].setAttribute("aria-checked", String(isChosen));
      bottoms[i].tabIndex = isChosen ? 0 : -1;
    });
    const tall = space.clientHeight;
    const curves = places.rows.flatMap((r, i) =>
      places.cols.flatMap((c, k) => {
        const w = o.weights[r][c];
        if (w < LEAST || (o.allowed && !o.allowed[r][c])) return [];
        const lit = r === o.row;
        const stroke = lit ? css(colourOf(theme, Math.max(w, 0.25))) : theme["line-strong"];
        const look = {
          "stroke-width": lit ? 1.5 + 8.5 * w : 1 + 1.5 * w,
          opacity: lit ? 0.45 + 0.55 * w : 0.12 + 0.4 * w,
        };
        return [{ lit, w, path: curve(middle(tops[k]), middle(bottoms[i]), tall, { stroke, ...look }) }];
      }),
    );
    curves.sort((a, b) => Number(a.lit) - Number(b.lit) || a.w - b.w); // the strongest chosen one lies on top
    space.replaceChildren(...curves.map(one => one.path));
  };
  onLook(box, paint);
  let wide = 0;
  new ResizeObserver(() => {
    if (host.clientWidth === wide) return;
    wide = host.clientWidth;
    paint();
  }).observe(host);
  const update = next => {
    o = next;
    paint();
  };
  /** The chosen row in words. */
  const words = () => {
    const key = o.weights[o.row].indexOf(most());
    return `${shown(o.rows[o.row])} looks at ${shown(o.cols[key])}, weight ${number(most(), 3)}`;
  };
  return { update, words };
};

export { tokenCurves };
