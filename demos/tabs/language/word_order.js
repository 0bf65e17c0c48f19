/* Language, Order: two sentences of the same words, word by word (bags_board), and models that learn which of two
   letters comes first (order_board). They take a Board.BagsValue and a Board.OrderValue. */
import { alertLine, buildPanel, el, live } from "../../../hf_attn/viz/web/core/dom.js";
import { count, number, percent, shown } from "../../../hf_attn/viz/web/core/format.js";
import { buildTable, cells, headCell } from "../../../hf_attn/viz/web/core/table.js";
import { takeAway } from "../../../hf_attn/viz/web/export/buttons.js";
import { ACCURACY, dashLine, lineChart, measuredAt, seriesStyle } from "../../../hf_attn/viz/web/plots/line_chart.js";

const SAME =
  "Both sentences have the same bag of words, which cannot tell them apart. An untrained attention layer reads both: " +
  "the table has the distance between a word's two outputs, as a share of their length.";
/** Dash and colour of naive Bayes, then of attention without and with positions. */
const styleOf = i => seriesStyle([1, 2, 0][i]);
const small = v => (v !== 0 && v < 1e-3 ? v.toExponential(0).replace("-", "−") : number(v, 3));

const bags_board = element => {
  const root = element.querySelector(".hf-language");
  const panel = buildPanel(root, "The same bag of words", { cls: "hf-wide-panel" });
  const bag = el("div", "hf-tokens");
  const sentence = el("p", "hf-hint");
  const host = el("div", "hf-scroll");
  panel.body.append(bag, sentence, host);
  /** @type {Board.BagsValue} */
  let value = null;
  const named = (/** @type {Board.BagRow} */ row) => (row.places ? shown(row.word) : row.word);
  const where = (/** @type {Board.BagRow} */ row) =>
    row.places ? `${row.places[0] + 1} and ${row.places[1] + 1}` : "";
  const heads = () => ["word", "stands at", ...value.names];
  const lines = () => [
    heads(),
    ...value.rows.map(row => [named(row), where(row), ...value.names.map(name => small(row.distance[name]))]),
  ];
  const refresh = takeAway(panel, {
    file: () => "language-order",
    lines,
    caption: () => "How far apart each word's output is in both sentences",
  });
  const line = (/** @type {Board.BagRow} */ row) => {
    const distances = value.names
      .map(name => row.distance[name])
      .map(distance => el("td", distance < 1e-6 ? "num same" : "num apart", small(distance)));
    const name = headCell("row", named(row), row.places ? "hf-mono" : "");
    return el("tr", row.places ? "" : "total", name, el("td", "", where(row)), ...distances);
  };
  const update = (/** @type {Board.BagsValue} */ next) => {
    value = next;
    panel.section.hidden = !value;
    if (!value) return;
    bag.replaceChildren(
      ...Object.entries(value.bag).map(([word, n]) =>
        el("span", "hf-tok", n > 1 ? `${shown(word)} ×${n}` : shown(word)),
      ),
    );
    sentence.textContent = SAME;
    const columns = heads().map((text, i) => (i > 1 ? [text, "num"] : text));
    host.replaceChildren(buildTable("hf-apart", columns, el("tbody", "", ...value.rows.map(line))));
    refresh();
  };
  return { update };
};

/* ---- which came first? ---- */

const modelsTable = host => {
  const table = el("div", "hf-scroll");
  host.append(table);
  const verdict = (told, right) => el("span", right ? "" : "no", right ? `${told}, right` : `${told}, wrong`);
  const answer = (/** @type {Board.OrderModel} */ model, /** @type {number} */ i) => {
    if (!model) return "–";
    const told = model.answers[i];
    return told ? verdict(told, model.right[i]) : "–";
  };
  const line = (/** @type {Board.OrderModel} */ model, /** @type {number} */ i) => {
    const figures = cells("num", count(model.parameters), percent(model.held_out ?? NaN));
    const answers = cells("", answer(model, 0), answer(model, 1));
    const stroke = el("td", "", dashLine(styleOf(i)));
    return el("tr", "", stroke, headCell("row", model.name), ...figures, ...answers);
  };
  const update = (/** @type {Board.OrderValue} */ value) => {
    const twins = value?.twins ?? ["a sequence", "its twin"];
    const figures = ["parameters", "held-out"].map(text => [text, "num"]);
    const heads = ["line", "model", ...figures, ...twins.map(text => [text, "hf-mono"])];
    const rows = value ? value.models.map(line) : [];
    table.replaceChildren(buildTable("hf-models-table hf-learned", heads, el("tbody", "", ...rows)));
  };
  return { update };
};

const order_board = element => {
  const root = element.querySelector(".hf-language");
  const say = alertLine(root);
  const panel = buildPanel(root, "", { cls: "hf-wide-panel" });
  const spoken = live();
  root.append(spoken.element);
  /** @type {Board.OrderValue} */
  let value = null;
  const curve = lineChart(panel.body, {
    name: "Validation accuracy by step",
    ...ACCURACY,
    height: 220,
    empty: "each model's accuracy will be drawn here",
  });
  const table = modelsTable(panel.body);
  const steps = () =>
    [...new Set(value?.models.flatMap(model => model.points.map(p => p[0])) ?? [])].sort((a, b) => a - b);
  const refresh = takeAway(panel, {
    file: () => "language-which-came-first",
    lines: () => [
      ["step", ...(value?.models ?? []).map(model => model.name)],
      ...steps().map(step => [step, ...value.models.map(model => percent(measuredAt(model.points, step) ?? NaN))]),
    ],
    caption: () => "Validation accuracy of each model by step",
    picture: curve,
  });
  let told = "";
  const update = (/** @type {Board.OrderValue} */ next) => {
    value = next;
    root.hidden = !value;
    say(value?.message);
    panel.rename(
      "Does a stand before b?",
      value
        ? `curves: validation; table: ${count(value.examples)} held-out sequences, half of them the others' twins`
        : "twelve letters, one a and one b",
    );
    const last = Math.max(1, ...(value?.models ?? []).map(model => model.steps));
    const level = ({ steps, points }) => (steps ? points : [0, last].map(step => [step, points[0][1]]));
    const series = (value?.models ?? []).map((model, i) => ({
      name: model.name,
      ...styleOf(i),
      points: level(model),
    }));
    series.reverse(); // the first is drawn on top: where two lie on one another the longer dashes do
    curve.update({ series, x: [0, value ? last : 200], name: `Validation accuracy by step, ${series.length} models` });
    table.update(value);
    refresh();
    const news = (value?.models ?? [])
      .filter(model => model.is_done)
      .map(model => `${model.name} ${percent(model.held_out)}`);
    if (news.join() !== told) spoken.say(news.join(", "));
    told = news.join();
  };
  return { update };
};

export { bags_board, order_board };
