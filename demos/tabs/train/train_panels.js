/* The panels of the Train tab, each with update(view). A view is what train_board.js worked out for the shown step:
   {state, meta, step (shown), last, following, layer, head, frame, map, loss, smoothLoss, validation, known, direct,
   others, total}. */
import { buildPanel, buildSegment, button, el, write } from "../../../hf_attn/viz/web/core/dom.js";
import {
  count,
  fileName,
  minutes,
  NO_ATTENTION,
  number,
  percent,
  range,
} from "../../../hf_attn/viz/web/core/format.js";
import { term } from "../../../hf_attn/viz/web/core/tooltip.js";
import { takeAway } from "../../../hf_attn/viz/web/export/buttons.js";
import { filmStrip } from "../../../hf_attn/viz/web/plots/film_strip.js";
import { heatmap } from "../../../hf_attn/viz/web/plots/heatmap.js";
import { curveKey, lastBefore, lineChart, measuredAt } from "../../../hf_attn/viz/web/plots/line_chart.js";
import { predictions } from "../../../hf_attn/viz/web/plots/token_strip.js";
import { trainState } from "./train_state.js";

const MEANINGS = {
  probe: "one example whose attention is drawn again and again while the model learns",
  validation:
    "200 examples that training never draws, chosen by a hash: what is measured on them is not memory; they draw " +
    "the curve, and whoever stops a run or chooses among runs looks at them",
  "held-out":
    "other examples that training never draws: 1\u202f000 of them are measured once, where the run ends, so that " +
    "nothing was chosen by them",
  loss: "the mean of −log p, where p is what the model gives the right next symbol; 0 would be certain and right",
  "known answer": "the symbols that the task's own rule needs for each symbol of the answer; rings in the map",
};
/** @import {TrainView} from "./train_board.js" */

/** A term of art, with what it means. */
const figureName = (text, name = text.toLowerCase()) => term(text, MEANINGS[name]);

/* ---- figures: of the step that is shown; speed and time are the run's ---- */

const figures = host => {
  const list = el("dl", "hf-stats");
  const values = {};
  for (const name of ["Step", "Loss", "Validation", "Held-out", "Speed", "Left"]) {
    const label = el("dt", "", MEANINGS[name.toLowerCase()] ? figureName(name) : name);
    const [value, unit] = [el("span"), el("small")];
    list.append(el("div", "", label, el("dd", "", value, unit)));
    values[name] = { label, value, unit };
  }
  host.append(list);
  const put = (name, text, unit = "") => {
    write(values[name].value, text);
    write(values[name].unit, unit);
  };
  const update = (/** @type {TrainView} */ { state, step, total, loss, validation }) => {
    const now = state.points.at(-1);
    const over = ["finished", "stopped", "error"].includes(state.status);
    put("Step", now ? count(step) : state.run ? "0" : "–", total ? ` of ${count(total)}` : "");
    put("Loss", number(measuredAt(loss, step) ?? NaN, 3));
    const measured = lastBefore(validation, step);
    const older = measured && measured[0] < step ? ` at step ${count(measured[0])}` : "";
    put("Validation", percent(measured?.[1] ?? NaN), older);
    put("Held-out", percent(state.heldOut?.share ?? NaN));
    put("Speed", count(now?.tokens_per_second ?? NaN), now?.tokens_per_second ? " tokens/s" : "");
    write(values.Left.label, over ? "Took" : "Left");
    put("Left", minutes((over ? now?.seconds : state.eta) ?? NaN));
  };
  return { update };
};

/* ---- curves ---- */

const chart = (host, title, note) => {
  const now = el("output");
  const small = el("small", "", note);
  const picture = el("div");
  const head = el("div", "hf-chart", el("h2", "", title, " ", small), now);
  host.append(head, picture);
  return { picture, say: text => write(now, text), note: text => write(small, text) };
};

