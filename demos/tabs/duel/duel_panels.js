/* The panels of the Duel tab, each with update(view). A view is the board's value whose contestants also have
   `colour` and `dash`; null before the first duel. */
import { buildPanel, buildSegment, button, el } from "../../../hf_attn/viz/web/core/dom.js";
import { count, fileName, minutes, number, percent } from "../../../hf_attn/viz/web/core/format.js";
import { buildTable, cells } from "../../../hf_attn/viz/web/core/table.js";
import { takeAway } from "../../../hf_attn/viz/web/export/buttons.js";
import { ACCURACY, dashLine, lineChart } from "../../../hf_attn/viz/web/plots/line_chart.js";
import { reached } from "../train/runs_table.js";
import { besideOf, logMark, logScale } from "../train/train_panels.js";

const thousands = n => (n >= 1e6 ? `${(n / 1e6).toFixed(1)}\u202fM` : `${Math.round(n / 1e3)}\u202fk`);
const span = (/** @type {{from: number, to: number}} */ { from, to }) => (from === to ? String(from) : `${from}–${to}`);
const interval = ([low, high]) => `${(100 * low).toFixed(1)} to ${percent(high)}`;

/* ---- accuracy and loss, by step and by second ---- */

/** @type {{title: string, of: (point: Board.DuelPoint) => number | null, key: string}[]} */
const WHAT = [
  { title: "Validation accuracy", of: p => p.validation, key: "validation" },
  { title: "Loss", of: p => p.loss, key: "loss" },
];
/** @type {{name: string, of: (point: Board.DuelPoint) => number}[]} */
const BY = [
  { name: "step", of: p => p.step },
  { name: "second", of: p => p.seconds },
];
const ENDS = [1, 2, 3, 5, 8];

/** The next round number above; it never shrinks within a duel, so that the frame stays still. */
const roundEnd = () => {
  let end = 1;
  return value => {
    const size = 10 ** Math.floor(Math.log10(Math.max(1, value)));
    end = Math.max(end, ENDS.map(k => k * size).find(v => v >= value) ?? 10 * size);
    return end;
  };
};
const newScales = () => ({ loss: logScale(), step: roundEnd(), seconds: roundEnd() });

const curvesPanel = host => {
  const panel = buildPanel(host, "Validation accuracy");
  const chosen = { what: 0, by: 0 };
  let scales = newScales();
  /** @type {DuelView} */
  let view = null;
  let shown = null;
  const pick = key => i => {
    chosen[key] = i;
    draw();
  };
  const [what, by] = [buildSegment("What is drawn", pick("what")), buildSegment("Over what", pick("by"))];
  panel.header.append(el("span", "hf-picks", what.element, by.element));
  const curve = lineChart(panel.body, {
    name: "Validation accuracy by step",
    height: 280,
    keys: panel.footer,
    empty: "the curve of each model will be drawn here",
  });
  const points = (/** @type {Styled} */ c) =>
    c.points
      .map(p => [BY[chosen.by].of(p), WHAT[chosen.what].of(p)])
      .filter(([, v]) => Number.isFinite(v) && (chosen.what === 0 || v > 0));
  const lines = () => [
    ["model", "step", "seconds", "validation", "loss"],
    ...(view?.contestants || []).flatMap(c =>
      c.points.map(p => [c.name, count(p.step), number(p.seconds, 1), percent(p.validation), number(p.loss ?? NaN, 3)]),
    ),
  ];
  const fill = takeAway(panel, {
    picture: curve,
    file: () => fileName("duel", view?.task, WHAT[chosen.what].key, BY[chosen.by].name),
    lines,
    caption: () => "Accuracy and loss of each model at each measurement",
  });
  const lastX = () => {
    const given = chosen.by ? view.budget.seconds : view.budget.steps;
    if (given) return given;
    const key = chosen.by ? "seconds" : "step";
    return scales[key](Math.max(...view.contestants.map(c => c[key] / Math.max(c.spent, 0.1))));
  };
  const draw = () => {
    const title = WHAT[chosen.what].title;
    panel.rename(title, chosen.what ? "log scale, mean of the steps between" : view?.metric || "");
    what.update(["accuracy", "loss"], chosen.what);
    by.update(["by step", "by second"], chosen.by);
    const series = (view?.contestants || []).map(c => ({ ...c, points: points(c) }));
    const isLoss = chosen.what === 1;
    const losses = series.flatMap(s => s.points.map(p => p[1]));
    const y = isLoss ? { ...scales.loss(losses), format: logMark, tell: null } : ACCURACY;
    const x = [0, view ? lastX() : 1];
    const beside = isLoss ? [] : besideOf(view?.baseline, x[1]);
    curve.update({
      ...y,
      log: isLoss,
      series: [...series, ...beside],
      x,
      xName: BY[chosen.by].name,
      name: `${title} by ${BY[chosen.by].name}, ${series.length} models`,
    });
    panel.footer.hidden = !series.length;
    fill();
  };
  const update = (/** @type {DuelView} */ next) => {
    if (next?.duel !== shown) scales = newScales();
    shown = next?.duel;
    view = next;
    draw();
  };
  /** Accuracy or loss, by step or by second, for a link. */
  const restore = ({ what: of, by: over }) => {
    if ([0, 1].includes(of)) chosen.what = of;
    if ([0, 1].includes(over)) chosen.by = over;
    draw();
  };
  return { update, state: () => ({ ...chosen }), restore };
};

/* ---- accuracy by size ---- */

