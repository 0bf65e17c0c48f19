/* The panels of the Train tab, each with update(view). A view is what train_board.js worked out for the shown step:
   {state, meta, step (shown), last, following, layer, head, frame, map, loss, smoothLoss, validation, known, direct,
   others, total, away}. */
import { buildPanel, button, el, write } from "../../../hf_attn/viz/web/core/dom.js";
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
import { headGrid } from "../../../hf_attn/viz/web/plots/head_grid.js";
import { heatmap } from "../../../hf_attn/viz/web/plots/heatmap.js";
import { curveKey, lastBefore, lineChart, measuredAt } from "../../../hf_attn/viz/web/plots/line_chart.js";
import { predictions, symbolStrip } from "../../../hf_attn/viz/web/plots/token_strip.js";
import { trainState } from "./train_state.js";
import { trainStory } from "./train_story.js";

const { isNeeded, isOver, partName, question, share, tellRun } = trainStory;

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

/* ---- the sentence, and at the end of a run the question ---- */

/** @typedef {{go: (event: string) => void, takeAway: (on: boolean) => void}} StoryActs */
const storyPanel = (host, /** @type {StoryActs} */ { go, takeAway: turn }) => {
  const sentence = el("h1", "hf-headline");
  sentence.setAttribute("aria-live", "polite");
  const asked = el("span");
  const away = button("", () => turn(true), "hf-btn primary");
  const back = button("Put it back", () => turn(false));
  const keep = button("Keep", () => go("download_run"));
  keep.title = "Download it as a checkpoint that transformers loads";
  const publish = button("Share", () => go("share_run"));
  publish.title = "Push it to the Hub, with a card";
  const explore = button("", () => go("explore_run"));
  explore.setAttribute("aria-label", "Open in Explore");
  explore.append(el("span", "", "Open in "), "Explore");
  const leave = el("span", "hf-leave", keep, publish, explore);
  const row = el("div", "hf-asked", asked, away, back, leave);
  host.append(el("div", "hf-say", sentence, row));
  let had = "";
  const tell = (/** @type {TrainView} */ view) => {
    const parts = tellRun(view);
    const text = JSON.stringify(parts);
    if (text === had) return;
    had = text;
    sentence.replaceChildren(
      ...parts.map(part => (typeof part === "string" ? part : el(/** @type {"b"} */ (part[0]), "", part[1]))),
    );
  };
  const lost = (/** @type {Board.NeededPart} */ { whole, left, interval, examples }, unit) => [
    `${share(whole)} right → `,
    el("b", isNeeded({ whole, left, examples }) ? "bad" : "", share(left)),
    el("small", "", ` ${share(interval[0])} to ${share(interval[1])} of ${count(examples)} unseen ${unit}`),
  ];
  const update = (/** @type {TrainView} */ view) => {
    const { state, meta, following, last } = view;
    tell(view);
    const over = isOver(state.status) && following && last > 0;
    const needed = over ? meta.needed : null;
    const focused = row.contains(document.activeElement);
    row.classList.toggle("none", !over);
    leave.hidden = !over;
    away.hidden = !needed || view.away;
    back.hidden = !needed || !view.away;
    asked.hidden = !needed;
    explore.classList.toggle("primary", Boolean(needed && view.away));
    if (needed) {
      asked.replaceChildren(
        ...(view.away ? lost(needed, meta.kind_of_task === "text" ? "symbols" : "inputs") : [question(view)]),
      );
      write(away, `Take ${partName(needed)} away`);
      if (focused && document.activeElement === document.body) (view.away ? back : away).focus();
    }
  };
  return { update };
};

/* ---- figures: of the step that is shown; speed and time are the run's ---- */

