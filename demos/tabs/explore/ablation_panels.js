/* Below the lens: roles of all heads as a table, theory views of the chosen one.

   shades(host, describe) → a picture that is only saved, of a table of shaded numbers: describe(theme) gives
   {rows, cols, cells[r][c] {text, below, rgb} or null}; picture.update(name) after each change
   bars(host, {name, tell}).update({values, labels, xName}): a bar a value, null where there is none */
import { buildPanel, buildSegment, button, el, scrollRegion } from "../../../hf_attn/viz/web/core/dom.js";
import { clamp, number, range, roundUp } from "../../../hf_attn/viz/web/core/format.js";
import { surface } from "../../../hf_attn/viz/web/core/surface.js";
import { buildTable, cells, headCell } from "../../../hf_attn/viz/web/core/table.js";
import { colourOf, css, drawText, font, numberOn, onLook, themeOf } from "../../../hf_attn/viz/web/core/theme.js";
import { tipOver } from "../../../hf_attn/viz/web/core/tooltip.js";
import { keepLines, takeAway, takeRow } from "../../../hf_attn/viz/web/export/buttons.js";
import { drawingsIn } from "../../../hf_attn/viz/web/export/single_page.js";
import { lens as lensState, linesForHead } from "../../../hf_attn/viz/web/lens/explore_board.js";

/** @import {Chosen, ChecksView} from "./ablation_board.js" */

/** A line that says that a table goes on, while it does: {element, look}. */
const sideways = scroll => {
  const element = el("p", "hf-hint", "Goes on to the right: scrolls sideways →");
  const look = () => {
    element.hidden = scroll.scrollWidth <= scroll.clientWidth + 1;
  };
  new ResizeObserver(look).observe(scroll);
  return { element, look };
};

/* ---- a table of shades, to be saved ---- */

const [TALL, TOP] = [34, 26];
const paintShades = (ctx, theme, size, { rows, cols, cells }) => {
  const put = (text, x, y, colour, more = {}) => drawText(ctx, theme, text, x, y, { align: "center", colour, ...more });
  ctx.font = font(theme, 12);
  const widest = texts => Math.max(...texts.map(text => ctx.measureText(text).width));
  const [left, wide] = [widest(rows) + 12, Math.max(48, widest(cols) + 14)];
  size(left + cols.length * wide, TOP + rows.length * TALL);
  cols.forEach((name, c) => put(name, left + (c + 0.5) * wide, TOP / 2, theme["ink-3"]));
  rows.forEach((name, r) => {
    const y = TOP + (r + 0.5) * TALL;
    put(name, left - 8, y, theme["ink-2"], { align: "right" });
    cells[r].forEach((cell, c) => {
      if (!cell) return;
      const x = left + (c + 0.5) * wide;
      if (cell.rgb) {
        ctx.fillStyle = css(cell.rgb);
        ctx.fillRect(x - wide / 2 + 1, y - TALL / 2 + 1, wide - 2, TALL - 2);
      }
      const colour = cell.rgb ? numberOn(theme, cell.rgb) : theme.ink;
      put(cell.text, x, cell.below ? y - 6 : y, colour, { weight: 500 });
      if (cell.below) put(cell.below, x, y + 9, colour, { size: 10 });
    });
  });
};

const shades = (host, describe) => {
  const hidden = el("div", "hf-unseen");
  host.append(hidden);
  const picture = surface(hidden, "", (ctx, _, theme, size) => {
    const table = describe(theme);
    if (table) paintShades(ctx, theme, size, table);
  });
  picture.canvas.setAttribute("aria-hidden", "true");
  const update = name => {
    picture.relabel(name);
    picture.redraw();
  };
  return { update, png: picture.png, svg: picture.svg, drawings: () => drawingsIn(hidden) };
};

/* ---- bars ---- */

