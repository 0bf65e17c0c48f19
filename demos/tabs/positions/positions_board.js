/* The Positions tab's boards: what a position encoding adds, turns or biases, and models beyond their length.
   The chosen cell drives its board: its row is the position that others are compared with, its column the wave in front.
   The boards take a Board.PositionsValue and a Board.GrowthValue. */
import { alertLine, buildPanel, buildSegment, el, live, showProgress } from "../../../hf_attn/viz/web/core/dom.js";
import { count, isPlace, number, percent, range, roundUp } from "../../../hf_attn/viz/web/core/format.js";
import { buildTable, cells } from "../../../hf_attn/viz/web/core/table.js";
import { takeAway } from "../../../hf_attn/viz/web/export/buttons.js";
import { ACCURACY, dashLine, lineChart, seriesStyle } from "../../../hf_attn/viz/web/plots/line_chart.js";
import { signedMap } from "./signed_map.js";

/** What the panels draw.
    @typedef {{value: Board.PositionsValue, picture: Board.PositionPicture | null, at: number,
      selected: {r: number, c: number} | null}} State */

const TITLES = {
  vectors: "What is added",
  angles: "How queries and keys are turned",
  bias: "What is put on the score",
};
const COLUMNS = { vectors: "dimension", angles: "pair", bias: "key" };
const countedBy = numbers => (numbers[0] < 0 ? "distance" : "position");
const small = x => (x === 0 ? "0" : x < 1e-3 ? x.toExponential(0).replace("-", "−").replace("+", "") : number(x, 2));

/* ---- what it is ---- */

const factsPanel = host => {
  const panel = buildPanel(host);
  const [sentence, equation] = [el("p", "hf-says"), el("p", "hf-equation")];
  const [paper, notice] = [el("p", "hf-hint"), el("p", "hf-notice")];
  panel.body.append(sentence, equation, paper, notice);
  const update = (/** @type {State} */ { value }) => {
    panel.rename(value.title, `position_type: ${value.type}`);
    sentence.textContent = value.sentence;
    equation.textContent = value.equation;
    paper.textContent = value.paper;
    notice.hidden = !value.untrained;
    notice.textContent = "Untrained weights: this encoding learns its numbers, and these are random.";
  };
  return { update };
};

/* ---- the table of numbers ---- */

const mapPanel = (host, pick) => {
  const panel = buildPanel(host, "", { cls: "hf-positions-map" });
  const choice = buildSegment("Which table", i => pick({ picture: i }));
  panel.header.append(choice.element);
  const [mapHost, blank] = [el("div"), el("p", "hf-blank", "Nothing is added, turned or put on the scores.")];
  panel.body.append(mapHost, blank);
  const map = signedMap(mapHost, { onSelect: selected => pick({ selected }), tell: () => [] });
  let shown = null;
  const lines = () => {
    if (!shown) return [["position"]];
    const { picture, cols, rowName } = shown;
    return [[rowName, ...cols], ...picture.rows.map((row, r) => [row, ...picture.values[r]])];
  };
  const file = () => `positions-${shown?.type ?? "none"}-${(shown?.picture.name ?? "").replace(/\W+/g, "-")}`;
  const fill = takeAway(panel, {
    picture: map,
    file,
    lines,
    caption: () => `${shown?.name ?? "Nothing"}, number by number`,
  });
  const update = (/** @type {State} */ { value, picture, selected, at }) => {
    mapHost.hidden = panel.footer.hidden = !picture;
    blank.hidden = Boolean(picture);
    choice.element.hidden = value.pictures.length < 2;
    choice.update(
      value.pictures.map(one => one.name),
      at,
    );
    panel.rename(picture ? TITLES[picture.kind] : TITLES.vectors, picture ? picture.name : "");
    shown = null;
    if (!picture) return fill();
    const isBias = picture.kind === "bias";
    const rowName = isBias ? "query" : countedBy(picture.rows);
    const colName = COLUMNS[picture.kind];
    const rows = picture.rows.map(row => number(row, 0));
    const cols = isBias ? rows : range(picture.values[0].length);
    const isAngle = picture.kind === "angles";
    const most = isAngle ? Math.PI : roundUp(Math.max(...picture.values.flat().map(Math.abs)));
    const name = `${value.title}, ${picture.name}, ${rowName} by ${colName}`;
    shown = { picture, cols, rowName, name, type: value.type };
    map.update({
      rows,
      cols,
      values: picture.values,
      most,
      ends: isAngle ? ["−π", "0", "π"] : [number(-most, most < 1 ? 1 : 0), "0", number(most, most < 1 ? 1 : 0)],
      rowName,
      colName,
      role: isBias,
      selected,
      name,
      tell: (r, c) => [`${rowName} ${rows[r]}, ${colName} ${cols[c]}`, number(picture.values[r][c], 3)],
    });
    fill();
  };
  return { update };
};

