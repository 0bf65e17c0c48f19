"use strict";
/* The table of runs. A click on a row lays its curve, dashed, over the held-out curve of the train board.
   While there are runs, leaving the page asks first: they are kept only as long as it is open.
   Row actions go to Python as the events open_run, keep_run, download_run and delete_run with {run: id};
   Delete asks nothing, offers Undo for ten seconds, and only then tells Python. */
(hfAttn => {
  const { el, percent } = hfAttn;
  const UNDO_MS = 10000;
  const OTHERS = 3; // at most four series at once: this run and three others

  hfAttn.runs_table = (element, trigger) => {
    const root = element.querySelector(".hf-runs");
    const panel = hfAttn.panel("Runs", "click one to lay it over the curves");
    const head = el(
      "tr",
      "",
      el("th", "", "line"),
      el("th", "", "run"),
      el("th", "", "held-out"),
      el("th"),
      el("th", "", el("span", "hf-sr", "actions")),
    );
    const body = el("tbody");
    panel.body.append(el("table", "hf-runs-table", el("thead", "", head), body));
    root.append(panel.section);
    let value = { runs: [], current: null };
    const laid = new Set();
    const leaving = new Map();

    const styleOf = id => {
      // a series keeps its colour and dash while it is laid over
      const place = [...laid].indexOf(id);
      return place < 0 ? null : { colour: `series-${place + 2}`, dash: place + 1 };
    };
    const announce = () => {
      const chosen = [...laid].map(id => value.runs.find(r => r.id === id)).filter(Boolean);
      const named = r => [r.name, r.model].filter(Boolean).join(", ");
      hfAttn.overlays = chosen.map(r => ({ id: r.id, name: named(r), points: r.curve || [], ...styleOf(r.id) }));
      document.dispatchEvent(new CustomEvent("hf-overlays"));
    };
    const lay = id => {
      if (!laid.delete(id)) {
        if (laid.size === OTHERS) laid.delete([...laid][0]);
        laid.add(id);
      }
      draw();
      announce();
    };
    const remove = id => {
      leaving.set(
        id,
        setTimeout(() => {
          leaving.delete(id);
          trigger("delete_run", { run: id });
        }, UNDO_MS),
      );
      if (laid.delete(id)) announce();
      draw();
    };
    const undo = id => {
      clearTimeout(leaving.get(id));
      leaving.delete(id);
      draw();
    };

    const actions = (run, line) => {
      const act = (text, what) => {
        const b = hfAttn.button(text, what, "");
        b.setAttribute("aria-label", `${text} ${run.name}`);
        return b;
      };
      const send = event => () => trigger(event, { run: run.id });
      const take =
        run.kept === false
          ? [act("Keep", send("keep_run"))]
          : [act("Open", send("open_run")), act("Download", send("download_run"))];
      const more = hfAttn.button(
        "···",
        () => {
          line.classList.toggle("open");
          more.setAttribute("aria-expanded", String(line.classList.contains("open")));
        },
        "hf-dots",
      );
      more.setAttribute("aria-label", `Open, download or delete ${run.name}`);
      more.setAttribute("aria-expanded", "false");
      return el(
        "td",
        "acts",
        more,
        el(
          "div",
          "hf-take",
          ...take,
          act("Delete", () => remove(run.id)),
        ),
      );
    };
    const goneRow = run => {
      const cell = el(
        "td",
        "",
        `${run.name} deleted `,
        hfAttn.button("Undo", () => undo(run.id)),
      );
      cell.colSpan = 5;
      return el("tr", "gone", cell);
    };
    const row = run => {
      if (leaving.has(run.id)) return goneRow(run);
      const own = run.id === value.current;
      const style = own ? { colour: "series-1", dash: 0 } : styleOf(run.id);
      const line = el("tr", own ? "on" : "");
      const press = hfAttn.button("", () => lay(run.id), "hf-line");
      const stroke = hfAttn.dashLine(style?.dash ?? 0);
      const spark = el("div", "hf-spark");
      stroke.style.color = `var(--hf-${style?.colour ?? "line-strong"})`;
      press.append(stroke);
      press.disabled = own;
      press.setAttribute("aria-pressed", String(Boolean(style)));
      press.setAttribute("aria-label", own ? `${run.name} is on the curves` : `Lay ${run.name} over the curves`);
      if (!own)
        line.onclick = event => {
          if (!event.target.closest("button")) lay(run.id);
        };
      line.append(
        el("td", "", press),
        el(
          "td",
          "",
          el("b", "", run.name),
          el("small", "", run.model || ""),
          el("small", "", run.details || ""),
        ),
        el("td", "", spark),
        el("td", "num", percent(run.held_out ?? NaN)),
        actions(run, line),
      );
      hfAttn.sparkline(spark, {
        points: (run.curve || []).filter(p => Number.isFinite(p[1])),
        colour: style?.colour ?? "ink-3",
        dash: style?.dash ?? 0,
      });
      return line;
    };
    const empty = () => {
      const cell = el("td", "hf-quiet", "Each run you train is listed here, to compare, open, download or delete.");
      cell.colSpan = 5;
      return el("tr", "", cell);
    };
    const draw = () => body.replaceChildren(...(value.runs.length ? value.runs.map(row) : [empty()]));
    addEventListener("beforeunload", event => {
      if (value.runs.length && root.isConnected) event.preventDefault();
    });
    const update = next => {
      value = { runs: next?.runs || [], current: next?.current ?? null };
      for (const id of [...laid]) if (id === value.current || !value.runs.some(r => r.id === id)) laid.delete(id);
      draw();
      announce();
    };
    return { update };
  };
})((window.hfAttn ||= {}));
