/* The table of runs. A click on a row lays its curves, dashed, over those of the train board and compares it there.
   Events to Python, each with {run: id}: open_run, download_run, share_run; rename_run with {name}; delete_run, which asks
   nothing, offers Undo for ten seconds and only then is sent; compare_runs with {runs: [ids]}, those laid over.
   On the document it tells "hf-overlays" with {current: row, others: [row with colour and dash]}. */
import { buildPanel, button, el, live, save, sentAt, svgShape } from "../../../hf_attn/viz/web/core/dom.js";
import { csv, percent } from "../../../hf_attn/viz/web/core/format.js";
import { buildTable, emptyRow } from "../../../hf_attn/viz/web/core/table.js";
import { dashLine, seriesStyle, sparkline } from "../../../hf_attn/viz/web/plots/line_chart.js";

const UNDO_MS = 10000;
const OTHERS = 3; // at most four series at once: this run and three others
const LONGEST_NAME = 40; // characters; Python says so in words
const COLUMNS = 5;
const EMPTY_TABLE = "Each run you train is listed here, to compare, open, download or delete.";
/** @typedef {Board.RunRow & {colour: string, dash: number}} Overlaid */

/** @type {{runs: Overlaid[]}} */
const overlaid = { runs: [] }; // those laid over the curves, with colour and dash

/** What is in each row's buttons, named so that the reader finds the same one after the rows are drawn anew. */
const act = (text, /** @type {Board.RunRow} */ run, what, look = {}) => {
  const { key = text, cls = "", label = `${text} ${run.name}` } = look;
  const b = button(text, what, cls);
  b.setAttribute("aria-label", label);
  b.dataset.key = `${key} ${run.id}`;
  return b;
};

const PEN = "M3 13l.8-3.2 7-7 2.4 2.4-7 7L3 13zM9.6 4l2.4 2.4";
const pen = () => {
  const shape = { d: PEN, fill: "none", stroke: "currentColor", "stroke-width": 1.25 };
  return svgShape({ width: 16, height: 16, viewBox: "0 0 16 16" }, "path", shape);
};

/** One line a run: its settings, then what came of it; the names of all that any of them has come first. */
const listAll = (/** @type {Board.RunRow[]} */ runs) => {
  const facts = (/** @type {Board.RunRow} */ run) => [...(run.settings || []), ...(run.results || [])];
  const names = [...new Set(runs.flatMap(run => facts(run).map(([name]) => name)))];
  const line = (/** @type {Board.RunRow} */ run) => names.map(name => new Map(facts(run)).get(name) ?? "");
  return [["Run", ...names], ...runs.map(run => [run.name, ...line(run)])].map(cells =>
    cells.map(text => text.replace(/\u202f/g, "")),
  );
};

/** The cell that holds a run's name; while it is changed, a field with the sentence of a name that will not do. */
const nameCell = (/** @type {Board.RunRow} */ run, /** @type {Board.RefusedName} */ edit, rename) => {
  const { begin, commit, cancel } = rename;
  const details = [el("small", "", run.model || ""), el("small", "", run.details || "")];
  if (!edit) {
    const change = act("", run, begin, { key: "rename", cls: "hf-pen", label: `Rename ${run.name}` });
    change.title = "Rename";
    change.append(pen());
    return el("td", "", el("b", "", el("bdi", "", run.name), change), ...details);
  }
  const field = Object.assign(el("input", "hf-rename"), { type: "text", value: edit.name });
  field.dataset.key = `rename ${run.id}`;
  field.setAttribute("aria-label", `New name of ${run.name}`);
  field.setAttribute("aria-invalid", String(Boolean(edit.why)));
  field.maxLength = 20 * LONGEST_NAME; // what is too long is refused in words, not cut
  field.oninput = () => {
    edit.name = field.value;
  };
  field.onkeydown = event => {
    if (event.key !== "Enter" && event.key !== "Escape") return;
    event.preventDefault(); // else the same press would be the next one's, where the reader is then
    if (event.key === "Enter") commit(field.value);
    else cancel();
  };
  const said = el("small", "no", edit.why || "");
  said.setAttribute("role", "alert");
  const does = [button("Keep name", () => commit(field.value), ""), button("Cancel", cancel, "")];
  return Object.assign(el("td", "", field, said, el("div", "hf-take", ...does)), { colSpan: COLUMNS - 1 });
};