const HEIGHT = 156;
const paintBars = (ctx, width, theme, size, o) => {
  size(width, HEIGHT);
  const [x0, x1, y0, y1] = [34, width - 6, 12, HEIGHT - 36];
  const known = o.values.filter(Number.isFinite);
  const top = roundUp(Math.max(0, ...known));
  const each = (x1 - x0) / Math.max(1, o.values.length);
  const put = (text, x, y, align, base = "alphabetic") => drawText(ctx, theme, text, x, y, { align, base });
  for (const [value, y] of [
    [0, y1],
    [top, y0],
  ]) {
    ctx.fillStyle = theme.line;
    ctx.fillRect(x0, y, x1 - x0, 1);
    put(number(value, top < 1 && value ? 1 : 0), x0 - 6, y, "right", "middle");
  }
  const wide = clamp(each - (each > 6 ? 2 : 0.5), 0.5, 28);
  ctx.fillStyle = css(colourOf(theme, 0.6));
  o.values.forEach((value, i) => {
    if (!Number.isFinite(value)) return;
    const tall = (value / (top || 1)) * (y1 - y0);
    ctx.fillRect(x0 + (i + 0.5) * each - wide / 2, y1 - tall, wide, Math.max(tall, 1));
  });
  const every = Math.ceil((9 * Math.max(...o.labels.map(label => String(label).length), 2) + 6) / each);
  const anchor = Math.max(0, o.labels.indexOf(0)); // a label at offset 0, and at every so many from there
  o.labels.forEach((label, i) => {
    if ((i - anchor) % every === 0) put(number(label, 0), x0 + (i + 0.5) * each, HEIGHT - 20, "center");
  });
  put(o.xName, (x0 + x1) / 2, HEIGHT - 4, "center");
  return { x0, each };
};

const bars = (host, options) => {
  const o = { name: "", values: [], labels: [], xName: "", ...options };
  let box = null;
  const picture = surface(host, o.name, (ctx, width, theme, size) => {
    box = paintBars(ctx, width, theme, size, o);
  });
  tipOver(picture.canvas, event => {
    const left = picture.canvas.getBoundingClientRect().left;
    const i = box ? Math.floor((event.clientX - left - box.x0) / box.each) : -1;
    return i in o.values ? o.tell(i) : null;
  });
  const update = patch => {
    Object.assign(o, patch);
    picture.relabel(`${o.name}: ${o.values.length} bars`);
    picture.redraw();
  };
  return { update, png: picture.png, svg: picture.svg };
};

/* ---- roles ---- */

const orNone = x => x ?? "–";
const score = x => (Number.isFinite(x) ? number(x, 2) : "–");
const placesOf = (/** @type {Record<string, number[][]>} */ figures) => {
  const [first] = Object.values(figures);
  return first.flatMap((row, l) => row.map((_, h) => ({ l, h })));
};