/** Ends and gridlines of a logarithmic scale; it only ever grows, so that the frame stays still while numbers run. */
const logScale = () => {
  let [low, high] = [0.3, 3];
  const marks = range(12)
    .flatMap(i => [10 ** (i - 8), 3 * 10 ** (i - 8)])
    .map(v => Number(v.toPrecision(1)));
  return values => {
    low = marks.findLast(v => v <= Math.min(low, ...values)) ?? marks[0];
    high = marks.find(v => v >= Math.max(high, ...values)) ?? marks.at(-1);
    const inside = marks.filter(v => v >= low && v <= high);
    const every = Math.ceil(inside.length / 6);
    return { y: [low, high], ticks: inside.filter((_, i) => i % every === 0) };
  };
};

/** A mark of the logarithmic scale: 0.003, then 3e−4. */
const logMark = v => (v < 1e-3 ? v.toExponential(0).replace("-", "−") : String(v));

const [SHARE_HEIGHT, MOST_HEIGHT] = [256, 480];

const withRun = (points, extra = {}) => [{ name: "this run", points, colour: "series-1", dash: 0, ...extra }];

/** What stands beside a classifier: a level from the first step to the last. */
const besideOf = (/** @type {Board.BaselineLevel} */ baseline, /** @type {number} */ last) => {
  if (!baseline) return [];
  const points = [0, last].map(step => [step, baseline.held_out]);
  return [{ name: `${baseline.name}, held out`, points, colour: "ink-3", dash: 2 }];
};

const curves = (host, go) => {
  const panel = el("section", "hf-panel");
  const keys = el("div", "hf-keys");
  let scale = logScale();
  const lossChart = chart(panel, "Loss", "log scale");
  const lossCurve = lineChart(lossChart.picture, {
    name: "Loss by step, log scale",
    log: true,
    showX: false,
    height: 206,
    format: logMark,
    onCursor: go,
    empty: "this run will be drawn here",
  });
  const shareChart = chart(panel, "Validation accuracy", "");
  const shareCurve = lineChart(shareChart.picture, {
    name: "Validation accuracy by step",
    format: v => percent(v, 0),
    tell: percent,
    height: SHARE_HEIGHT,
    onCursor: go,
    empty: "this run will be drawn here",
  });
  const footer = el("footer", "", keys);
  panel.append(footer);
  host.append(panel);
  let run = null;
  /** @type {TrainView} */
  let view = null;
  let height = SHARE_HEIGHT;
  /** Beside a taller map the lower curve takes what is left; only a new run makes it small again. */
  const grow = () => {
    const free = footer.getBoundingClientRect().top - shareChart.picture.getBoundingClientRect().bottom - 28;
    if (free < 8 || height + free > MOST_HEIGHT) return;
    height += Math.floor(free);
    shareCurve.update({ height });
  };
  new ResizeObserver(grow).observe(panel);
  const both = kind => name => {
    lossCurve[kind](name + "-loss");
    shareCurve[kind](name + "-validation");
  };
  const lines = () => [
    ["step", "seconds", "loss", "validation"],
    ...(view?.state.points || []).map(p => [p.step, p.seconds ?? "", p.loss ?? "", p.validation ?? ""]),
  ];
  const fill = takeAway(
    { footer, section: panel },
    {
      picture: { png: both("png"), svg: both("svg") },
      file: () => fileName("run", view?.meta.task),
      lines,
      caption: () => "Loss and validation accuracy by step",
    },
  );
  const update = (/** @type {TrainView} */ next) => {
    view = next;
    const { state, meta, step, loss, smoothLoss, validation, others, total } = view;
    if (run !== state.run) {
      scale = logScale();
      height = SHARE_HEIGHT;
      run = state.run;
    }
    const cursor = loss.length ? step : null;
    const x = [0, Math.max(total || 1, ...others.map(o => o.loss.at(-1)?.[0] || 0))];
    lossCurve.update({
      x,
      cursor,
      ...scale([...loss, ...others.flatMap(o => o.loss)].map(p => p[1]).filter(v => v > 0)),
      series: [
        ...withRun(smoothLoss, { raw: loss }),
        ...others.map(o => ({ ...o, points: trainState.smooth(o.loss) })),
      ],
    });
    const beside = besideOf(meta.baseline, x[1]);
    shareCurve.update({
      x,
      cursor,
      height,
      series: [...withRun(validation), ...others.map(o => ({ ...o, points: o.curve })), ...beside],
    });
    lossChart.say(number(measuredAt(loss, step) ?? NaN, 3));
    shareChart.say(percent(measuredAt(validation, step) ?? NaN));
    shareChart.note(meta.metric || "");
    keys.replaceChildren(
      curveKey("this run, smoothed; thin: as measured", "series-1", 0),
      ...[...others, ...beside].map(o =>
        curveKey("model" in o && o.model ? `${o.name}, ${o.model}` : o.name, o.colour, o.dash),
      ),
    );
    fill();
  };
  return { update };
};

