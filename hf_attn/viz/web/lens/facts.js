/* Beside the lens's map: the chosen cell and how its weight came about, the rows of the chosen tokens, on demand its
   query, key and value; and a table of figures of the row and of the whole head.

   lensFacts(panel, {askCell, toggleInside}) → {update(view), table}   the view's contract is in explore_board.js
   nameAt(data, axis, i)   a token in words: "row" or "col", with its place in the input where it stands twice
   sieved(map, {floor, sink})   the map as shown: the first key taken out and rows renormalised, then small
   weights left out */
import { button, el } from "../core/dom.js";
import { count, entropy, mean, named, number, percent, shown, sum } from "../core/format.js";
import { buildTable, cells } from "../core/table.js";
import { colourOf, css, numberOn, onLook, themeOf } from "../core/theme.js";
import { term } from "../core/tooltip.js";
import { takeAway } from "../export/buttons.js";
import { miniStrip, paintSigned } from "../plots/signed_colours.js";

/** @import {LensData, LensView} from "./explore_board.js" */

const nameAt = (/** @type {LensData} */ data, /** @type {"row" | "col"} */ axis, /** @type {number} */ i) => {
  const labels = data[axis + "s"];
  const from = data.from?.[axis === "row" ? 0 : 1];
  return from === undefined ? named(labels, i) : `${shown(labels[i])} ${count(i + from + 1)}`;
};
const allows = (/** @type {LensData} */ data, /** @type {number} */ r, /** @type {number} */ c) =>
  !data.allowed || data.allowed[r][c];

/* ---- figures of one row of weights ---- */

const figuresOf = (/** @type {LensData} */ data, /** @type {number[][]} */ map, /** @type {number} */ r) => {
  const keys = data.allowed ? data.allowed[r].filter(Boolean).length : map[r].length;
  return {
    bits: entropy(map[r]),
    most: Math.log2(Math.max(1, keys)),
    first: map[r][0],
    reads: sum(map[r]) > 0,
    known: data.truth?.[r]?.some(Boolean) ? sum(map[r].map((w, c) => (data.truth[r][c] ? w : 0))) : null,
  };
};
const meanFigures = all => {
  const known = all.map(f => f.known).filter(v => v !== null);
  return {
    bits: mean(all.map(f => f.bits)),
    most: mean(all.map(f => f.most)),
    first: mean(all.map(f => f.first)),
    known: known.length ? mean(known) : null,
  };
};
const remembered = new WeakMap(); // of a map that is looked at cell by cell
const allFigures = (/** @type {LensData} */ data, /** @type {number[][]} */ map) => {
  if (!remembered.has(map))
    remembered.set(
      map,
      map.map((_, r) => figuresOf(data, map, r)),
    );
  return remembered.get(map);
};

const sieved = (map, { floor, sink }) => {
  const without = row => {
    const rest = sum(row.slice(1));
    return row.map((w, c) => (c && rest ? w / rest : 0));
  };
  return (sink ? map.map(without) : map).map(row => row.map(w => (w < floor ? 0 : w)));
};

/* ---- what is behind a cell ---- */

const ASK_MS = 120; // an arrow key held down asks once

