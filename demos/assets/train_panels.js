"use strict";
/* The panels of the Train tab, each with update(view). A view is what train_board.js worked out for the shown step:
   {state, meta, step (shown), last, following, head, frame, map, loss, smoothLoss, heldOut, known, direct, others,
   total}. */
(hfAttn => {
  const { el, number, count, percent, minutes, range, measuredAt, curveKey } = hfAttn;

  /* ---- figures: the run as it is now, whatever step is shown ---- */

  const figures = host => {
    const list = el("dl", "hf-stats");
    const values = {};
    for (const name of ["Step", "Loss", "Held-out", "Speed", "Left"]) {
      const [term, value, unit] = [el("dt", "", name), el("span"), el("small")];
      list.append(el("div", "", term, el("dd", "", value, unit)));
      values[name] = { term, value, unit };
    }
    host.append(list);
    const put = (name, text, unit = "") => {
      values[name].value.textContent = text;
      values[name].unit.textContent = unit;
    };
    const update = ({ state, last, total, loss, heldOut }) => {
      const now = state.points.at(-1);
      const over = ["finished", "stopped", "error"].includes(state.status);
      put("Step", now ? count(last) : state.run ? "0" : "–", total ? ` of ${count(total)}` : "");
      put("Loss", number(loss.at(-1)?.[1] ?? NaN, 3));
      put("Held-out", percent(heldOut.at(-1)?.[1] ?? NaN));
      put("Speed", count(now?.tokens_per_second ?? NaN), now?.tokens_per_second ? " tokens/s" : "");
      values.Left.term.textContent = over ? "Took" : "Left";
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
    return {
      head,
      picture,
      say: text => {
        now.textContent = text;
      },
      note: text => {
        small.textContent = text;
      },
    };
  };

  /** Ends and gridlines of a logarithmic scale; it only ever grows, so that the frame stays still while numbers run. */
  const logScale = () => {
    let [low, high] = [0.3, 3];
    const marks = range(12)
      .flatMap(i => [10 ** (i - 8), 3 * 10 ** (i - 8)])
      .map(v => Number(v.toPrecision(1)));
    return {
      reset: () => {
        [low, high] = [0.3, 3];
      },
      cover: values => {
        low = marks.findLast(v => v <= Math.min(low, ...values)) ?? marks[0];
        high = marks.find(v => v >= Math.max(high, ...values)) ?? marks.at(-1);
        const inside = marks.filter(v => v >= low && v <= high);
        const every = Math.ceil(inside.length / 6);
        return { y: [low, high], ticks: inside.filter((_, i) => i % every === 0) };
      },
    };
  };

  /** A mark of the logarithmic scale: 0.003, then 3e−4. */
  const logMark = v => (v < 1e-3 ? v.toExponential(0).replace("-", "−") : String(v));

  const withRun = (points, extra = {}) => [{ name: "this run", points, colour: "series-1", dash: 0, ...extra }];

  /** What stands beside a classifier: a level from the first step to the last. */
  const besideOf = (baseline, last) => {
    if (!baseline) return [];
    const points = [0, last].map(step => [step, baseline.held_out]);
    return [{ name: baseline.name, points, colour: "ink-3", dash: 2 }];
  };

  const curves = (host, go) => {
    const panel = el("section", "hf-panel");
    const keys = el("div", "hf-keys");
    const scale = logScale();
    const lossChart = chart(panel, "Loss", "log scale");
    const lossCurve = hfAttn.curve(lossChart.picture, {
      name: "Loss by step, log scale",
      log: true,
      showX: false,
      height: 206,
      y: [0.3, 3],
      ticks: [0.3, 1, 3],
      format: logMark,
      x: [0, 1],
      onCursor: go,
      empty: "this run will be drawn here",
    });
    const heldChart = chart(panel, "Held-out accuracy", "");
    const heldCurve = hfAttn.curve(heldChart.picture, {
      name: "Held-out accuracy by step",
      y: [0, 1],
      ticks: [0, 0.5, 1],
      x: [0, 1],
      format: v => percent(v, 0),
      tell: percent,
      height: 256,
      onCursor: go,
      empty: "this run will be drawn here",
    });
    panel.append(el("footer", "", keys));
    host.append(panel);
    let run = null;
    const update = ({ state, meta, step, loss, smoothLoss, heldOut, others, total }) => {
      if (run !== state.run) {
        scale.reset();
        run = state.run;
      }
      const cursor = loss.length ? step : null;
      const x = [0, Math.max(total || 1, ...others.map(o => o.points.at(-1)?.[0] || 0))];
      lossCurve.update({
        x,
        cursor,
        ...scale.cover(loss.map(p => p[1]).filter(v => v > 0)),
        series: withRun(smoothLoss, { raw: loss }),
      });
      const beside = besideOf(meta.baseline, x[1]);
      heldCurve.update({ x, cursor, series: [...withRun(heldOut), ...others, ...beside] });
      lossChart.say(number(measuredAt(loss, step) ?? NaN, 3));
      heldChart.say(percent(measuredAt(heldOut, step) ?? NaN));
      heldChart.note(meta.metric || "");
      keys.replaceChildren(
        curveKey("this run, smoothed; thin: as measured", "series-1", 0),
        ...[...others, ...beside].map(o => curveKey(o.name, o.colour, o.dash)),
      );
    };
    return { update };
  };

  /* ---- the map as it forms ---- */

  const UNTRAINED = "Untrained weights: this map means nothing yet.";
  const [NEEDED, DIRECT] = ["all that is needed", "needed directly: the ring without dots"];
  const AS_IT_FORMS = "Attention as it forms";
  const file = ({ meta, frame, head }) =>
    ["attention", meta.task, `step-${frame?.step ?? 0}`, head ? `head-${head}` : "mean"]
      .filter(Boolean)
      .join("-")
      .replace(/[^\w-]+/g, "-");

  const mapPanel = (host, go, pickHead) => {
    const panel = hfAttn.panel(AS_IT_FORMS);
    const heads = hfAttn.segment("Head", pickHead);
    const notice = el("p", "hf-notice");
    const mapHost = el("div");
    const map = hfAttn.heatmap(mapHost, { name: "Attention", rows: [], cols: [], values: [], maxCell: 52 });
    const knownHost = el("div", "hf-known");
    const known = chart(knownHost, "Weight on the known answer", "mean of the rows");
    const knownCurve = hfAttn.curve(known.picture, {
      name: "Weight on the known answer by step",
      y: [0, 1],
      ticks: [0, 0.5, 1],
      x: [0, 1],
      format: v => v.toFixed(1),
      height: 116,
      onCursor: go,
      empty: "nothing learned yet",
    });
    const knownKeys = el("div", "hf-keys");
    let shown = null;
    knownHost.append(knownKeys);
    panel.header.append(heads.element);
    panel.body.append(notice, mapHost, knownHost);
    panel.footer.append(map.exports(() => file(shown)));
    host.append(panel.section);
    const sentence = ({ state, meta, frame, map: values }) => {
      if (!state.run) return "The weights of a probe example will be drawn here, before the first step and after.";
      if (meta.heads === 0) return hfAttn.NO_ATTENTION;
      if (!values) return "The first map is on its way.";
      return frame.step === 0 ? UNTRAINED : "";
    };
    const update = view => {
      const { meta, head, frame, map: values, known: points, direct, step, loss, total } = view;
      shown = view;
      const probe = meta.probe ? `probe ${meta.probe}` : values && "a held-out passage";
      const late = frame && frame.step !== step && `step ${count(frame.step)}`;
      panel.rename(meta.map_title || AS_IT_FORMS, [probe, values && meta.layer, late].filter(Boolean).join(", "));
      heads.element.hidden = !(meta.heads > 1);
      heads.update(["mean", ...range(meta.heads || 0).map(h => String(h + 1))], head);
      notice.textContent = sentence(view);
      notice.hidden = !notice.textContent;
      notice.classList.toggle("hf-blank", !values);
      mapHost.hidden = panel.footer.hidden = !values;
      if (values)
        map.update({
          rows: meta.rows,
          cols: meta.cols,
          values,
          truth: meta.truth || null,
          allowed: meta.allowed || null,
          name: `${meta.map || "Attention"} of the probe, ${head ? "head " + head : "mean of the heads"}, step ${count(frame.step)}`,
        });
      knownHost.hidden = Boolean(view.state.run) && !meta.truth && !points.length;
      const near = direct.length ? [{ name: DIRECT, points: direct, colour: "series-3", dash: 2 }] : [];
      const series = [...withRun(points, { name: near.length ? NEEDED : "this run" }), ...near];
      knownCurve.update({ x: [0, total || 1], cursor: loss.length ? step : null, series });
      known.say([points, direct].filter(p => p.length).map(p => number(measuredAt(p, step) ?? NaN, 2)).join(" · "));
      knownKeys.hidden = !near.length;
      knownKeys.replaceChildren(...(near.length ? series : []).map(s => curveKey(s.name, s.colour, s.dash)));
    };
    return { update };
  };

  /* ---- through time ---- */

  const timePanel = (host, go, follow) => {
    const panel = hfAttn.panel("Through time", "moves the map, the predictions and the cursor on the curves");
    const where = el("b");
    const how = el("span", "hf-quiet");
    const play = hfAttn.button("Play", () => start());
    const end = hfAttn.button("", follow);
    panel.header.append(el("span", "hf-when", where, how, play, end));
    const film = hfAttn.film(panel.body, { onStep: go });
    host.append(panel.section);
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
    const update = ({ state, step, last, following, head }) => {
      frames = state.frames;
      const strip = frames.map(f => ({ step: f.step, map: hfAttn.trainState.mapOf(f, head) })).filter(f => f.map);
      const running = ["running", "paused"].includes(state.status);
      film.update({ frames: strip, last: state.run ? last : null, cursor: step });
      where.textContent = "step " + count(state.run ? step : 0);
      how.textContent =
        !state.run || last === 0
          ? "untrained"
          : !following
            ? "in the past"
            : running
              ? "following the run"
              : "the last step";
      play.disabled = frames.length < 2;
      end.hidden = following || !last;
      end.textContent = running ? "Follow the run" : "Go to the end";
    };
    return { update, stop };
  };

  /* ---- what it writes ---- */

  const writesPanel = host => {
    const panel = hfAttn.panel("What it writes");
    const table = hfAttn.predictions(panel.body);
    panel.section.classList.add("hf-writes");
    host.append(panel.section);
    const update = ({ state, meta, frame }) => {
      const rows =
        frame?.predictions || (frame && state.frames.findLast(f => f.step <= frame.step && f.predictions)?.predictions);
      panel.rename(
        meta.predictions_name || "What it writes",
        [meta.predictions_title, "at this step"].filter(Boolean).join(", "),
      );
      table.update(
        rows,
        "Train, and a few held-out examples appear here with their wrong symbols marked.",
        meta.predictions_columns,
      );
    };
    return { update };
  };

  Object.assign(hfAttn, { logScale, logMark, besideOf, trainPanels: { figures, curves, mapPanel, timePanel, writesPanel } });
})((window.hfAttn ||= {}));
