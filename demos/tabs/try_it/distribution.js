/* What one step could have written: bars from the largest, before and after the temperature, and what the cut leaves.

   weigh(distribution, how) → {entries, more, words, longest, warm}: what each symbol weighs
   of a Board.Distribution; how: Board.AnswerSettings, or null where nothing is chosen
   hfAttn.strategies: {name: {title, samples, own, keeps}} from hf_attn/generation/strategies.py, put into the page by
   tab.py; own = {parameter: [its short name, digits behind the point]}; keeps({rank, before, p, most}, how) says whether
   a symbol is kept, null where nothing is cut.
   const bars = distribution(host); bars.update(distribution, how, {what, written, note})
   bars.lines(), bars.png(file), bars.svg(file): the same to take away. */
import { el } from "../../../hf_attn/viz/web/core/dom.js";
import { clip, count, number, percent, shown, sum } from "../../../hf_attn/viz/web/core/format.js";
import { surface } from "../../../hf_attn/viz/web/core/surface.js";
import { drawText } from "../../../hf_attn/viz/web/core/theme.js";

const SHOWN = 8;
const MOST = 20;
const TINY = 1e-6; // a lower temperature takes the likeliest

/** Whether each named symbol is kept, and behind them whether more may be; null where nothing is cut. */
const keeps = (/** @type {number[]} */ warm, /** @type {Board.AnswerSettings} */ how) => {
  const { keeps: isKept } = hfAttn.strategies[how.strategy];
  let before = 0;
  return (
    isKept &&
    [...warm, warm.at(-1)].map((p, rank) => {
      const kept = isKept({ rank, before, p, most: warm[0] }, how);
      before += p;
      return kept;
    })
  );
};

const tell = (/** @type {Board.AnswerSettings} */ how, kept, named, all, share) => {
  const { samples, own } = hfAttn.strategies[how.strategy];
  if (!samples) return `${how.strategy} takes the likeliest of ${count(all)} symbols`;
  const name = [how.strategy, ...Object.keys(own).map(one => number(how[one], own[one][1]))].join(" ");
  if (kept[named] && all > named) return `${name} keeps more than ${count(named)} of ${count(all)} symbols`;
  const many = kept.slice(0, named).filter(Boolean).length;
  return `${name} keeps ${count(many)} of ${count(all)} symbols, ${percent(share)} of the probability`;
};

const weigh = (/** @type {Board.Distribution} */ value, /** @type {Board.AnswerSettings} */ how) => {
  const { names, log_p, more = 0, weights = [] } = value;
  const own = log_p.map(x => Math.exp(x ?? -Infinity));
  const heat = how?.temperature ?? 1;
  const raw = log_p.map((x, i) => (heat < TINY ? Number(!i) : Math.exp(((x ?? -Infinity) - log_p[0]) / heat)));
  const rest = more && heat >= TINY ? weights[Math.round(10 * heat)] : 0;
  const total = sum(raw) + rest;
  const warm = raw.map(w => w / total);
  const kept = how ? keeps(warm, how) : null;
  const share = kept ? sum(warm.filter((_, i) => kept[i])) : 1;
  const known = !more || !kept?.[warm.length];
  const entries = names.map((name, i) => {
    const isKept = !kept || kept[i];
    return { name, own: own[i], warm: warm[i], kept: isKept, after: isKept ? (known ? warm[i] / share : NaN) : 0 };
  });
  const unnamed = more ? { more, own: Math.max(0, 1 - sum(own)), warm: rest / total, after: known ? 0 : NaN } : null;
  const words = kept ? tell(how, kept, names.length, names.length + more, share) : "";
  const longest = kept ? kept.lastIndexOf(true, names.length - 1) + 1 : 0; // lines, down to the last that is kept
  return { entries, more: unnamed, words, longest, warm: heat !== 1 };
};

/** The lines that are shown: the largest, what was written wherever it stands, and all others as one. */
const pickLines = ({ entries, more, longest }, written) => {
  const length = Math.min(MOST, Math.max(SHOWN, longest));
  const isShown = (_, i) => i < length || i === written;
  const others = entries.filter((e, i) => !isShown(e, i));
  const rest = { more: others.length + (more?.more || 0), rest: true };
  for (const part of ["own", "warm", "after"]) rest[part] = sum(others.map(e => e[part])) + (more?.[part] || 0);
  rest.kept = others.some(e => e.kept);
  const lines = entries.map((e, i) => ({ ...e, i, written: i === written })).filter(isShown);
  return rest.more ? [...lines, rest] : lines;
};

/** The lines with the sentence about the cut where it falls: before the first that is not kept, else behind all. */
const withCut = ({ lines, found: { words } }) => {
  if (!words) return lines;
  const at = lines.findIndex(one => !one.kept || one.rest);
  return lines.toSpliced(at < 0 ? lines.length : at, 0, { cut: words, isBehind: at < 0 });
};

const nameOf = (one, what) => (one.rest ? `${count(one.more)} more` : what === "class" ? one.name : shown(one.name));

