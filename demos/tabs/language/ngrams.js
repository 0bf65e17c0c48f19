/* Language, n-grams: what follows by tables of one, two and three words, how surprised each is by held-out text,
   and how many numbers a full table has. The board takes a Board.NgramsValue. */
import { buildPanel, el } from "../../../hf_attn/viz/web/core/dom.js";
import { count, number, percent, shown } from "../../../hf_attn/viz/web/core/format.js";
import { buildTable, cells, headCell } from "../../../hf_attn/viz/web/core/table.js";
import { takeAway } from "../../../hf_attn/viz/web/export/buttons.js";
import { lineChart, seriesStyle } from "../../../hf_attn/viz/web/plots/line_chart.js";
import { wordBars } from "./word_bars.js";

const SAID = { "<s>": "start", "</s>": "end", "<unk>": "(other)" };
const say = word => SAID[word] ?? shown(word);
const raised = n => [...String(n)].map(digit => "⁰¹²³⁴⁵⁶⁷⁸⁹"[digit]).join("");
const large = n => {
  if (n < 1e6) return count(n);
  const [digits, power] = n.toExponential(1).split("e+");
  return `${digits} × 10${raised(power)}`;
};
const share = x => (x >= 0.01 ? percent(x) : `${Number((100 * x).toPrecision(2))}\u202f%`);

const followingPanel = host => {
  const panel = buildPanel(host, "", { cls: "hf-wide-panel" });
  const grid = el("div", "hf-following");
  panel.body.append(grid);
  /** @type {Board.NgramsValue} */
  let value = null;
  const all = () => [...(value?.following ?? []), ...(value?.model ? [value.model] : [])];
  const refresh = takeAway(panel, {
    file: () => "language-next-words",
    lines: () => [
      ["read by", "next", "probability", "met"],
      ...all().flatMap(one => one.words.map(([word, p, n]) => [one.name, say(word), number(p, 3), n ?? "–"])),
    ],
    caption: () => `What follows “${value?.prompt ?? ""}”`,
  });
  const cell = (/** @type {Board.Following} */ one, /** @type {number} */ most) => {
    const box = el("div", "hf-follows");
    const read = one.context.length ? one.context.map(say).join(" ") : "nothing";
    const met = one.seen === null ? "" : one.context.length ? `, met ${count(one.seen)} times` : "";
    box.append(el("h3", "", one.name), el("p", "hf-hint", `reads ${read}${met}`));
    const bars = wordBars(box);
    const line = ([word, p, n]) => ({
      name: say(word),
      value: p,
      told: number(p, 3),
      note: n === null ? "" : `${count(n)}×`,
    });
    bars.update(one.words.map(line), most);
    return box;
  };
  const update = (/** @type {Board.NgramsValue} */ next) => {
    value = next;
    panel.section.hidden = !value;
    if (!value) return;
    const most = Math.max(...all().flatMap(one => one.words.map(word => word[1])));
    const before = value.prompt ? `“${value.prompt}”` : "nothing yet: how a sentence begins";
    panel.rename("What follows", `${before}, probability, and how often it followed`);
    grid.replaceChildren(...all().map(one => cell(one, most)));
    refresh();
  };
  return { update };
};

const surprisePanel = host => {
  const panel = buildPanel(host);
  const table = el("div", "hf-scroll");
  panel.body.append(table);
  /** @type {Board.NgramsValue} */
  let value = null;
  const heads = ["table", "perplexity", "discount", "cells", "filled"];
  const figuresOf = (/** @type {Board.NgramTable} */ one) => [
    one.name,
    number(one.perplexity, 1),
    number(one.discount, 2),
    large(one.cells),
    share(one.met / one.cells),
  ];
  const refresh = takeAway(panel, {
    file: () => "language-perplexity",
    lines: () => [heads, ...(value?.tables ?? []).map(figuresOf)],
    caption: () => "Perplexity of each table on held-out sentences",
  });
  const update = (/** @type {Board.NgramsValue} */ next) => {
    value = next;
    panel.section.hidden = !value;
    if (!value) return;
    const { training, held_out, vocabulary } = value.counts;
    panel.rename(
      "Surprise",
      `perplexity; counted on ${count(training)} words, measured on ${count(held_out)} held out, ${count(vocabulary)} different`,
    );
    const rows = value.tables
      .map(figuresOf)
      .map(([name, ...figures]) => el("tr", "", headCell("row", name), ...cells("num", ...figures)));
    const [first, ...others] = heads;
    const columns = [first, ...others.map(text => [text, "num"])];
    table.replaceChildren(buildTable("hf-models-table", columns, el("tbody", "", ...rows)));
    refresh();
  };
  return { update };
};

const growthPanel = host => {
  const panel = buildPanel(host);
  /** @type {Board.NgramsValue} */
  let value = null;
  const power = v => (v === 1 ? "1" : `10${raised(Math.round(Math.log10(v)))}`);
  const curve = lineChart(panel.body, {
    name: "Numbers to learn by words read",
    xName: "words",
    log: true,
    height: 210,
    format: power,
    tell: large,
    keys: panel.footer,
  });
  const refresh = takeAway(panel, {
    file: () => "language-parameters",
    lines: () => [
      ["words read", "cells of the full table", "attention's parameters"],
      ...(value?.growth.cells ?? []).map(([context, cells]) => [context, large(cells), large(value.growth.attention)]),
    ],
    caption: () => "Numbers to learn by how many words are read",
    picture: curve,
  });
  const update = (/** @type {Board.NgramsValue} */ next) => {
    value = next;
    panel.section.hidden = !value;
    if (!value) return;
    const { cells, attention, window: read } = value.growth;
    const end = Math.ceil(Math.log10(cells.at(-1)[1]) / 4) * 4;
    panel.rename("Numbers to learn", `by words read, log scale; attention reads ${read} words with as many`);
    curve.update({
      y: [1, 10 ** end],
      ticks: [0, 0.25, 0.5, 0.75, 1].map(share => 10 ** (end * share)),
      x: [0, cells.at(-1)[0]],
      series: [
        { name: "full table", points: cells, ...seriesStyle(0) },
        { name: "attention", points: cells.map(([context]) => [context, attention]), ...seriesStyle(1) },
      ],
    });
    refresh();
  };
  return { update };
};

const ngrams_board = element => {
  const root = element.querySelector(".hf-language");
  const panels = [followingPanel(root), surprisePanel(root), growthPanel(root)];
  const update = (/** @type {Board.NgramsValue} */ value) => {
    panels.forEach(panel => panel.update(value));
  };
  return { update };
};

export { ngrams_board };
