/* Language, Tokens: a text as characters, words, bytes and byte pairs; byte pair encoding merge by merge; one token's
   id, its one-hot vector and the row of the embedding table that it picks. The board takes a Board.TokensValue. */
import {
  buildPanel,
  buildSegment,
  buildSlider,
  button,
  childrenOf,
  el,
  live,
} from "../../../hf_attn/viz/web/core/dom.js";
import { clamp, count, number, range, shown } from "../../../hf_attn/viz/web/core/format.js";
import { surface } from "../../../hf_attn/viz/web/core/surface.js";
import { drawText, onLook } from "../../../hf_attn/viz/web/core/theme.js";
import { takeAway } from "../../../hf_attn/viz/web/export/buttons.js";
import { lineChart, seriesStyle } from "../../../hf_attn/viz/web/plots/line_chart.js";
import { paintSigned } from "../../../hf_attn/viz/web/plots/signed_colours.js";
import { wordBars } from "./word_bars.js";

/** @type {(keyof Board.TokenKinds)[]} */
const KINDS = ["characters", "words", "bytes", "bpe"];
const TITLES = ["characters", "words", "bytes", "byte pairs"];

/* ---- what is shown now: tokens, their ids and how many there are ---- */

/** A cut of the text.
    @typedef {Board.TokenKind & {tokens: string[]}} View */

const viewOf = (/** @type {Board.TokensValue} */ value, /** @type {keyof Board.TokenKinds} */ kind, at) => {
  const one = value.kinds[kind];
  if (kind !== "bpe") return { ...one, tokens: one.ids.map(id => one.vocabulary[id]) };
  const { ids, size } = value.steps[at];
  return { ...one, ids, size, tokens: ids.map(id => one.vocabulary[id]) };
};

const strip = (host, onPick) => {
  const chips = el("div", "hf-tokens hf-cut");
  chips.setAttribute("role", "group");
  chips.setAttribute("aria-label", "The text's tokens");
  host.append(chips);
  const update = (/** @type {View} */ view, chosen, fresh) =>
    chips.replaceChildren(
      ...view.tokens.map((token, i) => {
        const chip = button(shown(token), () => onPick(view.ids[i]), "hf-tok");
        chip.classList.toggle("fresh", view.ids[i] === fresh);
        chip.setAttribute("aria-pressed", String(view.ids[i] === chosen));
        chip.title = `id ${view.ids[i]}`;
        return chip;
      }),
    );
  return { update };
};

/* ---- merging ---- */

const stepper = (panel, onStep) => {
  const line = el("div", "hf-stepper");
  const back = button("Back", () => onStep(-1, true));
  const next = button("Merge", () => onStep(1, true));
  const rail = buildSlider("Merges done", 0, 1, 1, at => onStep(at, false));
  const headline = el("p", "hf-merge");
  line.append(back, rail.element, next);
  panel.body.append(line, headline);
  const update = (/** @type {Board.TokensValue} */ value, /** @type {number} */ at) => {
    const last = value.steps.length - 1;
    const step = value.steps[at];
    back.disabled = at === 0;
    next.disabled = at === last;
    rail.update(at, last);
    rail.element.setAttribute("aria-valuetext", `${at} of ${last} merges`);
    if (!last) headline.replaceChildren("No pair occurs twice, so nothing is merged.");
    else if (!at) headline.replaceChildren(`Characters, before the first of ${last} merges.`);
    else {
      const [left, right] = step.merge;
      const strong = token => el("b", "", shown(token));
      const sum = [strong(left), " + ", strong(right), " → ", strong(left + right)];
      headline.replaceChildren(`Merge ${at} of ${last}: `, ...sum, `, met ${count(step.count)} times.`);
    }
  };
  return { update, parts: [line, headline] };
};