/** The same lines as a picture, to take away. */
const paint = state => (ctx, width, theme, size) => {
  if (!state.lines) return size(width, 1);
  const { found, what, top } = state;
  const [LINE, left, right] = [26, 110, found.warm ? 150 : 80];
  size(width, (withCut(state).length + 1) * LINE + 8);
  const wide = width - left - right - 16;
  const text = (words, x, y, align, colour, weight = 400) =>
    drawText(ctx, theme, words, x, y, { align, colour: theme[colour], weight });
  text(what, 8, 14, "left", "ink-3");
  text("p", width - 8 - (found.warm ? 70 : 0), 14, "right", "ink-3");
  if (found.warm) text("with temperature", width - 8, 14, "right", "ink-3");
  let y = LINE + 14;
  for (const one of withCut(state)) {
    if (one.cut) {
      text(one.cut, left, y, "left", "accent", 500);
      y += LINE;
      continue;
    }
    const colour = one.written ? "accent" : one.kept ? "ink" : "ink-3";
    text(clip(nameOf(one, what), 14), 8, y, "left", colour, one.written ? 600 : 400);
    if (!one.rest) {
      ctx.beginPath();
      ctx.roundRect(left, y - 8, Math.max(1, (wide * one.warm) / top), 16, 2);
      ctx.fillStyle = theme[one.kept ? "accent" : "line-strong"];
      ctx.fill();
      if (found.warm) {
        ctx.fillStyle = theme.ink;
        ctx.fillRect(left + (wide * one.own) / top - 1, y - 11, 2, 22);
      }
    }
    text(number(one.own, 3), width - 8 - (found.warm ? 70 : 0), y, "right", "ink-2");
    if (found.warm) text(number(one.warm, 3), width - 8, y, "right", "ink-2");
    y += LINE;
  }
};

const distribution = host => {
  const list = el("div", "hf-dist");
  const key = el("p", "hf-hint hf-dist-key");
  const stage = el("div", "hf-offstage");
  stage.setAttribute("aria-hidden", "true");
  list.setAttribute("role", "table");
  list.setAttribute("aria-label", "What could come next");
  host.append(list, key, stage);
  const state = { lines: null, found: null, what: "symbol", top: 1 };
  const picture = surface(stage, "What could come next", paint(state));
  const line = (role, ...cells) => {
    const row = el("div", "line", ...cells.filter(Boolean));
    row.setAttribute("role", "row");
    [...row.children].forEach(cell => cell.setAttribute("role", role));
    return row;
  };
  const head = ({ warm, words }, what, heat) =>
    line(
      "columnheader",
      el("span", "", what),
      el("span", "", "probability"),
      el("span", "n", warm ? "at 1" : ""),
      warm && el("span", "n", `at ${number(heat, 1)}`),
      el("span", "n far", "so far"),
      words && el("span", "n opt", "after the cut"),
    );
  const bar = (one, top, warm) => {
    const filled = el("i", one.kept ? "" : "off");
    filled.style.width = (100 * one.warm) / top + "%";
    const mark = warm && one.own > 0.004 * top && el("u");
    if (mark) mark.style.left = (100 * one.own) / top + "%";
    return el("span", "bar", filled, mark || null);
  };
  const row = (one, soFar, top, { warm, words }, what) => {
    const name = el("span", "hf-mono", nameOf(one, what));
    const cells = line(
      "cell",
      name,
      one.rest ? el("span") : bar(one, top, warm),
      el("span", "n", number(one.own, 3)),
      warm && el("span", "n", number(one.warm, 3)),
      el("span", "n far", number(soFar, 3)),
      words && el("span", "n opt", one.after === 0 ? "0" : number(one.after, 3)),
    );
    if (!one.kept || one.rest) cells.classList.add("off");
    if (one.written) cells.setAttribute("aria-current", "true");
    return cells;
  };
  /** @type {(value: Board.Distribution, how: Board.AnswerSettings, more: Record<string, string>) => void} */
  const update = (value, how, { what, written = null, note }) => {
    const found = weigh(value, how);
    const lines = pickLines(found, written === null ? -1 : value.names.indexOf(written));
    const top = Math.max(...lines.filter(one => !one.rest).flatMap(one => [one.own, one.warm]), 1e-9);
    Object.assign(state, { lines, found, what, top });
    const drawn = [head(found, what, how?.temperature)];
    let soFar = 0;
    for (const one of withCut(state)) {
      if (one.isBehind)
        drawn.push(el("p", "hf-hint", one.cut)); // nothing was cut here: no rule
      else if (one.cut) drawn.push(el("div", "cut", el("span", "", one.cut)));
      else drawn.push(row(one, (soFar += one.warm), top, found, what));
    }
    list.classList.toggle("warm", found.warm);
    list.classList.toggle("uncut", !found.words);
    list.replaceChildren(...drawn);
    const bars = `Bars: at temperature ${number(how?.temperature, 1)}. Marks: the model's own probability, at 1.`;
    key.textContent = [found.warm ? bars : "", note].filter(Boolean).join(" ");
    key.hidden = !key.textContent;
    picture.redraw();
  };
  const lines = () => {
    const { entries, more } = state.found;
    const cells = one => [one.own, one.warm, one.after];
    return [
      [state.what, "p", "with temperature", "after the cut"],
      ...entries.map(one => [nameOf(one, state.what), ...cells(one)]),
      ...(more ? [[nameOf({ ...more, rest: true }, state.what), ...cells(more)]] : []),
    ];
  };
  return { update, lines, png: picture.png, svg: picture.svg };
};

export { distribution, weigh };