/* ---- waves, and how alike two positions are ---- */

const linesPanel = (host, view) => {
  const panel = buildPanel(host);
  const [plotHost, blank] = [el("div"), el("p", "hf-blank")];
  panel.body.append(plotHost, blank);
  const plot = lineChart(plotHost, { xTicks: 8, height: 220, near: true, keys: panel.footer });
  let shown = null;
  const lines = () => {
    if (!shown) return [["position"]];
    const heads = [shown.xName, ...shown.series.map(s => s.name)];
    return [heads, ...shown.series[0].points.map(([x], i) => [x, ...shown.series.map(s => s.points[i][1])])];
  };
  const fill = takeAway(panel, {
    picture: plot,
    file: () => `positions-${shown?.file ?? "none"}`,
    lines,
    caption: () => shown?.name ?? "Nothing",
  });
  const update = (/** @type {State} */ state) => {
    const next = view(state);
    shown = next.series ? next : null;
    panel.rename(next.title, next.note);
    plotHost.hidden = panel.footer.hidden = !shown;
    blank.hidden = Boolean(shown);
    blank.textContent = next.blank || "";
    if (shown) plot.update({ mark: null, ...next });
    fill();
  };
  return { update };
};

const styled = (name, points, i) => ({ name, points, ...seriesStyle(i) });
/** The chosen column first, then up to three spread evenly over the others. */
const spread = (columns, first) => {
  const others = [0, 1, 2, 3].map(i => Math.floor((i * columns) / 4)).filter(c => c !== first);
  return [first, ...new Set(others)].slice(0, 4);
};
const waves = (/** @type {State} */ { value, picture, selected }) => {
  const title = { angles: "Cosine of the angle", bias: "Bias by distance" }[picture?.kind] ?? "Waves";
  if (!picture) return { title, note: "", blank: "No numbers, no waves." };
  const isBias = picture.kind === "bias";
  const [columns, head] = [picture.waves[0].length, Number(/head (\d+)/.exec(picture.name)?.[1] ?? 1) - 1];
  const chosen = spread(columns, isBias ? head : selected.c);
  const label = c => (isBias ? `head ${c + 1}` : `${COLUMNS[picture.kind]} ${c}`);
  const series = chosen.map((c, i) =>
    styled(
      label(c),
      picture.points.map((x, p) => [x, picture.waves[p][c]]),
      i,
    ),
  );
  const all = series.flatMap(s => s.points.map(p => p[1]));
  const most = picture.kind === "angles" ? 1 : roundUp(Math.max(...all.map(Math.abs)));
  const low = all.some(v => v < 0) ? -most : 0;
  const high = all.some(v => v > 0) ? most : 0;
  const xName = countedBy(picture.points);
  return {
    title,
    note: isBias
      ? "of each head; the key's position less the query's"
      : "the chosen column first, three others beside it",
    series,
    xName,
    x: [picture.points[0], picture.points.at(-1)],
    y: [low, high],
    ticks: [...new Set([low, (low + high) / 2, high])],
    format: v => number(v, most < 1 ? 2 : Number.isInteger(v) ? 0 : 1),
    name: `${title} over the ${xName}, ${series.map(s => s.name).join(", ")}`,
    file: `${value.type}-waves`,
  };
};
const alike = (/** @type {State} */ { value, picture, selected }) => {
  const isBias = picture?.kind === "bias";
  const title = isBias ? "What the bias alone lets it read" : "Cosine with the chosen position";
  if (!picture) return { title, note: "", blank: "No vectors, nothing to compare." };
  const row = picture.rows[selected.r];
  const what = isBias ? `query ${row} reads` : `cosine with ${countedBy(picture.rows)} ${row}`;
  const points = picture.rows.map((x, r) => [x, picture.similarity[selected.r][r]]);
  const xName = isBias ? "key" : countedBy(picture.rows);
  const top = isBias ? roundUp(Math.max(...points.map(p => p[1]))) : 1;
  return {
    title,
    note: isBias
      ? "softmax of its row: weights where all products are equal"
      : "1 is the same direction; choose a row above",
    series: [styled(what, points, 0)],
    xName,
    x: [picture.rows[0], picture.rows.at(-1)],
    y: [isBias ? 0 : -1, top],
    ticks: isBias ? [0, top / 2, top] : [-1, -0.5, 0, 0.5, 1],
    format: v => number(v, top < 1 ? 2 : 1),
    mark: { x: row, text: `${xName} ${number(row, 0)}` },
    name: `${title}: ${what}`,
    file: `${value.type}-similarity`,
  };
};