const pairsPanel = host => {
  const panel = buildPanel(host);
  const bars = wordBars(panel.body);
  /** @type {Board.MergeStep["pairs"]} */
  let pairs = [];
  const refresh = takeAway(panel, {
    file: () => "language-pairs",
    lines: () => [["pair", "met"], ...pairs.map(([left, right, n]) => [`${shown(left)} ${shown(right)}`, n])],
    caption: () => "How often neighbours within a word are met now",
  });
  const update = (/** @type {Board.TokensValue} */ value, /** @type {number} */ at) => {
    ({ pairs } = value.steps[at]);
    const merges = at < value.steps.length - 1;
    panel.rename("Pairs of neighbours", merges ? "the first merges next" : "no pair is left to merge");
    const line = (/** @type {[string, string, number]} */ [left, right, n], /** @type {number} */ i) => ({
      name: `${shown(left)} ${shown(right)}`,
      value: n,
      told: count(n),
      cls: merges && i === 0 ? "next" : "",
    });
    bars.update(pairs.map(line), pairs[0]?.[2] ?? 1);
    refresh();
  };
  return { update, section: panel.section };
};

const growthPanel = (host, onStep) => {
  const panel = buildPanel(host, "Shorter text, larger vocabulary", { note: "tokens by merge" });
  /** @type {Board.TokensValue} */
  let value = null;
  const curve = lineChart(panel.body, {
    name: "Tokens of the text and of the vocabulary by merge",
    xName: "merge",
    height: 190,
    digits: 0,
    keys: panel.footer,
    onCursor: (at, sign) => onStep(sign === 1 ? Math.ceil(at) : Math.round(at), false),
  });
  const refresh = takeAway(panel, {
    file: () => "language-merges",
    lines: () => [
      ["merge", "pair", "tokens in the text", "tokens in the vocabulary"],
      ...value.steps.map((step, i) => [
        i,
        step.merge ? step.merge.map(shown).join(" ") : "–",
        step.ids.length,
        step.size,
      ]),
    ],
    caption: () => "The text and the vocabulary after each merge",
    picture: curve,
  });
  const update = (/** @type {Board.TokensValue} */ next, /** @type {number} */ at) => {
    value = next;
    const { steps } = value;
    const most = Math.max(...steps.flatMap(step => [step.ids.length, step.size]));
    const top = [5, 10, 20, 50, 100, 200, 300, 400, 500, 600, 800, 1000].find(end => end >= most) ?? most;
    const line = (name, place, of) => ({ name, points: steps.map((step, i) => [i, of(step)]), ...seriesStyle(place) });
    curve.update({
      x: [0, Math.max(1, steps.length - 1)],
      y: [0, top],
      ticks: [0, top / 2, top],
      format: v => count(v),
      cursor: at,
      series: [line("in the text", 0, step => step.ids.length), line("in the vocabulary", 1, step => step.size)],
    });
    refresh();
  };
  return { update, section: panel.section };
};

/* ---- one token: id, one-hot, row ---- */

const lookUpPanel = host => {
  const panel = buildPanel(host, "One token looked up", { note: "click a token above", cls: "hf-wide-panel" });
  const sentence = el("p", "hf-merge");
  const hot = el("div");
  const numbers = el("div", "hf-vector");
  const check = el("p", "hf-hint");
  panel.body.append(
    sentence,
    el("p", "hf-label", "one-hot: x"),
    hot,
    el("p", "hf-label", "its row of the table: xᵀ E"),
    numbers,
    check,
  );
  let now = null;
  const picture = surface(hot, "One-hot vector", (ctx, width, theme, size) => {
    size(width, 44);
    if (!now) return;
    const cell = Math.min(24, width / now.size);
    const gap = cell >= 6 ? 1 : 0;
    range(now.size).forEach(i => {
      ctx.fillStyle = i === now.chosen ? theme.accent : theme.sunken;
      ctx.fillRect(i * cell, 4, Math.max(0.5, cell - gap), 20);
    });
    const x = (now.chosen + 0.5) * cell;
    const align = x < 40 ? "left" : x > width - 40 ? "right" : "center";
    const look = { align, base: "alphabetic", colour: theme["ink-2"] };
    drawText(ctx, theme, `1 at ${now.chosen}`, clamp(x, 0, width), 40, look);
  });
  const paint = () => paintSigned(numbers);
  onLook(numbers, paint);
  const refresh = takeAway(panel, {
    file: () => "language-vector",
    lines: () => [["dimension", "value"], ...(now?.row ?? []).map((v, i) => [i, number(v, 4)])],
    caption: () => `The vector of ${shown(now?.token ?? "")}`,
    picture,
  });
  const update = (/** @type {View} */ view, /** @type {number} */ chosen) => {
    now = { chosen, size: view.size, row: view.rows[chosen], token: view.vocabulary[chosen] };
    sentence.replaceChildren(
      el("b", "", shown(now.token)),
      ` is number ${chosen} of ${count(view.size)}, counted from 0.`,
    );
    const end = Math.max(...now.row.map(Math.abs));
    const box = v => Object.assign(el("span", "", number(v, 2)), { title: number(v, 4) });
    numbers.replaceChildren(...now.row.map(box));
    childrenOf(numbers).forEach((one, i) => Object.assign(one.dataset, { value: now.row[i], end }));
    check.textContent = `Untrained table, ${count(view.size)} × ${now.row.length}. The one-hot product and the lookup differ by ${view.difference ? view.difference.toExponential(0) : "0"}.`;
    picture.relabel(`One-hot vector of ${view.size} numbers: 1 at ${chosen}, 0 elsewhere`);
    picture.redraw();
    paint();
    refresh();
  };
  return { update };
};

