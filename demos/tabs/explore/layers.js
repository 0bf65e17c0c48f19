/* Layer by layer: what the model would expect were each its last (the logit lens), and what each place of each layer
   brings back of a text's answer when it is put into a changed one (activation patching).

   layersPanel(host, trigger).update(view, lens) */
import { buildPanel, button, el, scrollRegion } from "../../../hf_attn/viz/web/core/dom.js";
import { clip, number, percent, shown } from "../../../hf_attn/viz/web/core/format.js";
import { buildTable, headCell } from "../../../hf_attn/viz/web/core/table.js";
import { colourOf, css, numberOn, onLook, themeOf } from "../../../hf_attn/viz/web/core/theme.js";
import { keepLines, takeRow } from "../../../hf_attn/viz/web/export/buttons.js";
import { shades } from "./ablation_panels.js";

/** @import {Chosen, ChecksView} from "./ablation_board.js" */

const layerName = (l, isLens) => (isLens ? (l ? `after layer ${l}` : "embeddings") : `into layer ${l + 1}`);

/** One table of shaded cells: describe() gives {rows, columns, cells[r][c] {text, value, title}}, or null. */
const shadedTable = (host, name, caption, describe) => {
  const scroll = scrollRegion(name);
  host.append(scroll);
  const picture = shades(host, theme => {
    const table = describe();
    if (!table) return null;
    const cells = table.cells.map(row =>
      row.map(({ text, value }) => ({ text, rgb: value === null ? null : colourOf(theme, value) })),
    );
    return { rows: table.rows, cols: table.columns, cells };
  });
  const lines = () => {
    const table = describe();
    return table
      ? [["layer", ...table.columns], ...table.rows.map((row, r) => [row, ...table.cells[r].map(cell => cell.title)])]
      : [["layer"]];
  };
  const take = takeRow({
    file: () => name.toLowerCase().replace(/ /g, "-"),
    caption,
    lines,
    picture,
    table: null,
  });
  host.append(take.row, take.below);
  const draw = () => {
    const table = describe();
    host.hidden = !table;
    if (!table) return;
    const theme = themeOf(scroll);
    const cellOf = ({ text, value, title }) => {
      const cell = el("td", "", el("span", "", text));
      if (value !== null) {
        const rgb = colourOf(theme, value);
        Object.assign(cell.style, { background: css(rgb), color: numberOn(theme, rgb) });
      }
      cell.title = title;
      return cell;
    };
    const rows = table.rows.map((row, r) => el("tr", "", headCell("row", row), ...table.cells[r].map(cellOf)));
    scroll.replaceChildren(buildTable("hf-layers-table", ["", ...table.columns], el("tbody", "", ...rows)));
    picture.update(caption());
    keepLines(host, { python: table.python });
    take.refresh();
  };
  onLook(scroll, draw);
  return { draw };
};

const layersPanel = (host, trigger) => {
  const panel = buildPanel(host, "Layer by layer", {
    note: "what each layer would say, and where the answer is carried",
    cls: "hf-layers",
  });
  /** @type {[ChecksView, Chosen]} */
  let [view, lens] = [null, null];
  const read = button("Logit lens", () => trigger("read_layers", { id: view.id, changed: null, place: -1 }));
  const field = Object.assign(el("input"), { type: "text", id: "explore-changed", maxLength: 1000 });
  const label = el("label", "", "Patch into this changed text ", field);
  const place = () => (["next", "masked"].includes(view.predictions.what) ? lens?.at?.query : null) ?? -1;
  const patch = button("Patch", () => trigger("read_layers", { id: view.id, changed: field.value, place: place() }));
  const why = el("p", "hf-problem");
  why.setAttribute("role", "alert");
  const [lensHost, patchHost] = [el("div"), el("div")];
  const [lensSaid, patchSaid] = [el("p", "hf-hint"), el("p", "hf-hint")];
  const heads = text => el("h3", "", text);
  lensHost.append(heads("Logit lens"), lensSaid);
  patchHost.append(heads("Activation patching"), patchSaid);
  panel.body.append(el("div", "hf-question", read, label, patch), why, lensHost, patchHost);
  field.onkeydown = event => event.key === "Enter" && patch.click();

  const lensTable = () => {
    const found = view?.layers?.lens;
    if (!found) return null;
    const cells = found.tokens.map((row, l) =>
      row.map((token, c) => {
        const p = found.p[l][c];
        return { text: clip(shown(token), 9), value: p, title: `${shown(token)} ${number(p, 3)}` };
      }),
    );
    return {
      rows: cells.map((_, l) => layerName(l, true)),
      columns: found.columns.map(shown),
      cells,
      python: found.python,
    };
  };
  const patchTable = () => {
    const found = view?.layers?.patching;
    if (!found) return null;
    const cells = found.recovery.map(row =>
      row.map(x => ({
        text: x === null ? "–" : number(x, 2),
        value: x === null ? null : Math.min(1, Math.max(0, x)),
        title: x === null ? "nothing was lost" : `${percent(x)} brought back`,
      })),
    );
    const columns = found.columns.map((token, i) =>
      token === found.others[i] ? shown(token) : `${shown(token)} ← ${shown(found.others[i])}`,
    );
    return { rows: cells.map((_, l) => layerName(l, false)), columns, cells, python: found.python };
  };
  const tables = [
    shadedTable(lensHost, "Logit lens", () => "The likeliest token at each place, were each layer the last", lensTable),
    shadedTable(
      patchHost,
      "Activation patching",
      () => "Share of the answer's probability that a patch brings back",
      patchTable,
    ),
  ];
  const show = () => {
    panel.section.hidden = !view?.predictions;
    if (panel.section.hidden) return;
    why.textContent = view.layers?.why || "";
    why.hidden = !why.textContent;
    lensSaid.textContent =
      "Each layer's stream, read by the model's own last norm and head: the likeliest token, its probability as the shade. The last row is the model itself.";
    const found = view.layers?.patching;
    if (found)
      patchSaid.textContent = `After the text “${shown(found.answer)}” has ${number(found.clean, 3)}, after the changed one ${number(found.changed, 3)}. Each cell puts one place of one layer of the text into the changed one: 0 brings nothing back, 1 all.`;
    tables.forEach(table => table.draw());
  };
  let of = null;
  return {
    update: (/** @type {ChecksView} */ next, /** @type {Chosen} */ at) => {
      if (next?.predictions && next.id !== of) {
        of = next.id;
        field.value = next.predictions.other;
      }
      [view, lens] = [next, at];
      show();
    },
  };
};

export { layersPanel };