/* ---- does it notice? ---- */

const orderPanel = host => {
  const panel = buildPanel(host, "Does the order matter?", {
    note: "one layer of untrained attention reads your sentence",
  });
  const [moved, body] = [el("p", "hf-moved"), el("tbody")];
  const table = buildTable("hf-order", ["the words are", ["L2", "num"], "that is"], body);
  const note = el("p", "hf-hint");
  panel.body.append(moved, el("div", "hf-scroll", table), note);
  const update = (/** @type {State} */ { value }) => {
    const { order } = value;
    const words = order.order.map(i => el("span", "hf-tok", order.words[i]));
    moved.replaceChildren(el("span", "hf-label", "shuffled"), el("span", "hf-tokens", ...words));
    const row = (what, how, distance) => {
      const said = distance < order.rounding ? "the same output" : "another output";
      const name = el("td", "", what, el("small", "", how));
      return el("tr", "", name, el("td", "num", small(distance)), el("td", "", said));
    };
    body.replaceChildren(
      row("words shuffled, outputs put back in order", "without position encodings", order.without),
      row("words shuffled, outputs put back in order", value.title, order.with_positions),
      row(`all words moved on by ${order.shift} positions`, value.title, order.shifted),
    );
    note.textContent = `L2 distance to the output of the words in their own order, whose L2 norm is ${number(order.norm, 2)}.`;
  };
  return { update };
};

/** Where nothing was chosen yet: position 0, distance 0, or the middle query and key. */
const beginAt = (/** @type {Board.PositionPicture} */ picture) => {
  const middle = Math.floor(picture.rows.length / 2);
  if (picture.kind === "bias") return { r: middle, c: middle };
  return { r: Math.max(0, picture.rows.indexOf(0)), c: 0 };
};

const positions_board = element => {
  const root = element.querySelector(".hf-positions");
  /** @type {Omit<State, "picture">} */
  const state = { value: null, at: 0, selected: null };
  const pick = choice => {
    if ("picture" in choice) Object.assign(state, { at: choice.picture, selected: null });
    else state.selected = choice.selected;
    show();
  };
  const facts = el("div", "hf-pair");
  const below = el("div", "hf-pair");
  /** @type {{update: (state: State) => void}[]} */
  const panels = [factsPanel(facts), orderPanel(facts)];
  root.append(facts);
  panels.push(mapPanel(root, pick));
  root.append(below);
  panels.push(linesPanel(below, waves), linesPanel(below, alike));
  const show = () => {
    const picture = state.value.pictures[state.at] ?? null;
    if (picture) {
      const fits = { r: picture.values.length - 1, c: picture.values[0].length - 1 };
      state.selected ??= beginAt(picture);
      state.selected = { r: Math.min(state.selected.r, fits.r), c: Math.min(state.selected.c, fits.c) };
    }
    panels.forEach(panel => panel.update({ ...state, picture }));
  };
  const update = (/** @type {Board.PositionsValue} */ value) => {
    root.hidden = !value;
    if (!value) return;
    if (state.value?.type !== value.type) Object.assign(state, { at: 0, selected: null });
    state.at = Math.min(state.at, Math.max(0, value.pictures.length - 1));
    state.value = value;
    show();
  };
  /** A link's table and cell; what this encoding does not have stays as it is. */
  const restore = ({ picture, row, column }) => {
    const { pictures } = state.value;
    if (isPlace(picture, pictures)) Object.assign(state, { at: picture, selected: null });
    const values = pictures[state.at]?.values ?? [];
    if (isPlace(row, values) && isPlace(column, values[0])) state.selected = { r: row, c: column };
    show();
  };
  const kept = () => ({ picture: state.at, row: state.selected?.r ?? null, column: state.selected?.c ?? null });
  return { update, state: kept, restore };
};