/* ---- the map as it forms ---- */

const UNTRAINED = "Untrained weights: this map means nothing yet.";
const [NEEDED, DIRECT] = ["all that is needed", "needed directly: the ring without dots"];
const AS_IT_FORMS = "Attention as it forms";
const file = (/** @type {TrainView} */ { meta, frame, layer, head }) => {
  const where = [`step-${frame?.step ?? 0}`, `layer-${meta.layers?.[layer] ?? 1}`, head ? `head-${head}` : "mean"];
  return fileName("attention", meta.task, ...where);
};

const mapPanel = (host, go, pick) => {
  const panel = buildPanel(host, AS_IT_FORMS);
  const layers = buildSegment("Layer", layer => pick({ layer }));
  const heads = buildSegment("Head", head => pick({ head }));
  const layerPicks = el("span", "hf-pick", el("span", "hf-label", "layer"), layers.element);
  const headPicks = el("span", "hf-pick", el("span", "hf-label", "head"), heads.element);
  const notice = el("p", "hf-notice");
  const mapHost = el("div");
  const map = heatmap(mapHost, { name: "Attention", maxCell: 52 });
  const knownHost = el("div", "hf-known");
  const known = chart(knownHost, el("span", "", "Weight on the ", figureName("known answer")), "mean of the rows");
  const knownCurve = lineChart(known.picture, {
    name: "Weight on the known answer by step",
    format: v => v.toFixed(1),
    height: 116,
    onCursor: go,
    empty: "nothing learned yet",
  });
  const knownKeys = el("div", "hf-keys");
  /** @type {TrainView} */
  let shown = null;
  knownHost.append(knownKeys);
  panel.header.append(el("span", "hf-picks", layerPicks, headPicks));
  panel.body.append(notice, mapHost, knownHost);
  panel.footer.append(map.exports(() => file(shown)));
  const sentence = (/** @type {TrainView} */ { state, meta, frame, map: values }) => {
    if (!state.run) return "The weights of a probe example will be drawn here, before the first step and after.";
    if (meta.heads === 0) return NO_ATTENTION;
    if (!values) return "The first map is on its way.";
    return frame.step === 0 ? UNTRAINED : "";
  };
  const update = (/** @type {TrainView} */ view) => {
    const { meta, layer, head, frame, map: values, known: points, direct, step, loss, total } = view;
    shown = view;
    const late = frame && frame.step !== step && `, step ${count(frame.step)}`;
    const note = meta.probe ? [figureName(meta.own_probe ? "your probe" : "probe", "probe"), ` ${meta.probe}`] : [];
    if (values && !meta.probe) note.push("a validation passage");
    panel.rename(meta.map_title || AS_IT_FORMS, el("span", "", ...note, late || ""));
    layerPicks.hidden = !(meta.layers?.length > 1);
    layers.update((meta.layers || []).map(String), layer);
    headPicks.hidden = !(meta.heads > 1);
    heads.update(["mean", ...range(meta.heads || 0).map(h => String(h + 1))], head);
    write(notice, sentence(view));
    notice.hidden = !notice.textContent;
    notice.classList.toggle("hf-blank", !values);
    mapHost.hidden = panel.footer.hidden = !values;
    if (values) {
      const { rows, cols, truth, allowed } = meta;
      const which = `layer ${meta.layers?.[layer] ?? 1}, ${head ? "head " + head : "mean of the heads"}`;
      const name = `${meta.map || "Attention"} of the probe, ${which}, step ${count(frame.step)}`;
      map.update({ rows, cols, values, truth, allowed, name });
    }
    knownHost.hidden = Boolean(view.state.run) && !meta.truth && !points.length;
    const near = direct.length ? [{ name: DIRECT, points: direct, colour: "series-3", dash: 2 }] : [];
    const series = [...withRun(points, { name: near.length ? NEEDED : "this run" }), ...near];
    knownCurve.update({ x: [0, total || 1], cursor: loss.length ? step : null, series });
    known.say(
      [points, direct]
        .filter(p => p.length)
        .map(p => number(measuredAt(p, step) ?? NaN, 2))
        .join(" · "),
    );
    knownKeys.hidden = !near.length;
    knownKeys.replaceChildren(...(near.length ? series : []).map(s => curveKey(s.name, s.colour, s.dash)));
  };
  return { update };
};