const cellPanel = (host, { askCell, toggleInside }) => {
  const press = button("Show q, k, v", toggleInside);
  const vectors = el("dl", "hf-inside");
  const [sum, said, tableHost, takeHost] = [el("dl", "hf-sum"), el("p", "hf-hint"), el("div"), el("div")];
  const box = el("div", "hf-behind", sum, said, press, vectors, takeHost, tableHost);
  press.setAttribute("aria-expanded", "false");
  host.append(box);
  /** @type {Board.LensCell} */
  let drawn = null;
  /** @returns {[string, string, number[], string][]} */
  const linesOf = (/** @type {Board.LensCell} */ { q, k, v }) => [
    ["q", "query", q, "hf-q"],
    ["k", "key", k, "hf-k"],
    ["q × k", "product", q.map((x, i) => x * k[i]), ""],
    ["v", "value", v, ""],
  ];
  const fill = takeAway(
    { footer: takeHost, section: tableHost },
    {
      file: () => "cell",
      python: () => drawn?.python || "",
      caption: () => "Query, key, product and value of the chosen cell, number by number",
      lines: () => {
        const lines = drawn ? linesOf(drawn) : [];
        const rows = lines.length
          ? lines[0][2].map((_, i) => [i + 1, ...lines.map(([, , values]) => values[i] ?? "")])
          : [];
        return [["number", ...lines.map(([name, word]) => (name === word ? name : `${name}, ${word}`))], ...rows];
      },
    },
  );
  const paint = () => vectors.isConnected && paintSigned(vectors);
  onLook(vectors, paint);
  const draw = (/** @type {Board.LensCell} */ cell) => {
    drawn = cell;
    const lines = linesOf(cell);
    const largest = values => Math.max(1e-9, ...values.map(Math.abs));
    const ends = [Math.max(largest(cell.q), largest(cell.k)), null, largest(lines[2][2]), largest(cell.v)];
    ends[1] = ends[0]; // q and k share one scale
    vectors.replaceChildren(
      ...lines.flatMap(([name, word, values, role], i) => [
        el("dt", "", el("span", role, name), el("span", "hf-quiet", word)),
        el("dd", "", miniStrip(values, ends[i])),
      ]),
    );
    paint();
    fill();
  };
  const isOf = (/** @type {Board.LensCell} */ cell, /** @type {LensView} */ view) =>
    cell &&
    ["kind", "layer", "head"].every(name => cell[name] === view[name]) &&
    cell.query === view.at.query &&
    cell.key === view.at.key;
  const step = (name, value) => [el("dt", "", name), el("dd", "", value)];
  /** How the weight came about: q·k, scaled, beside the next highest, softmax. */
  const tell = (/** @type {Board.LensCell} */ cell, /** @type {LensView} */ view) => {
    const own = cell.scaled + (cell.bias ?? 0);
    const isScaled = Math.abs(cell.scaled - cell.score) >= 1e-9;
    const other = cell.other && view.data.cols[cell.other.key - (view.data.from?.[1] ?? 0)];
    sum.replaceChildren(
      ...step("q · k", number(cell.score)),
      ...(isScaled ? step(`÷ √${cell.q.length}`, number(cell.scaled)) : []),
      ...(cell.bias === null ? [] : step("with position", number(own))),
      ...(other === undefined || other === null
        ? []
        : step(`${cell.other.scaled > own ? "highest" : "next highest"}: ${shown(other)}`, number(cell.other.scaled))),
      ...step(`softmax of ${count(cell.keys)}`, number(cell.weight, 3)),
    );
  };
  let asked = null;
  let asking = null;
  const update = (/** @type {LensView} */ view) => {
    const can = view.asks.includes("cell") && view.selected && view.map && !view.mean && !view.masked;
    box.hidden = !can;
    if (!can) return;
    const cell = isOf(view.cell, view) ? view.cell : null;
    const place = JSON.stringify([view.id, view.kind, view.layer, view.head, view.at]);
    if (!cell && asked !== place) {
      asked = place;
      clearTimeout(asking);
      asking = setTimeout(askCell, ASK_MS);
    }
    if (cell) asked = null;
    said.hidden = !cell?.why;
    said.textContent = cell?.why || "";
    if (!cell) return; // what stands there stays until it comes: nothing moves but the data
    const found = !cell.why;
    press.hidden = sum.hidden = !found;
    press.textContent = view.inside ? "Hide q, k, v" : "Show q, k, v";
    press.setAttribute("aria-expanded", String(view.inside));
    for (const part of [vectors, takeHost, tableHost]) part.hidden = !found || !view.inside;
    if (!found) return;
    tell(cell, view);
    if (view.inside && cell !== drawn) draw(cell);
  };
  return { update };
};

/* ---- the column beside the map ---- */