/** The share of held-out examples right; of validation ones while it learns. */
const reached = (/** @type {{validation: number | null, held_out: Board.HeldOutScore | null}} */ run) =>
  run.held_out
    ? [percent(run.held_out.share)]
    : [percent(run.validation ?? NaN), el("small", "", run.validation === null ? "" : " validation")];

const runs_table = (element, trigger) => {
  const root = element.querySelector(".hf-runs");
  const panel = buildPanel(root, "Runs", { note: "click one to lay it over the curves and compare it" });
  const body = el("tbody");
  const spoken = live();
  const take = button("Export all", () => save("runs.csv", new Blob([csv(listAll(value.runs))], { type: "text/csv" })));
  panel.header.append(take);
  const heads = ["line", "run", "held-out", "", el("span", "hf-sr", "actions")];
  panel.body.append(buildTable("hf-runs-table", heads, body), spoken.element);
  /** @type {Board.RunsValue} */
  let value = { runs: [], current: null };
  /** @type {Board.RefusedName} */
  let edit = null; // the run whose name is being changed: {run, name, why}
  let compared = "";
  const laid = new Set();
  const leaving = new Map();

  const styleOf = id => {
    // a series keeps its colour and dash while it is laid over
    const place = [...laid].indexOf(id);
    return place < 0 ? null : seriesStyle(place + 1);
  };
  const announce = () => {
    const find = id => value.runs.find(r => r.id === id);
    const others = [...laid].map(find).filter(Boolean);
    const detail = { current: find(value.current), others: others.map(r => ({ ...r, ...styleOf(r.id) })) };
    overlaid.runs = detail.others;
    document.dispatchEvent(new CustomEvent("hf-overlays", { detail }));
    const asked = others.map(r => `${r.id} ${r.details}`).join();
    if (asked !== compared) trigger("compare_runs", { runs: others.map(r => r.id), sent_at: sentAt() });
    compared = asked;
  };
  const lay = id => {
    if (!laid.delete(id)) {
      if (laid.size === OTHERS) laid.delete([...laid][0]);
      laid.add(id);
    }
    draw();
    announce();
  };
  const remove = (/** @type {Board.RunRow} */ run) => {
    const send = () => {
      leaving.delete(run.id);
      trigger("delete_run", { run: run.id });
    };
    leaving.set(run.id, setTimeout(send, UNDO_MS));
    if (laid.delete(run.id)) announce();
    draw(`undo ${run.id}`);
    spoken.say(`${run.name} deleted, Undo is there for ten seconds`);
  };
  const undo = (/** @type {Board.RunRow} */ run) => {
    clearTimeout(leaving.get(run.id));
    leaving.delete(run.id);
    draw(`Delete ${run.id}`);
    spoken.say(`${run.name} is back`);
  };
  const rename = (/** @type {Board.RunRow} */ run) => {
    const turn = to => {
      edit = to;
      draw(`rename ${run.id}`);
    };
    const commit = name => {
      if (name !== run.name) trigger("rename_run", { run: run.id, name });
      turn(null);
    };
    return { begin: () => turn({ run: run.id, name: run.name, why: "" }), commit, cancel: () => turn(null) };
  };

  const actions = (/** @type {Board.RunRow} */ run, line) => {
    const send = event => () => trigger(event, { run: run.id });
    const open = () => {
      send("open_run")();
      document.getElementById("train-board")?.scrollIntoView(); // what was opened, also where it was there already
      spoken.say(`${run.name} is shown`);
    };
    const does = [
      act("Open", run, open),
      act("Download", run, send("download_run")),
      act("Share", run, send("share_run")),
      act("Delete", run, () => remove(run)),
    ];
    const unfold = () => more.setAttribute("aria-expanded", String(line.classList.toggle("open")));
    const label = `Open, download, share or delete ${run.name}`;
    const more = act("···", run, unfold, { cls: "hf-dots", label });
    more.setAttribute("aria-expanded", "false");
    return el("td", "acts", more, el("div", "hf-take", ...does));
  };
  const goneRow = (/** @type {Board.RunRow} */ run) => {
    const back = act("Undo", run, () => undo(run), { key: "undo", cls: "hf-btn" });
    const cell = el("td", "", el("bdi", "", run.name), " deleted ", back);
    cell.colSpan = COLUMNS;
    return el("tr", "gone", cell);
  };
  const lineCell = (/** @type {Board.RunRow} */ run, own, style) => {
    const label = own ? `${run.name} is on the curves` : `Lay ${run.name} over the curves`;
    const press = act("", run, () => lay(run.id), { key: "lay", cls: "hf-line", label });
    press.append(dashLine(style ?? { colour: "line-strong", dash: 0 }));
    press.disabled = own;
    press.setAttribute("aria-pressed", String(Boolean(style)));
    return el("td", "", press);
  };
  const row = (/** @type {Board.RunRow} */ run) => {
    if (leaving.has(run.id)) return goneRow(run);
    const own = run.id === value.current;
    const style = own ? seriesStyle(0) : styleOf(run.id);
    const line = el("tr", own ? "on" : "");
    const spark = el("div", "hf-spark");
    if (!own)
      line.onclick = event => {
        if (event.target instanceof Element && !event.target.closest("button, input")) lay(run.id);
      };
    const isNamed = edit?.run === run.id;
    line.append(lineCell(run, own, style), nameCell(run, isNamed ? edit : null, rename(run)));
    if (isNamed) return line;
    line.append(el("td", "", spark), el("td", "num", ...reached(run)), actions(run, line));
    const points = (run.curve || []).filter(p => Number.isFinite(p[1]));
    sparkline(spark, { points, ...(style ?? { colour: "ink-3", dash: 0 }) });
    return line;
  };
  /** The rows anew; the reader stays at the button where they were, or goes to the one named. */
  const draw = key => {
    const at = key ?? (body.contains(document.activeElement) ? document.activeElement.getAttribute("data-key") : null);
    body.replaceChildren(...(value.runs.length ? value.runs.map(row) : [emptyRow(EMPTY_TABLE, COLUMNS)]));
    take.hidden = !value.runs.length;
    /** @type {HTMLElement[]} */
    const buttons = [...body.querySelectorAll("[data-key]")];
    const there = at && buttons.find(one => one.dataset.key === at);
    if (!there) return;
    there.focus();
    if (there instanceof HTMLInputElement && key) there.select();
  };
  const update = (/** @type {Board.RunsValue} */ next) => {
    value = { runs: next?.runs || [], current: next?.current ?? null };
    for (const id of [...laid]) if (id === value.current || !value.runs.some(r => r.id === id)) laid.delete(id);
    if (next?.refused) edit = next.refused;
    const isTyping = edit && !next?.refused && body.contains(document.activeElement);
    if (!isTyping) draw(next?.refused ? `rename ${edit.run}` : undefined); // else when the name is kept
    announce();
  };
  /** What lies over the curves: for a link, which has the runs of these ids trained where it is opened. */
  const restore = ({ laid: ids }) => {
    if (!Array.isArray(ids)) return;
    laid.clear();
    ids.slice(0, OTHERS).forEach(id => id !== value.current && value.runs.some(r => r.id === id) && laid.add(id));
    draw();
    announce();
  };
  return { update, state: () => ({ laid: [...laid] }), restore };
};

export { overlaid, reached, runs_table };