/* ---- beyond the trained length ---- */

const CANNOT = "cannot";
const growth_board = element => {
  const root = element.querySelector(".hf-growth");
  const say = alertLine(root);
  const panel = buildPanel(root);
  const spoken = live();
  root.append(spoken.element);
  const [plotHost, body] = [el("div"), el("tbody")];
  const heads = ["line", "encoding", ...["step", "loss", "inside", "beyond"].map(text => [text, "num"])];
  panel.body.append(plotHost, el("div", "hf-scroll hf-encodings", buildTable("", heads, body)));
  const plot = lineChart(plotHost, { ...ACCURACY, xTicks: 8, height: 300, near: true });
  /** @type {Board.GrowthValue} */
  let view = null;
  const cell = (/** @type {Board.LengthScore} */ score) =>
    !score ? "–" : score.right === null ? CANNOT : percent(score.right);
  const lines = () => [
    [view?.size_name ?? "length", ...(view?.encodings ?? []).map(encoding => encoding.title)],
    ...(view?.tested ?? []).map(n => [
      n,
      ...view.encodings.map(encoding => cell(encoding.scores.find(s => s.size === n))),
    ]),
  ];
  const fill = takeAway(panel, {
    picture: plot,
    file: () => `beyond-${view?.task ?? "none"}`,
    lines,
    caption: () => `Held-out accuracy by ${view?.size_name ?? "length"}`,
  });
  const row = (/** @type {Board.TestedEncoding} */ encoding, /** @type {number} */ i) => {
    const figures = [
      encoding.step === null ? "–" : `${count(encoding.step)} of ${count(encoding.steps)}`,
      number(encoding.loss ?? NaN, 3),
      percent(encoding.inside ?? NaN),
      encoding.refuses ? CANNOT : percent(encoding.beyond ?? NaN),
    ];
    return el("tr", "", ...cells("", dashLine(seriesStyle(i)), encoding.title), ...cells("num", ...figures));
  };
  const update = (/** @type {Board.GrowthValue} */ next) => {
    view = next;
    root.hidden = !view;
    if (!view) return;
    say(view.message);
    const name = view?.size_name ?? "length";
    panel.rename(
      `Accuracy by ${name}`,
      view ? `${view.metric}; ${view.how}` : "trained on short ones, measured on longer ones",
    );
    const encodings = view?.encodings ?? [];
    const most = view?.tested.at(-1) ?? 1;
    const series = encodings.map((encoding, i) => {
      const known = encoding.scores.filter(s => s.right !== null);
      const apart = (i - (encodings.length - 1) / 2) * most * 0.006; // intervals stand beside one another
      const points = known.map(s => [s.size + apart, s.right]);
      return { ...styled(encoding.title, points, i), spans: known.map(s => [s.size + apart, s.low, s.high]) };
    });
    const mark = view ? { x: view.trained, text: `trained to ${view.trained}` } : null;
    const empty = series.some(s => s.points.length) ? "" : "accuracy by length will be drawn here";
    const x = [0, view ? most * 1.02 : 0];
    plot.update({ series, x, xName: name, mark, empty, name: `Accuracy by ${name}` });
    body.replaceChildren(...encodings.map(row));
    panel.footer.hidden = !encodings.length;
    fill();
    showProgress("#positions-start", view?.status ?? "ready", view?.done ?? 0);
    if (view) spoken.say(`${percent(Math.floor(10 * view.done) / 10, 0)} done`);
  };
  return { update };
};

export { growth_board, positions_board };