const lensFacts = (panel, board) => {
  const pair = el("span");
  const big = el("output", "hf-big");
  const note = el("p", "hf-hint");
  const each = el("div");
  const body = el("tbody");
  const of = el("span");
  const table = buildTable("hf-facts", ["", [of, "num"], ["mean of rows", "num"]], body);
  panel.header.querySelector("h2").replaceChildren(pair);
  panel.body.append(big, note, each);
  const behind = cellPanel(panel.body, board);
  let painted = null;
  const paint = () => {
    const theme = themeOf(big);
    const rgb = painted === null ? null : colourOf(theme, painted);
    big.style.background = rgb ? css(rgb) : "";
    big.style.color = rgb ? numberOn(theme, rgb) : "";
  };
  onLook(big, paint);
  const first = term(
    "first key (sink)",
    "Sink share: the weight on the first key, a_q1,",
    "and on the right its mean, (1/Q) Σ_q a_q1.",
    "A sink is read where nothing is to be read.",
  );
  const bits = term(
    "entropy, bits",
    "How undecided a row is: −Σ_k a_qk log₂ a_qk.",
    "0: one key has all the weight;",
    "log₂ n: n keys share it evenly.",
  );
  const most = term("of at most", "log₂ n, the highest entropy of a row", "that may read n keys.");
  const line = (label, one, all) => el("tr", "", ...cells("", label), ...cells("num", one, all));
  const query = (/** @type {LensData} */ data, /** @type {number} */ r) => el("span", "hf-q", nameAt(data, "row", r));
  const namedRows = (/** @type {LensView} */ { data, rows }) => {
    const spans = rows.slice(0, 3).flatMap((r, i) => [...(i ? [", "] : []), query(data, r)]);
    return rows.length > 3 ? [...spans, ` and ${rows.length - 3} more`] : spans;
  };
  const headline = (/** @type {LensView} */ view) => {
    const { data, shown: map, selected, rows, key, masked } = view;
    const many = rows.length > 1;
    const words = selected
      ? [...namedRows(view), many ? " read " : " reads ", el("span", "hf-k", nameAt(data, "col", key))]
      : many
        ? namedRows(view)
        : ["No cell chosen"];
    pair.replaceChildren(...words);
    painted =
      selected && !(masked && !many) ? mean(rows.filter(r => allows(data, r, key)).map(r => map[r][key])) : null;
    big.textContent = !selected ? "–" : painted === null ? "masked" : number(painted, 3);
    paint();
  };
  /** Several chosen tokens: one line each, with its weight on the key, or on what it reads most. */
  const listRows = (/** @type {LensView} */ { data, shown: map, rows, key }) => {
    each.hidden = rows.length < 2;
    if (each.hidden) return;
    const lines = rows.map(r => {
      const most = key ?? map[r].indexOf(Math.max(...map[r]));
      const value = allows(data, r, most) ? number(map[r][most], 3) : "masked";
      const read = el("td", "hf-k", nameAt(data, "col", most));
      return el("tr", "", ...cells("", query(data, r)), read, ...cells("num", value));
    });
    const heads = ["reads", key === null ? "mostly" : "this key", ["weight", "num"]];
    each.replaceChildren(buildTable("hf-facts hf-each-row", heads, el("tbody", "", ...lines)));
  };
  const update = (/** @type {LensView} */ view) => {
    const { data, map, row, rows, sieve } = view;
    headline(view);
    listRows(view);
    const notes = [
      rows.length > 1 && view.selected ? `mean of ${rows.length} rows` : "",
      sieve.sink || sieve.floor ? "of what is shown; the figures below are of the whole map" : "",
    ];
    note.textContent = notes.filter(Boolean).join("; ");
    const all = allFigures(data, map);
    const one = rows.length > 1 ? meanFigures(rows.map(r => all[r])) : all[row];
    const rest = meanFigures(all.filter(f => f.reads));
    of.replaceChildren(rows.length > 1 ? `mean of ${rows.length}` : query(data, row));
    const known =
      rest.known === null
        ? []
        : [line("known answer", one.known === null ? "–" : percent(one.known), percent(rest.known))];
    body.replaceChildren(
      line(data.from?.[1] ? "first key of the window" : first, percent(one.first), percent(rest.first)),
      ...known,
      line(bits, number(one.bits), number(rest.bits)),
      line(most, number(one.most), number(rest.most)),
    );
    behind.update(view);
  };
  return { update, table };
};

export { lensFacts, nameAt, sieved };