const tokens_board = element => {
  const root = element.querySelector(".hf-language");
  const spoken = live();
  const main = buildPanel(root, "", { cls: "hf-wide-panel" });
  const state = { kind: 3, at: 0, chosen: {} };
  /** @type {Board.TokensValue} */
  let value = null;
  const choose = buildSegment("Cut into", i => {
    state.kind = i;
    draw();
  });
  main.header.append(choose.element);
  const goTo = (by, isRelative) => {
    state.at = clamp(isRelative ? state.at + by : by, 0, value.steps.length - 1);
    draw();
  };
  const steps = stepper(main, goTo);
  const tokens = strip(main.body, id => {
    state.chosen[KINDS[state.kind]] = id;
    draw();
  });
  const pairs = pairsPanel(root);
  const growth = growthPanel(root, goTo);
  const looked = lookUpPanel(root);
  root.append(spoken.element);
  const draw = () => {
    root.hidden = !value;
    if (!value) return;
    const kind = KINDS[state.kind];
    const isBpe = kind === "bpe";
    const view = viewOf(value, kind, state.at);
    choose.update(TITLES, state.kind);
    const known = `${count(new Set(view.ids).size)} different, of a vocabulary of ${count(view.size)}`;
    main.rename(`${count(view.ids.length)} tokens`, known);
    for (const part of [...steps.parts, pairs.section, growth.section]) part.hidden = !isBpe;
    if (isBpe) {
      steps.update(value, state.at);
      pairs.update(value, state.at);
      growth.update(value, state.at);
    }
    const fresh = isBpe && state.at ? value.steps[state.at].made : -1;
    const word = view.tokens.findIndex(token => token.trim());
    const usual = fresh >= 0 ? fresh : view.ids[Math.max(0, word)];
    const chosen = view.ids.includes(state.chosen[kind]) ? state.chosen[kind] : usual;
    tokens.update(view, chosen, fresh);
    looked.update(view, chosen);
    const merged = isBpe && state.at ? `merge ${state.at}: ${value.steps[state.at].merge.join(" + ")}, ` : "";
    spoken.say(`${merged}${view.ids.length} ${TITLES[state.kind]}`);
  };
  const update = (/** @type {Board.TokensValue} */ next) => {
    if (next?.text !== value?.text) Object.assign(state, { at: 0, chosen: {} });
    value = next;
    draw();
  };
  /** A link's cut, merge and token; what this text does not have stays as it is. */
  const restore = ({ kind, merge, chosen }) => {
    if (Number.isInteger(kind) && kind in KINDS) state.kind = kind;
    if (Number.isInteger(merge) && merge in value.steps) state.at = merge;
    for (const name of KINDS) if (Number.isInteger(chosen?.[name])) state.chosen[name] = chosen[name];
    draw();
  };
  return { update, state: () => ({ kind: state.kind, merge: state.at, chosen: state.chosen }), restore };
};

export { tokens_board };
