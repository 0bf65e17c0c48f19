/* What a language model expects at the chosen place, whole and changed: bars of the likeliest; which word decides it,
   the head that reads that word most, and how many held-out words of its kind stay right without.

   predictionsPanel(host, {byKind}).update(view, lens)   byKind() counts what was removed by kind of decided word */
import { buildPanel, button, el, live } from "../../../hf_attn/viz/web/core/dom.js";
import { clip, count, named, number, percent, shown, sum } from "../../../hf_attn/viz/web/core/format.js";
import { surface } from "../../../hf_attn/viz/web/core/surface.js";
import { buildTable, cells, headCell } from "../../../hf_attn/viz/web/core/table.js";
import { drawText } from "../../../hf_attn/viz/web/core/theme.js";
import { keepLines, takeAway } from "../../../hf_attn/viz/web/export/buttons.js";
import { lens as lensState } from "../../../hf_attn/viz/web/lens/explore_board.js";

/** @import {Chosen, ChecksView} from "./ablation_board.js" */
/** One line: [token, p, p changed or null]. @typedef {[string, number, number | null]} Line */

const ROWS = { next: ["decoder"], masked: ["encoder"], written: ["cross", "decoder"] };
const TITLES = { next: "What comes next?", masked: "What stands there?", written: "What is written?" };
const WHERE = { next: "behind", masked: "in place of", written: "where it wrote" };

const [LINE, LEFT, RIGHT] = [34, 104, 120];
/** The bars: of the whole model, below each that of the changed one; what is right is told by a mark, too. */
const paintBars = state => (ctx, width, theme, size) => {
  const { lines, right, vocabulary } = state;
  const isChanged = lines.some(([, , after]) => after !== null);
  size(width, LINE * (lines.length + 1));
  const wide = Math.max(40, width - LEFT - RIGHT);
  const write = (text, x, y, look) => drawText(ctx, theme, text, x, y, look);
  const top = Math.max(...lines.flatMap(([, p, after]) => [p, after ?? 0]), 1e-9);
  const bar = (p, y, tall, colour) => {
    ctx.fillStyle = theme[colour];
    ctx.beginPath();
    ctx.roundRect(LEFT, y, Math.max(1, (wide * p) / top), tall, 2);
    ctx.fill();
  };
  lines.forEach(([token, p, after], i) => {
    const y = (i + 0.5) * LINE;
    const isRight = right.includes(token);
    const look = { colour: theme[isRight ? "key" : "ink"], weight: isRight ? 600 : 400, size: 13 };
    write(clip(shown(token), 13), 0, y, look);
    bar(p, y - (isChanged ? 11 : 8), isChanged ? 10 : 16, "accent");
    if (isChanged) bar(after, y + 1, 10, "bad");
    write(number(p, 3), width - (isChanged ? 60 : 0), y, { align: "right", colour: theme["ink-2"], size: 13 });
    if (isChanged) write(number(after, 3), width, y, { align: "right", colour: theme.bad, size: 13 });
  });
  const y = (lines.length + 0.5) * LINE;
  const rest = place => Math.max(0, 1 - sum(lines.map(line => line[place])));
  write(`${count(vocabulary - lines.length)} others`, 0, y, { colour: theme["ink-3"], size: 13 });
  write(number(rest(1), 3), width - (isChanged ? 60 : 0), y, { align: "right", size: 13 });
  if (isChanged) write(number(rest(2), 3), width, y, { align: "right", size: 13 });
};

/** Which share, and its words of what was asked. @type {[string, (what: string) => string][]} */
const SHARES = [
  ["whole", () => "with everything"],
  ["left", what => what[0].toLowerCase() + what.slice(1)],
  ["known", () => "where no head may read the deciding word"],
  ["control", () => "where no head may read the word before it"],
];
const sharesTable = (/** @type {Board.DecidedKind} */ kind, what) => {
  const row = ([name, words]) => {
    const [share, low, high] = kind[name];
    const range = `${percent(low)} to ${percent(high)}`;
    return el("tr", "", headCell("row", words(what)), ...cells("num", percent(share)), ...cells("num hf-quiet", range));
  };
  const body = el("tbody", "", ...SHARES.map(row));
  return buildTable("hf-shares", ["right", ["share", "num"], ["95 % interval", "num"]], body);
};

