/* Runs compared: this run and those laid over it. A table of settings and results, what differs first, and the maps
   of all at the step that is shown. Its value is {runs, python}: the whole messages of the runs laid over (as the
   train board takes them); the rest it hears on the document: "hf-overlays" from the table of runs (their settings and results)
   and "hf-shown" from the train board (the shown step and this run's map). */
import { buildPanel, button, el, scrollRegion } from "../../../hf_attn/viz/web/core/dom.js";
import { count, NO_ATTENTION, range } from "../../../hf_attn/viz/web/core/format.js";
import { buildTable, cells, headCell } from "../../../hf_attn/viz/web/core/table.js";
import { takeAway } from "../../../hf_attn/viz/web/export/buttons.js";
import { heatmap } from "../../../hf_attn/viz/web/plots/heatmap.js";
import { dashLine, seriesStyle } from "../../../hf_attn/viz/web/plots/line_chart.js";
import { trainState } from "./train_state.js";

const { EMPTY, receive, atOrBefore, mapOf, lastLayer } = trainState;

/** @import {Overlaid} from "./runs_table.js" */
/** @import {TrainState} from "./train_state.js" */
/** @import {TrainView} from "./train_board.js" */

const nameOf = (/** @type {Overlaid} */ run) => el("span", "hf-series", dashLine(run), el("bdi", "", run.name));

/** Name → the values of all runs, in the order in which the first run has them.
    @returns {[string, string[]][]} */
const factsOf = (/** @type {Overlaid[]} */ runs, /** @type {"settings" | "results"} */ key) => {
  const maps = runs.map(run => new Map(run[key] || []));
  const names = [...new Set(maps.flatMap(map => [...map.keys()]))];
  return names.map(name => [name, maps.map(map => map.get(name) ?? "–")]);
};
const differs = ([, values]) => new Set(values).size > 1;

const differences = host => {
  let open = false;
  /** @type {Overlaid[]} */
  let last = null;
  const toggle = button("", () => {
    open = !open;
    update(last);
  });
  toggle.dataset.opens = "settings";
  const scroll = scrollRegion("Runs compared, as a table that scrolls sideways");
  host.append(scroll, toggle);
  /** Settings and results of every run, whether or not they differ. */
  const lines = () => {
    const runs = last || [];
    const facts = [...factsOf(runs, "settings"), ...factsOf(runs, "results")];
    return [["what", ...runs.map(run => run.name)], ...facts.map(([name, values]) => [name, ...values])];
  };
  const part = (title, facts, cls = "") => {
    const head = Object.assign(headCell("rowgroup", title), { colSpan: last.length + 1 });
    const line = ([name, values]) => el("tr", "", headCell("row", name), ...cells("", ...values));
    return el("tbody", cls, el("tr", "hf-group-name", head), ...facts.map(line));
  };
  const update = (/** @type {Overlaid[]} */ runs) => {
    last = runs;
    const settings = factsOf(runs, "settings");
    const same = settings.filter(fact => !differs(fact));
    toggle.textContent = open ? "Hide what is the same" : `Show ${same.length} settings that are the same`;
    toggle.hidden = !same.length;
    toggle.setAttribute("aria-expanded", String(open));
    const other = settings.filter(differs);
    scroll.replaceChildren(
      buildTable(
        "hf-differences",
        [el("span", "hf-sr", "what"), ...runs.map(nameOf)],
        part(other.length ? "Settings that differ" : "No setting differs", other),
        part("What came of it", factsOf(runs, "results")),
        open ? part("The same in all", same, "hf-same") : null,
      ),
    );
  };
  return { update, lines };
};

const mapCell = host => {
  const [title, note] = [el("h3"), el("p", "hf-hint")];
  const mapHost = el("div");
  const map = heatmap(mapHost, { name: "Attention", maxCell: 44 });
  let called = "";
  const take = map.exports(() => `compared-${called.replace(/[^\p{L}\p{N}]+/gu, "-")}`);
  host.append(title, note, mapHost, take);
  /** @type {(run: Overlaid, state: TrainState, view: TrainView) => void} */
  const update = (run, state, { step, head, layer }) => {
    const frame = atOrBefore(state.frames, step);
    const at = layer < (state.meta.layers?.length ?? 0) ? layer : lastLayer(state.meta);
    const of = head <= (state.meta.heads || 0) ? head : 0;
    const values = mapOf(frame, at, of);
    called = run.name;
    title.replaceChildren(nameOf(run));
    mapHost.hidden = take.hidden = !values;
    if (!values) {
      note.textContent = state.meta.heads === 0 ? NO_ATTENTION : "Its maps are on their way.";
      return;
    }
    const where = [`step ${count(frame.step)}`, `layer ${state.meta.layers?.[at] ?? 1}`];
    note.textContent = [...where, of ? `head ${of}` : "mean of the heads", state.meta.probe].join(", ");
    const { rows, cols, truth, allowed } = state.meta;
    const name = `${run.name}, ${state.meta.map || "Attention"} of the probe at step ${count(frame.step)}`;
    map.update({ rows, cols, values, truth, allowed, name });
  };
  return { update };
};

const mapsBeside = host => {
  const heading = el("h3");
  const grid = el("div", "hf-maps");
  host.append(heading, grid);
  let cells = [];
  /** @type {(runs: Overlaid[], states: TrainState[], view: TrainView) => void} */
  const update = (runs, states, view) => {
    if (cells.length !== runs.length) {
      grid.replaceChildren(...range(runs.length).map(() => el("div", "hf-map-cell")));
      cells = [...grid.children].map(mapCell);
    }
    heading.textContent = `Who reads what at step ${count(view.step)}`;
    runs.forEach((run, i) => cells[i].update(run, states[i], view));
  };
  return { update };
};

const compare_board = element => {
  const root = element.querySelector(".hf-compare");
  const panel = buildPanel(root, "Compared", { note: "what differs first" });
  const table = differences(panel.body);
  const maps = mapsBeside(panel.body);
  const caption = () => "Runs compared: settings and results";
  const refresh = takeAway(panel, { file: () => "runs-compared", lines: table.lines, caption });
  /** @type {Map<string, TrainState>} */
  let states = new Map();
  /** @type {{current: Board.RunRow | null, others: Overlaid[]}} */
  let told = { current: null, others: [] };
  /** @type {TrainView} */
  let view = null;

  const runs = () => [{ ...told.current, ...seriesStyle(0) }, ...told.others];
  const isOn = () => Boolean(told.current && told.others.length);
  const drawMaps = () => {
    if (!isOn() || !view?.state.run) return;
    const known = told.others.map(run => states.get(run.id) || EMPTY);
    maps.update(runs(), [view.state, ...known], view);
  };
  const draw = () => {
    element.classList.toggle("hf-off", !isOn());
    panel.section.hidden = !isOn();
    if (!isOn()) return;
    table.update(runs());
    refresh();
    drawMaps();
  };
  document.addEventListener("hf-overlays", event => {
    told = event.detail;
    draw();
  });
  document.addEventListener("hf-shown", event => {
    view = event.detail;
    drawMaps();
  });
  const update = (/** @type {Board.CompareValue} */ value) => {
    states = new Map((value?.runs || []).map(message => [message.run, receive(EMPTY, message)]));
    draw();
  };
  return { update };
};

export { compare_board };