const rolesPanel = (host, trigger) => {
  const panel = buildPanel(host, "Head roles", { cls: "hf-roles-table" });
  const [note, scroll, terms] = [el("p", "hf-hint"), scrollRegion("Roles of every head"), el("ul", "hf-terms")];
  const over = buildSegment("Measured on", i => {
    onHeldOut = i === 1;
    if (onHeldOut && !view.compared) trigger("compare_roles", {});
    show();
  });
  /** @type {[ChecksView, Chosen, boolean]} */
  let [view, lens, onHeldOut] = [null, null, false];
  panel.header.append(over.element);
  const goesOn = sideways(scroll);
  panel.body.append(note, goesOn.element, scroll, terms);

  /** @returns {Board.ComparedRoles & Board.MeasuredHeads} */
  const shown = () => (onHeldOut ? view.compared : view.measured);
  /** The table: its roles, each head's scores, those of the same head untrained, and those of even attention. */
  const readScores = () => {
    const found = view && lens?.data ? shown() : null;
    const of = found?.trained?.[lens.kind];
    if (!of) return null;
    const roles = view.measured.roles.filter(([name]) => of[name]?.some(row => row.some(Number.isFinite)));
    const before = found.untrained?.[lens.kind];
    const heads = placesOf(of).map(({ l, h }) => ({
      l,
      h,
      name: `${l + 1}·${h + 1}`,
      own: roles.map(([name]) => of[name][l][h]),
      before: before && roles.map(([name]) => before[name][l][h]),
    }));
    const even = roles.map(([name]) => found.even[lens.kind][name]);
    return { roles, titles: roles.map(([, title]) => title), heads, even };
  };
  const lines = () => {
    const table = readScores();
    if (!table) return [["head"]];
    const { titles, heads, even } = table;
    return [
      ["layer·head", ...titles],
      ...heads.map(one => [one.name, ...one.own.map(orNone)]),
      ...heads.filter(one => one.before).map(one => [`${one.name} untrained`, ...one.before.map(orNone)]),
      ["even attention", ...even.map(orNone)],
    ];
  };
  const caption = () => `Roles of every head, ${lens?.kind}`;
  const shadeOf = (theme, role, value) =>
    role !== "uniform" && Number.isFinite(value) ? colourOf(theme, value) : null;
  /** The table as a picture: each score on its shade, the untrained head's below it. */
  const shaded = theme => {
    const table = readScores();
    if (!table) return null;
    const { roles, titles, heads, even } = table;
    const scores = heads.map(({ own, before }) =>
      own.map((value, i) => ({
        text: score(value),
        below: before && score(before[i]),
        rgb: shadeOf(theme, roles[i][0], value),
      })),
    );
    const names = heads.map(one => one.name);
    return { rows: [...names, "even"], cols: titles, cells: [...scores, even.map(value => ({ text: score(value) }))] };
  };
  const picture = shades(panel.body, shaded);
  const refresh = takeAway(panel, { file: () => `roles-${lens?.kind}`, caption, lines, picture, table: null });

  const draw = () => {
    const { roles, titles, heads, even } = readScores();
    const theme = themeOf(scroll);
    const cellOf = before => (value, i) => {
      const own = el("b", "", score(value));
      const rgb = shadeOf(theme, roles[i][0], value);
      if (rgb) Object.assign(own.style, { background: css(rgb), color: numberOn(theme, rgb) });
      return el("td", "num", own, before ? el("small", "", score(before[i])) : null);
    };
    const body = heads.map(({ l, h, name, own, before }) => {
      const chosen = l === lens.layer && h === lens.head;
      const press = button(name, () => lensState.pick({ layer: l, head: h }), "hf-link");
      press.title = `layer ${l + 1}, head ${h + 1}`;
      const row = el("tr", chosen ? "on" : "", headCell("row", press), ...own.map(cellOf(before)));
      if (chosen) row.setAttribute("aria-current", "true");
      return row;
    });
    const foot = el("tr", "even", headCell("row", "even"), ...cells("num", ...even.map(score)));
    const columns = titles.map(title => [title, "num"]);
    const table = buildTable("", ["layer·head", ...columns], el("tbody", "", ...body, foot));
    roles.forEach(([, , definition], i) => (table.tHead.rows[0].cells[i + 1].title = definition));
    scroll.replaceChildren(table);
    goesOn.look();
    const rows = roles.map(([, title, definition, chance]) =>
      el("li", "", el("b", "", title), `: ${definition}; even attention scores ${chance}`),
    );
    terms.replaceChildren(...rows);
    picture.update(caption());
    keepLines(panel.section, { python: shown().python });
    refresh();
  };
  const show = () => {
    const has = Boolean(view?.measured && lens?.data);
    panel.section.hidden = !has;
    if (!has) return;
    if (view.compared === null && onHeldOut && view.id !== asked) onHeldOut = false; // another checkpoint
    asked = view.id;
    const found = shown();
    const ready = Boolean(found?.trained?.[lens.kind]);
    panel.rename("Head roles", `${lens.name}; the mean weight that a head puts where the role says`);
    over.element.hidden = !view.can_count;
    over.update(["this input", `${view.counts.roleExamples} held-out examples`], onHeldOut ? 1 : 0);
    note.textContent = ready
      ? onHeldOut
        ? `Mean of ${found.examples} examples whose right answers are written; below each score, that of the same head untrained.`
        : ""
      : found?.why || `Measuring ${view.counts.roleExamples} held-out examples, trained and untrained: a few seconds.`;
    note.hidden = !note.textContent;
    scroll.hidden = terms.hidden = panel.footer.hidden = !ready;
    scroll.setAttribute("aria-label", `Roles of every head of ${lens.name}`);
    if (ready) draw();
  };
  let asked = null;
  onLook(scroll, show);
  return {
    update: (/** @type {ChecksView} */ next, /** @type {Chosen} */ at) => {
      [view, lens] = [next, at];
      show();
    },
  };
};

/* ---- theory views ---- */