/* ---- through time ---- */

const timePanel = (host, go, follow) => {
  const panel = buildPanel(host, "Through time", {
    note: "moves the map, the predictions and the cursor on the curves",
  });
  const where = el("b");
  const how = el("span", "hf-quiet");
  const play = button("Play", () => start());
  const end = button("", follow);
  panel.header.append(el("span", "hf-when", where, how, play, end));
  const film = filmStrip(panel.body, { onStep: go });
  /** @type {import("./train_state.js").Frame[]} */
  let frames = [];
  let playing = null;
  const stop = () => {
    clearInterval(playing);
    playing = null;
    play.textContent = "Play";
  };
  const start = () => {
    if (playing) {
      stop();
      return;
    }
    const every = Math.max(1, Math.ceil(frames.length / 60));
    const shots = frames.filter((_, i) => i % every === 0 || i === frames.length - 1);
    let at = 0;
    const tick = () => {
      if (at < shots.length) go(shots[at++].step, 0, true);
      else stop();
    };
    play.textContent = "Pause";
    tick();
    playing = setInterval(tick, matchMedia("(prefers-reduced-motion: reduce)").matches ? 800 : 100);
  };
  const update = (/** @type {TrainView} */ { state, step, last, following, layer, head }) => {
    frames = state.frames;
    const { mapOf } = trainState;
    const strip = frames.map(f => ({ step: f.step, map: mapOf(f, layer, head) })).filter(f => f.map);
    const running = ["running", "paused"].includes(state.status);
    film.update({ frames: strip, last: state.run ? last : null, cursor: step });
    write(where, "step " + count(state.run ? step : 0));
    const atEnd = running ? "following the run" : "the last step";
    how.textContent = !state.run || last === 0 ? "untrained" : following ? atEnd : "in the past";
    play.disabled = frames.length < 2;
    end.hidden = following || !last;
    write(end, running ? "Follow the run" : "Go to the end");
  };
  return { update, stop };
};

/* ---- what it writes ---- */

const writesPanel = host => {
  const panel = buildPanel(host, "What it writes", { cls: "hf-writes" });
  const table = predictions(panel.body);
  const update = (/** @type {TrainView} */ { state, meta, frame }) => {
    const rows =
      frame?.predictions || (frame && state.frames.findLast(f => f.step <= frame.step && f.predictions)?.predictions);
    panel.rename(
      meta.predictions_name || "What it writes",
      [meta.predictions_title, "at this step"].filter(Boolean).join(", "),
    );
    table.update(
      rows,
      "Train, and a few validation examples appear here with their wrong symbols marked.",
      meta.predictions_columns,
    );
  };
  return { update };
};

const trainPanels = { figures, curves, mapPanel, timePanel, writesPanel };

export { besideOf, logMark, logScale, trainPanels };