const predictionsPanel = (host, { byKind }) => {
  const panel = buildPanel(host, "", { cls: "hf-predictions" });
  const [left, facts, shares, said] = [el("div"), el("div", "hf-decides"), el("div"), live()];
  const key = el("p", "hf-hint hf-bar-key");
  const press = button("Count held-out words by kind", () => byKind(), "hf-btn");
  panel.body.append(left, facts, press, shares, said.element);
  /** @type {{lines: Line[], right: string[], vocabulary: number, where: string}} */
  const state = { lines: [], right: [], vocabulary: 0, where: "" };
  const picture = surface(left, "The likeliest tokens", paintBars(state));
  left.append(key);
  /** @type {[ChecksView, Chosen]} */
  let [view, lens] = [null, null];

  const place = () => {
    const { labels, what } = view.predictions;
    const fits = lens?.data && ROWS[what].includes(lens.kind) && lens.at.query < labels.length;
    return fits ? lens.at.query : labels.length - 1;
  };
  const decided = () => (view.predictions.what === "next" ? view.predictions.decided[String(place())] : null);
  const caption = () => `The likeliest tokens ${state.where}`;
  const lines = () => {
    const changed = state.lines.some(line => line[2] !== null);
    const heads = ["token", "p", ...(changed ? ["p changed"] : [])];
    return [heads, ...state.lines.map(line => (changed ? line : line.slice(0, 2)))];
  };
  const refresh = takeAway(panel, { file: () => "expected", caption, lines, picture });

  /** The head that puts most weight of the chosen row on what is known to decide; null where none is known. */
  const bestReader = () => {
    const truth = lens?.data?.truth?.[lens.row];
    if (!truth?.some(Boolean) || lens.data.small) return null;
    const reads = map => sum(map[lens.row].map((weight, c) => (truth[c] ? weight : 0)));
    const all = lens.data.maps.flatMap((heads, layer) =>
      heads.map((map, head) => ({ layer, head, share: reads(map) })),
    );
    const words = lens.data.cols.flatMap((_, c) => (truth[c] ? [named(lens.data.cols, c)] : []));
    const best = all.reduce((a, b) => (b.share > a.share ? b : a));
    const here = all.find(one => one.layer === lens.layer && one.head === lens.head);
    return { best, here, words };
  };
  const showDeciding = () => {
    const [found, kind] = [bestReader(), decided()];
    press.hidden = !found || !view.answer || view.answer.asked[0] === "nothing";
    shares.replaceChildren();
    if (!found || !kind) {
      const known = view.predictions.what === "next" && view.can_count;
      const none = known
        ? "No earlier word is known to decide this one: many words may follow. Choose a word with a ring."
        : "";
      facts.replaceChildren(...(none ? [el("p", "", none)] : []));
      return;
    }
    const { best, here, words } = found;
    const share = one => el("b", "", percent(one.share, 0));
    const go = button("Show it", () => lensState.pick({ layer: best.layer, head: best.head }), "hf-link");
    const isBest = !lens.mean && best.layer === lens.layer && best.head === lens.head;
    facts.replaceChildren(
      el(
        "p",
        "",
        "Decided by ",
        el("b", "hf-k", words.join(", ")),
        `, ringed in the map. Right: ${kind.right.join(", ")}.`,
      ),
      el(
        "p",
        "",
        ...(lens.mean ? [] : [`Head ${lens.layer + 1}·${lens.head + 1} puts `, share(here), " of its weight there"]),
        ...(isBest
          ? [", more than any other head."]
          : [lens.mean ? "Head " : "; head ", `${best.layer + 1}·${best.head + 1} puts `, share(best), ". ", go]),
      ),
    );
    const held = view.answer?.held_out;
    const figures = held?.kinds?.[kind.kind];
    if (held?.status) shares.append(el("p", "hf-hint hf-busy", "Counting held-out passages, with and without…"));
    if (!figures) return;
    const of = `${count(figures.examples)} decided words of the kind “${kind.kind}”, of held-out passages`;
    shares.append(el("h3", "", `Right answers: ${of}`), sharesTable(figures, view.answer.what));
  };
  const show = () => {
    const expected = view?.predictions;
    panel.section.hidden = !expected;
    if (!view?.answer) said.say("");
    if (!expected) return;
    const at = place();
    const isChanged = view.answer?.places && view.answer.asked[0] !== "nothing";
    const after = isChanged ? view.answer.places[at] : undefined;
    const kind = decided();
    Object.assign(state, {
      vocabulary: expected.vocabulary,
      right: kind?.right || [],
      lines: after || expected.places[at].map(([token, p]) => [token, p, null]),
      where: `${WHERE[expected.what]} “${named(expected.labels, at)}”`,
    });
    const of = `the likeliest of ${count(expected.vocabulary)} tokens ${state.where}`;
    panel.rename(kind ? "What decides this word?" : TITLES[expected.what], of);
    const [first] = state.lines;
    const changed = after
      ? `; ${view.answer.what[0].toLowerCase() + view.answer.what.slice(1)} ${number(first[2], 2)}`
      : "";
    picture.relabel(`${caption()}: ${state.lines.map(([token, p]) => `${token} ${number(p, 3)}`).join(", ")}`);
    picture.redraw();
    key.replaceChildren(
      ...(after ? [el("i", "whole"), "whole model", el("i", "changed"), view.answer.what] : []),
      ...(after === null ? ["This token is left out: nothing is expected there."] : []),
    );
    key.hidden = !key.childNodes.length;
    if (view.answer) said.say(`${shown(first[0])} ${number(first[1], 2)}${changed}`);
    showDeciding();
    keepLines(panel.section, { python: view.python || expected.python });
    refresh();
  };
  return {
    update: (/** @type {ChecksView} */ next, /** @type {Chosen} */ at) => {
      [view, lens] = [next, at];
      show();
    },
  };
};

export { predictionsPanel };