const theoryPanel = host => {
  const panel = buildPanel(host, "Theory views", { cls: "hf-theory" });
  const [body, note] = [el("tbody"), el("p", "hf-hint")];
  const facts = buildTable("hf-theory-facts", ["view", ["this head", "num"], ["even", "num"]], body);
  const plots = el("div", "hf-theory-plots");
  /** @type {[ChecksView, Chosen]} */
  let [view, lens] = [null, null];

  const sigma = () => view.measured.spectrum[lens.kind][lens.layer][lens.head];
  const profile = () => view.measured.profile[lens.kind][lens.layer][lens.head];
  const offsets = () => view.measured.offsets[lens.kind];
  const fileOf = what => `${what}-${lens.kind}-layer-${lens.layer + 1}-head-${lens.head + 1}`;
  const signed = x => (x > 0 ? "+" : "") + number(x, 0);
  const python = text => linesForHead(text, lens);
  const plot = (title, sentence, what, tell, lines) => {
    const pictureHost = el("div");
    const picture = bars(pictureHost, { name: title, tell });
    const take = takeRow({ file: () => fileOf(what), caption: () => title, lines, picture, python });
    const words = [el("h3", "", title), el("p", "hf-hint", sentence)];
    plots.append(el("div", "hf-theory-plot", ...words, pictureHost, take.row, take.below));
    return { picture, take };
  };
  const spectrum = plot(
    "Singular values",
    "How much of the map goes through each of its directions; one bar: every row reads alike.",
    "spectrum",
    i => [`direction ${i + 1}`, `σ ${number(sigma()[i], 3)}`],
    () => [["direction", "σ"], ...sigma().map((value, i) => [i + 1, value])],
  );
  const distances = plot(
    "Weight by distance",
    "The mean weight on the key so many places from the query; 0 is the query's own place.",
    "distance",
    i => [`key − query ${signed(offsets()[i])}`, `mean weight ${number(profile()[i], 3)}`],
    () => [["key − query", "mean weight"], ...offsets().map((value, i) => [value, orNone(profile()[i])])],
  );

  /** The table of figures, energies included, as it stands. */
  const factLines = () => [
    ["view", "this head", "even"],
    ...[...body.rows].map(row => [...row.cells].map((cell, i) => (i ? cell : cell.firstChild).textContent)),
  ];
  const caption = () => "Theory views of one head";
  const take = takeRow({ file: () => fileOf("views"), caption, lines: factLines, python, table: null });
  panel.body.append(note, el("div", "hf-theory-two", el("div", "", facts, take.row, take.below), plots));

  const fact = (title, definition, own, even) =>
    el(
      "tr",
      "",
      ...cells("", [title, el("small", "", definition)]),
      ...cells("num", own),
      ...cells("num hf-quiet", even),
    );
  const energies = () => {
    const found = view.energies[`${lens.kind}.${lens.layer}.${lens.head}`];
    if (!found) return [];
    if (found.why) return [fact("Hopfield energy", found.why, "–", "")];
    return [
      fact("Hopfield energy", "of the queries among their keys, the mean", number(found.before, 2), ""),
      fact("… after one update", "attention with the keys for values; it never rises", number(found.after, 2), ""),
    ];
  };
  const show = () => {
    const measured = view?.measured;
    panel.section.hidden = !measured || !lens?.data;
    if (panel.section.hidden) return;
    panel.rename("Theory views", `${lens.place}, on this input`);
    note.hidden = !measured.why;
    note.textContent = measured.why || "";
    plots.parentElement.hidden = Boolean(measured.why);
    if (measured.why || !measured.spectrum[lens.kind]) return;
    const own = measured.trained[lens.kind];
    const even = measured.even[lens.kind];
    const write = (name, x) => (Number.isFinite(x) ? number(x, name === "rank" ? 0 : 2) : "–");
    const rows = measured.views.map(([name, title, definition]) =>
      fact(title, definition, write(name, own[name][lens.layer][lens.head]), write(name, even[name])),
    );
    body.replaceChildren(...rows, ...energies());
    keepLines(panel.section, { python: measured.theory });
    take.refresh();
    spectrum.picture.update({ values: sigma(), labels: range(sigma().length).map(i => i + 1), xName: "direction" });
    distances.picture.update({ values: profile(), labels: offsets(), xName: "key − query, in places" });
    spectrum.take.refresh();
    distances.take.refresh();
  };
  return {
    update: (/** @type {ChecksView} */ next, /** @type {Chosen} */ at) => {
      [view, lens] = [next, at];
      show();
    },
  };
};

export { rolesPanel, shades, theoryPanel };