const kindOf = (/** @type {Styled[]} */ all) => (all.every(c => c.held_out) ? "Held-out" : "Validation");

const sizesPanel = host => {
  const panel = buildPanel(host, "Accuracy by length");
  /** @type {DuelView} */
  let view = null;
  const measured = () => (view?.contestants || []).filter(c => c.sizes.length);
  const groups = () => measured()[0]?.sizes || [];
  const curve = lineChart(panel.body, {
    name: "Accuracy by length",
    ...ACCURACY,
    height: 280,
    near: true,
    keys: panel.footer,
    tellX: x => {
      const group = groups().reduce((a, b) => (Math.abs(mid(b) - x) < Math.abs(mid(a) - x) ? b : a));
      return `${view.size_name} ${span(group)}`;
    },
    empty: "measured while they learn",
  });
  const mid = group => (group.from + group.to) / 2;
  const said = (/** @type {Board.SizeScore} */ s) => `${percent(s.held_out)} (${interval([s.low, s.high])})`;
  const lines = () => [
    ["model", ...groups().map(g => `${view.size_name} ${span(g)}`)],
    ...measured().map(c => [c.name, ...c.sizes.map(said)]),
  ];
  const fill = takeAway(panel, {
    picture: curve,
    file: () => fileName("duel", view?.task, "by", view?.size_name),
    lines,
    caption: () => `${kindOf(measured())} accuracy by ${view?.size_name || "length"}, with its 95 % interval`,
  });
  const update = (/** @type {DuelView} */ next) => {
    view = next;
    const name = view?.size_name || "length";
    const all = measured();
    const most = Math.max(1, ...groups().map(g => g.to));
    const apart = i => (i - (all.length - 1) / 2) * most * 0.008; // intervals stand beside one another
    const series = all.map((c, i) => ({
      ...c,
      points: c.sizes.map(s => [mid(s) + apart(i), s.held_out]),
      spans: c.sizes.map(s => [mid(s) + apart(i), s.low, s.high]),
    }));
    const examples = all.every(c => c.held_out) ? all[0]?.held_out.examples : null;
    const held = `${count(examples)} held-out examples, 95 % intervals`;
    const how = examples ? held : all.length ? "validation examples so far, 95 % intervals" : "as they learn";
    panel.rename(`Accuracy by ${name}`, how);
    const x = [0, all.length ? most * 1.02 : 1];
    curve.update({ series, x, xName: name, name: `Accuracy by ${name}, ${all.length} models` });
    panel.footer.hidden = !all.length;
    fill();
  };
  return { update };
};

/* ---- the legend with its figures ---- */

const standingsPanel = (host, trigger) => {
  const panel = buildPanel(host, "Models", { note: "equal in parameters, examples and their order", cls: "hf-models" });
  const figures = ["parameters", "steps", "seconds", "loss", "held-out"].map(text => [text, "num"]);
  const heads = ["line", "model", ...figures, el("span", "hf-sr", "actions")];
  const body = el("tbody");
  panel.body.append(buildTable("hf-standings", heads, body));
  const act = (/** @type {string} */ text, /** @type {string} */ event, /** @type {Styled} */ c) => {
    const press = button(text, () => trigger(event, { run: c.id }), "");
    press.setAttribute("aria-label", `${text} ${c.name}`);
    return press;
  };
  const actions = (/** @type {Styled} */ c, /** @type {DuelView} */ view) => {
    if (view.status === "running" || !c.step || c.status === "error") return "";
    return el("div", "hf-take", c.kept ? act("Download", "download_run", c) : act("Keep", "keep_run", c));
  };
  const row = (/** @type {Styled} */ c, /** @type {DuelView} */ view) => {
    const details = `${thousands(c.parameters)}, ${count(c.step)} steps, ${minutes(c.seconds)}`;
    const name = el("td", "", el("b", "", c.name), el("small", "hf-narrow", details));
    if (c.message) name.append(el("small", "no", c.message));
    const sure = c.held_out ? [el("small", "", interval(c.held_out.interval))] : [];
    const share = [...reached(c), ...sure];
    const figures = [thousands(c.parameters), count(c.step), number(c.seconds, 1), number(c.loss ?? NaN, 3), share];
    return el("tr", "", el("td", "", dashLine(c)), name, ...cells("num", ...figures), el("td", "", actions(c, view)));
  };
  const beside = (/** @type {Board.BaselineLevel} */ { name, parameters, seconds, held_out, interval: sure }) => {
    const said = el("small", "hf-narrow", `${thousands(parameters)}, ${minutes(seconds)}`);
    const share = [percent(held_out), el("small", "", interval(sure))];
    const figures = cells("num", thousands(parameters), "–", number(seconds, 1), "–", share);
    return el("tr", "", el("td"), el("td", "", el("b", "", name), said), ...figures, el("td"));
  };
  const rows = (/** @type {DuelView} */ view) => [
    ...view.contestants.map(c => row(c, view)),
    ...(view.baseline ? [beside(view.baseline)] : []),
  ];
  const update = (/** @type {DuelView} */ view) => body.replaceChildren(...(view ? rows(view) : []));
  return { update };
};

const duelPanels = { curvesPanel, sizesPanel, standingsPanel };

/** A model with its line.
    @typedef {Board.Contestant & {colour: string, dash: number}} Styled */
/** @typedef {Omit<Board.DuelValue, "contestants"> & {contestants: Styled[]}} DuelView */

export { duelPanels };