const figures = host => {
  const list = el("dl", "hf-stats hf-panel");
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

const HEIGHT = 186;

const withRun = (points, extra = {}) => [{ name: "this run", points, colour: "series-1", dash: 0, ...extra }];

/** What stands beside a classifier: a level from the first step to the last. */
const besideOf = (/** @type {Board.BaselineLevel} */ baseline, /** @type {number} */ last) => {
  if (!baseline) return [];
  const points = [0, last].map(step => [step, baseline.held_out]);
  return [{ name: `${baseline.name}, held out`, points, colour: "ink-3", dash: 2 }];
};

/** Longer inputs than any learned, where they are watched. */
const beyondOf = (/** @type {TrainView} */ { beyond, meta }) =>
  beyond.length
    ? [{ name: `${count(meta.beyond.watched)} ${meta.beyond.unit}`, points: beyond, colour: "series-2", dash: 1 }]
    : [];

const curves = (host, go) => {
  const panel = el("section", "hf-panel hf-progress");
  const keys = el("div", "hf-keys");
  let scale = logScale();
  const shareChart = chart(panel, "Right answers, %", "");
  const shareCurve = lineChart(shareChart.picture, {
    name: "Validation accuracy by step",
    format: v => String(Math.round(100 * v)),
    tell: percent,
    height: HEIGHT,
    onCursor: go,
    empty: "this run will be drawn here",
  });
  const lossChart = chart(panel, "Loss", "log scale");
  const lossCurve = lineChart(lossChart.picture, {
    name: "Loss by step, log scale",
    log: true,
    height: HEIGHT,
    format: logMark,
    onCursor: go,
    empty: "its loss will be drawn here",
  });
  const footer = el("footer", "", keys);
  panel.append(footer);
  host.append(panel);
  let run = null;
  /** @type {TrainView} */
  let view = null;
  const both = kind => name => {
    lossCurve[kind](name + "-loss");
    shareCurve[kind](name + "-validation");
  };
  const lines = () => [
    ["step", "seconds", "loss", "validation", ...(view?.beyond.length ? ["longer inputs"] : [])],
    ...(view?.state.points || []).map(p =>
      [p.step, p.seconds ?? "", p.loss ?? "", p.validation ?? ""].concat(view.beyond.length ? [p.beyond ?? ""] : []),
    ),
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
    const [beside, longer] = [besideOf(meta.baseline, x[1]), beyondOf(next)];
    shareCurve.update({
      x,
      cursor,
      series: [...withRun(validation), ...longer, ...others.map(o => ({ ...o, points: o.curve })), ...beside],
    });
    lossChart.say(number(measuredAt(loss, step) ?? NaN, 3));
    shareChart.say(share(measuredAt(validation, step) ?? NaN));
    const unseen = meta.kind_of_task === "text" ? "unseen text" : "unseen inputs";
    shareChart.note([meta.metric, unseen].filter(Boolean).join(", "));
    const laid = [...longer, ...others, ...beside];
    keys.hidden = !laid.length; // alone it needs no name
    keys.replaceChildren(
      curveKey("this run", "series-1", 0),
      ...laid.map(o => curveKey("model" in o && o.model ? `${o.name}, ${o.model}` : o.name, o.colour, o.dash)),
    );
    fill();
  };
  return { update };
};

/* ---- what it writes, and where it looks ---- */

const SHOWN = 3; // answers beside the map; all stand in the table below

/** How many symbols of an answer are right, in words. */
const verdictOf = (/** @type {Board.ExampleAnswer} */ { right, written, wrong, symbols, answer }) => {
  if (right === null || right === undefined) return "";
  if (right) return "right";
  if (!written) return answer ? `is ${answer}` : "wrong";
  const all = symbols ?? written.length;
  return `${written.filter((_, i) => i < all && !wrong?.[i]).length} of ${all}`;
};

const answerRow = (/** @type {Board.ExampleAnswer} */ example) => {
  const { source, label, text, written, wrong, right } = example;
  if (text !== undefined)
    return el("li", "text", el("span", "hf-src", source), el("span", "hf-out", text || "nothing yet"));
  const symbols = label === undefined ? symbolStrip(written, wrong) : symbolStrip([label], [right === false], String);
  const line = el(
    "li",
    label === undefined ? "" : "class",
    el("bdi", "hf-src", source),
    el("span", "hf-out", symbols),
    el("span", right ? "all" : "", verdictOf(example)),
  );
  line.title = source;
  return line;
};

const nowPanel = (host, pick) => {
  const card = el("div", "hf-now");
  host.append(card);
  const writes = buildPanel(card, "What it writes", { cls: "hf-answers" });
  const list = el("ol");
  writes.body.append(list);
  const looks = buildPanel(card, "Where it looks", { cls: "hf-looks" });
  const [mapHost, side, gridHost] = [el("div"), el("div", "hf-which"), el("div")];
  const map = heatmap(mapHost, { name: "Attention", maxCell: 32 });
  const grid = headGrid(gridHost, { onPick: (layer, h) => pick({ layer, head: h + 1 }) });
  const meanOf = button("mean", () => pick({ head: 0 }), "hf-mean");
  side.append(gridHost, meanOf);
  const notice = el("p", "hf-notice");
  looks.body.append(notice, el("div", "hf-mapline", mapHost, side));
  looks.footer.append(map.exports(() => file(shown)));
  /** @type {TrainView} */
  let shown = null;
  let had = "";
  const sentence = (/** @type {TrainView} */ { state, meta, map: values }) =>
    !state.run
      ? "The map of an example is drawn here."
      : meta.heads === 0
        ? NO_ATTENTION
        : values
          ? ""
          : "The first map is on its way.";
  const showAnswers = (/** @type {TrainView} */ { state, meta, frame, away }) => {
    const past =
      frame?.predictions || state.frames.findLast(f => f.step <= (frame?.step ?? 0) && f.predictions)?.predictions;
    const rows = (away && meta.needed.predictions) || past || [];
    const few = rows.slice(0, SHOWN);
    const what = meta.kind_of_task === "text" ? meta.predictions_title : "inputs it never trains on";
    writes.rename(
      away && meta.needed.predictions ? "What it writes now" : meta.predictions_name || "What it writes",
      what,
    );
    const key = JSON.stringify(few);
    if (key !== had) list.replaceChildren(...few.map(answerRow));
    had = key;
  };
  /** A removed head holds no weights: its cells are hatched. */
  const hatched = (values, isAway) => (isAway ? values.map(row => row.map(() => false)) : null);
  const showMap = (/** @type {TrainView} */ view) => {
    const { meta, layer, head, frame, map: values, step, away } = view;
    const { rows, cols, truth, allowed } = meta;
    const number = meta.layers?.[layer] ?? 1;
    const layerName = meta.layers?.length > 1 ? `layer ${number}, ` : "";
    const which = head
      ? `head ${number}·${head}`
      : `${layerName}mean of ${meta.heads} head${meta.heads > 1 ? "s" : ""}`;
    const at = away ? "taken away" : `step ${count(frame.step)}`;
    const beside = away || !view.following ? `${which}, ${at}` : which;
    const isNew = frame.step === 0;
    const told = isNew && !head && !layerName && !away ? "mean" : beside; // beside the mark there is no room for more
    looks.rename("Where it looks", el("span", "", told, isNew ? el("span", "hf-tag", "untrained") : null));
    const gone = away && (meta.needed.head === 0 || meta.needed.head === head) && meta.needed.layer === number;
    const name = `${meta.map || "Attention"}, ${which}, ${gone ? "taken away" : at}`;
    map.update({ rows, cols, values, truth: gone ? null : truth, allowed: hatched(values, gone) ?? allowed, name });
    trainState.openAll(frame, meta.layers.length);
    grid.update({
      maps: frame.opened,
      layer,
      head: Math.max(0, head - 1),
      wholeRow: !head,
      layers: meta.layers.map(l => l - 1),
    });
    meanOf.setAttribute("aria-pressed", String(!head));
    side.hidden = meta.layers.length * meta.heads < 2;
    side.style.setProperty("--of", String(Math.min(meta.heads, 4)));
    looks.section.title = frame.step === step ? "" : `drawn at step ${count(frame.step)}`;
  };
  const update = (/** @type {TrainView} */ view) => {
    shown = view;
    const { map: values, meta } = view;
    showAnswers(view);
    write(notice, sentence(view));
    notice.hidden = Boolean(values);
    notice.classList.toggle("hf-blank", !values);
    if (!values) looks.rename("Where it looks");
    mapHost.parentElement.hidden = looks.footer.hidden = !values;
    // beside the map there is room for two heads
    mapHost.parentElement.classList.toggle("below", (meta.cols?.length ?? 0) + Math.min(meta.heads, 4) > 9);
    if (values) showMap(view);
  };
  return { update };
};

/* ---- the weight on the known answer ---- */

const [NEEDED, DIRECT] = ["all that is needed", "needed directly: the ring without dots"];
const file = (/** @type {TrainView} */ { meta, frame, layer, head }) => {
  const where = [`step-${frame?.step ?? 0}`, `layer-${meta.layers?.[layer] ?? 1}`, head ? `head-${head}` : "mean"];
  return fileName("attention", meta.task, ...where);
};

const knownPanel = (host, go) => {
  const panel = buildPanel(host, "", { cls: "hf-known" });
  panel.header.hidden = true;
  const known = chart(panel.body, el("span", "", "Weight on the ", figureName("known answer")), "mean of the rows");
  const knownCurve = lineChart(known.picture, {
    name: "Weight on the known answer by step",
    format: v => v.toFixed(1),
    height: 116,
    onCursor: go,
    empty: "nothing learned yet",
  });
  const keys = el("div", "hf-keys");
  panel.body.append(keys);
  const update = (/** @type {TrainView} */ { known: points, direct, step, loss, total, meta }) => {
    panel.section.hidden = !meta.truth && !points.length;
    const near = direct.length ? [{ name: DIRECT, points: direct, colour: "series-3", dash: 2 }] : [];
    const series = [...withRun(points, { name: near.length ? NEEDED : "this run" }), ...near];
    knownCurve.update({ x: [0, total || 1], cursor: loss.length ? step : null, series });
    const now = [points, direct].filter(p => p.length).map(p => number(measuredAt(p, step) ?? NaN, 2));
    known.say(now.join(" · "));
    keys.hidden = !near.length;
    keys.replaceChildren(...(near.length ? series : []).map(s => curveKey(s.name, s.colour, s.dash)));
  };
  return { update };
};

/* ---- through time ---- */

const timePanel = (host, go, follow) => {
  const panel = buildPanel(host, "", { cls: "hf-time" });
  panel.header.hidden = true;
  const where = el("b");
  const how = el("small");
  const play = button("Play", () => start());
  const end = button("", follow, "");
  const strip = el("div");
  panel.body.append(el("div", "hf-when", play, el("span", "", where, how), end), strip);
  const film = filmStrip(strip, { onStep: go });
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
    write(how, !state.run || last === 0 ? "untrained" : following ? atEnd : "in the past");
    play.disabled = frames.length < 2;
    end.hidden = following || !last;
    write(end, running ? "Follow the run" : "Go to the end");
  };
  return { update, stop };
};

/* ---- what it writes ---- */

const writesPanel = host => {
  const panel = buildPanel(host, "More answers", { cls: "hf-writes" });
  const table = predictions(panel.body);
  const update = (/** @type {TrainView} */ { state, meta, frame }) => {
    const rows =
      frame?.predictions || (frame && state.frames.findLast(f => f.step <= frame.step && f.predictions)?.predictions);
    panel.rename(
      meta.kind_of_task === "text" ? meta.predictions_name : "More answers",
      [meta.predictions_title, "at this step"].filter(Boolean).join(", "),
    );
    table.update(
      rows,
      "A few validation examples appear here with their wrong symbols marked.",
      meta.predictions_columns,
    );
  };
  return { update };
};

const trainPanels = { storyPanel, figures, curves, nowPanel, knownPanel, timePanel, writesPanel };

export { besideOf, logMark, logScale, trainPanels };
