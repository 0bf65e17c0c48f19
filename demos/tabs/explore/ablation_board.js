/* Ask the model: what the lens shows is taken away, and the answer and the held-out accuracy are set beside what they
   were. The lens says what is meant; the board takes a Board.ChecksValue. */
import { buildPanel, buildSegment, button, el, live } from "../../../hf_attn/viz/web/core/dom.js";
import { named, number, percent, range, shown, sum } from "../../../hf_attn/viz/web/core/format.js";
import { onLook } from "../../../hf_attn/viz/web/core/theme.js";
import { keepLines, takeRow } from "../../../hf_attn/viz/web/export/buttons.js";
import { lens as lensState } from "../../../hf_attn/viz/web/lens/explore_board.js";
import { nameAt } from "../../../hf_attn/viz/web/lens/facts.js";
import { headGrid } from "../../../hf_attn/viz/web/plots/head_grid.js";
import { paintSigned, signedColour } from "../../../hf_attn/viz/web/plots/signed_colours.js";
import { symbolStrip, tokenStrip } from "../../../hf_attn/viz/web/plots/token_strip.js";
import { rolesPanel, shades, theoryPanel } from "./ablation_panels.js";
import { layersPanel } from "./layers.js";
import { predictionsPanel } from "./predictions.js";

/** @import {LensView} from "../../../hf_attn/viz/web/lens/explore_board.js" */
/** The lens's view, with the chosen head in words.
    @typedef {LensView & {name?: string, several?: boolean, place?: string}} Chosen */
/** @typedef {Board.ChecksValue & {counts: DOMStringMap}} ChecksView */

const NAMES = {
  encoder: "encoder self-attention",
  decoder: "decoder self-attention",
  cross: "cross-attention",
};
const WHATS = { head: "this head", layer: "this layer", edge: "this edge", token: "a token" };
const HOWS = { remove: "remove", uniform: "uniform weights", permute: "permuted weights" };
const points = x => number(100 * x, 1);

/** The lens in words, for what is asked of it. */
const describe = (/** @type {LensView} */ lens) => {
  if (!lens?.data) return lens;
  const { data, kind, layer, head } = lens;
  const several = data.maps.length * data.maps[0].length > 1;
  const name = data.title ? "the alignment" : NAMES[kind];
  return { ...lens, name, several, place: several ? `layer ${layer + 1}, head ${head + 1} of ${name}` : name };
};

/* ---- the question ---- */

const questionOf = (host, trigger) => {
  const ask = { what: "head", how: "remove", token: null, seed: 0 };
  /** @type {[ChecksView, Chosen, string[]]} */
  let [view, lens, offered] = [null, null, []];
  const what = buildSegment("What is changed", i => set({ what: offered[i] }));
  const how = buildSegment("How it is changed", i => set({ how: Object.keys(HOWS)[i] }));
  const seed = Object.assign(el("input"), { type: "number", min: "0", step: "1", value: "0" });
  const seeded = el("label", "hf-seed", "seed ", seed);
  const stripHost = el("div", "hf-view");
  const tokens = tokenStrip(stripHost, { onPick: token => set({ token }) });
  const meant = el("p", "hf-meant");
  const press = button("Ask", () => send(), "hf-btn hf-ask-press");
  const problem = el("p", "hf-problem");
  problem.setAttribute("role", "alert");
  seed.oninput = () => set({ seed: Math.max(0, Math.floor(Number(seed.value)) || 0) });
  host.append(el("div", "hf-question", what.element, how.element, seeded, press), meant, stripHost, problem);

  const at = () => {
    if (!lens?.data) return { kind: "cross", layer: 0, head: 0, query: null, key: null };
    const { kind, layer, head } = lens;
    const { query, key } = lens.at; // in the whole input, of which the lens may show a window
    return { kind, layer, head, query: key === null ? null : query, key };
  };
  let sent = null; // what was asked last, and of which input
  const send = () => {
    sent = { id: view.id, asked: { ...ask, ...at() } };
    trigger("ask_model", sent.asked);
  };
  const set = patch => {
    Object.assign(ask, patch);
    show();
  };
  const edge = () => {
    const { data, row, key } = lens;
    if (key === null) return { no: "No cell is chosen: choose one in the map above." };
    const [reads, read] = [nameAt(data, "row", row), nameAt(data, "col", key)];
    if (data.allowed && !data.allowed[row][key])
      return { no: `${reads} may not read ${read}: the cell is masked, there is nothing to remove.` };
    return { text: [el("span", "hf-q", reads), " reads ", el("span", "hf-k", read), ` in ${lens.place}`] };
  };
  const layerName = () => (lens.several ? `the ${lens.name} of layer ${lens.layer + 1}` : lens.place);
  /** What would be asked: {text: nodes} or {no: why not}. */
  const meaning = () => {
    if (ask.what === "token") {
      if (ask.token === null) return { no: "No token is chosen: choose one of the input's." };
      return { text: ["the input without ", el("span", "hf-k", named(view.source, ask.token))] };
    }
    if (ask.what === "edge") return edge();
    return { text: [ask.what === "head" ? lens.place : layerName()] };
  };
  const show = () => {
    if (!view) return;
    const heads = lens?.data ? lens.data.maps[0].length : 0;
    const suits = { head: heads && !lens.mean, layer: heads > 1, edge: heads && !lens.mean, token: true };
    offered = Object.keys(WHATS).filter(name => suits[name]);
    if (!offered.includes(ask.what)) ask.what = offered[0];
    if (ask.token !== null && ask.token >= view.source.length) ask.token = null;
    const whole = ask.what === "head" || ask.what === "layer";
    what.update(
      offered.map(name => (name === "head" && !lens.several ? "the one map" : WHATS[name])),
      offered.indexOf(ask.what),
    );
    how.update(Object.values(HOWS), Object.keys(HOWS).indexOf(ask.how));
    how.element.hidden = !whole;
    seeded.hidden = !whole || ask.how !== "permute";
    stripHost.hidden = ask.what !== "token";
    tokens.update({ labels: view.source, weights: null, chosen: ask.token, name: "The token to leave out" });
    const { no, text } = view.no_answer ? { no: view.no_answer, text: [] } : meaning();
    meant.replaceChildren(no ? el("span", "", no) : el("span", "", "This asks about ", ...text, "."));
    press.disabled = Boolean(no);
    problem.hidden = !view.error;
    problem.textContent = view.error;
  };
  const update = (/** @type {ChecksView} */ next, /** @type {Chosen} */ at) => {
    if (view && next.id !== view.id) ask.token = null;
    [view, lens] = [next, at];
    show();
  };
  /** What was asked of this input; null where nothing was. */
  const state = () => (view.answer && sent?.id === view.id ? sent.asked : null);
  const isPlace = place => place === null || Number.isInteger(place);
  const restore = (asked, id) => {
    const { what, how, token, kind, ...places } = asked;
    const named = [Object.hasOwn(WHATS, what), Object.hasOwn(HOWS, how), Object.hasOwn(NAMES, kind)];
    if (named.includes(false) || ![token, ...Object.values(places)].every(isPlace)) return;
    Object.assign(ask, { what, how, token, seed: asked.seed ?? 0 });
    seed.value = String(ask.seed);
    sent = { id, asked };
    trigger("ask_model", asked);
  };
  /** Ask what is left without the head that is shown. */
  const takeHead = () => {
    set({ what: "head", how: "remove" });
    send();
  };
  return { update, state, restore, takeHead };
};

/* ---- the answer ---- */

const VERDICTS = { true: "right", false: "wrong" };
const verdict = correct => {
  if (correct === null) return null;
  return el("span", correct ? "hf-verdict" : "hf-verdict no", el("i", correct ? "yes" : "no"), VERDICTS[correct]);
};
const written = (title, /** @type {Board.AblationAnswer} */ answer, isAfter) => {
  const tokens = answer.symbols.length ? answer.symbols : ["nothing"];
  const symbols = symbolStrip(tokens, answer.changed);
  if (isAfter && answer.correct !== false) symbols.classList.add("other");
  return el("div", "hf-said", el("h3", "", title), el("div", "hf-said-line", symbols, verdict(answer.correct)));
};
const movedOf = (/** @type {Board.AblationChange["moved"]} */ moved) => {
  const chips = moved.map(([symbol, varied, diverged]) => {
    const chip = el("span", "", el("b", "", shown(symbol)), el("small", "", number(varied, 2)));
    chip.dataset.value = String(-varied);
    chip.dataset.end = "1";
    chip.title = `total variation ${number(varied, 3)}, KL divergence ${number(diverged, 3)} nats`;
    return chip;
  });
  return el("div", "hf-moved-by", ...chips);
};

const LIKELIEST = {
  next: "The likeliest token behind each, whole model",
  masked: "The likeliest token at each place, whole model",
  written: "The likeliest token at each place of the target, whole model",
};
const MOVES = "How far the distribution of each place moves";

const answerOf = host => {
  const box = el("div", "hf-answered");
  const said = live();
  host.append(box, said.element);
  /** @type {Board.AblationChange} */
  let answer = null;
  let drawn = null;
  const lines = () => [
    ["place", "symbol", "after", "total variation", "KL divergence in nats"],
    ...(answer?.moved || []).map(([symbol, varied, diverged], i) => [
      i + 1,
      symbol,
      answer.after.symbols[i] ?? "",
      varied,
      diverged,
    ]),
  ];
  const caption = () => `${answer?.what}: each symbol of the answer, and how far its distribution moves`;
  const take = takeRow({ file: () => "ask-the-model", caption, lines, figure: () => ({ drawings: [] }) });
  const paint = () => box.isConnected && paintSigned(box);
  onLook(box, paint);
  const differs = (/** @type {Board.AblationChange} */ { differ, before, places }) => {
    const many = before.symbols.length;
    if (places) return `At ${differ} of ${many} place${many === 1 ? "" : "s"} another token is the likeliest.`;
    return differ
      ? `${differ} of ${many} symbol${many === 1 ? " differs" : "s differ"}.`
      : "The answer stays the same: this input does not need it.";
  };
  const show = (/** @type {ChecksView} */ view) => {
    answer = view.answer;
    const key = JSON.stringify([answer?.what, answer?.option, answer?.after, answer?.moved, view.id, view.no_answer]);
    if (key === drawn) return; // only the held-out part has changed
    drawn = key;
    if (!answer) {
      said.say("");
      const what = view.predictions ? "what is expected at each place is" : "the answers with and without are";
      const why = view.no_answer || `After Ask, ${what} compared here, symbol by symbol.`;
      box.replaceChildren(el("p", "hf-blank", why));
      return;
    }
    const isText = Boolean(answer.places);
    const own = isText || view.is_own ? "" : " It is asked of what the model writes itself, not of the target above.";
    const shorter = answer.is_shorter && answer.after.correct !== null ? " Both are judged by the whole input." : "";
    const several = answer.moved.length > 1;
    box.replaceChildren(
      written(isText ? LIKELIEST[view.predictions.what] : "Answer of the whole model", answer.before, false),
      written(answer.what, answer.after, true),
      el("p", "hf-differs", el("b", "", differs(answer)), shorter, own),
      el(
        "h3",
        "",
        isText ? MOVES : several ? "How far each symbol's distribution moves" : "How far its distribution moves",
      ),
      movedOf(answer.moved),
      el(
        "p",
        "hf-hint",
        `Total variation, 0 to 1${several && !isText ? ", each after the first answer's symbols before it" : ""}.`,
      ),
      answer.option
        ? el("p", "hf-hint", "The same, counted from 0: ", el("code", "", `hf-attn ablate … ${answer.option}`))
        : "",
      take.row,
      take.below,
    );
    take.refresh();
    paint();
    said.say(`${answer.what}: ${answer.after.symbols.join(" ")}. ${differs(answer)}`);
  };
  return { update: show };
};

/* ---- held-out accuracy ---- */

const fallOf = (/** @type {ChecksView} */ { answer, can_count: can, counts }) => {
  const held = answer?.held_out;
  if (!can) return [el("p", "hf-hint", "This checkpoint names no task, so there are no held-out examples.")];
  const most = `${counts.examples} held-out examples`;
  if (!held) return [el("p", "hf-hint", `Ask, and the accuracy with and without is measured on ${most}.`)];
  if (held.why) return [el("p", "hf-hint", held.why)];
  if (held.status) return [el("p", "hf-hint hf-busy", `Answering ${most}, with and without…`)];
  const lost = held.drop > 2 * held.error && held.drop > 0;
  const big = el(
    "p",
    "hf-fall",
    el("span", "", percent(held.whole)),
    el("small", "", "→"),
    el("b", lost ? "lost" : "", percent(held.left)),
    el("small", "", `± ${points(2 * held.error)}`),
  );
  const range = `95 % interval of what is left ${percent(held.low)} to ${percent(held.high)}`;
  const how = `${answer.what}; ${held.examples} examples that training never saw; ± is twice the standard error of the difference; ${range}.`;
  return [big, el("p", "hf-hint", how)];
};

const accuracyOf = (host, trigger) => {
  const fall = el("div");
  const name = el("h3");
  const note = el("p", "hf-hint");
  const gridHost = el("div", "hf-left");
  const grid = headGrid(gridHost, { onPick: (layer, head) => lensState.pick({ layer, head }) });
  const press = button("Without each head", () => trigger(running ? "stop_heads" : "each_head", {}));
  /** @type {[ChecksView, Chosen, boolean]} */
  let [view, lens, running] = [null, null, false];
  const lines = () => [
    ["kind", "layer", "head", "left", "low", "high", "lost", "standard error"],
    ...(view?.each?.rows || []).map(r => [r.kind, r.layer + 1, r.head + 1, r.left, r.low, r.high, r.drop, r.error]),
  ];
  const caption = () => `Held-out accuracy without each head; with all of them ${percent(view?.each?.whole)}`;
  const tell = (/** @type {Board.RemovedHead} */ row) =>
    `${percent(row.left)} without it, lost ${points(row.drop)} ± ${points(2 * row.error)}`;
  /** What is left without each head of the map's kind, layer by layer; null where it is not known yet. */
  const readLeft = () => {
    const left = view.heads[lens.kind].map(count => Array(count).fill(null));
    for (const row of view.each.rows.filter(r => r.kind === lens.kind)) {
      const [text, value] = [number(100 * row.left, 0), -Math.max(0, row.drop)];
      left[row.layer][row.head] = { text, title: tell(row), value };
    }
    return left;
  };
  /** The grid as a picture. */
  const shaded = theme => {
    if (!view?.each?.rows.some(r => r.kind === lens.kind)) return null;
    const left = readLeft();
    const cells = left.map(row =>
      row.map(cell => cell && { text: cell.text, rgb: signedColour(theme, cell.value, 1) }),
    );
    const cols = range(Math.max(...view.heads[lens.kind])).map(h => `head ${h + 1}`);
    return { rows: left.map((_, l) => `layer ${l + 1}`), cols, cells };
  };
  const picture = shades(gridHost, shaded);
  const figure = () => ({ title: "Without each head", drawings: picture.drawings() });
  const take = takeRow({ file: () => "without-each-head", caption, lines, picture, figure });
  const each = el("div", "hf-each", name, press);
  host.append(el("h3", "", "Held-out accuracy"), fall, each, note, gridHost, take.row, take.below);
  let drawn = null;
  const showGrid = () => {
    const left = readLeft();
    const key = JSON.stringify(left);
    if (key !== drawn?.key) drawn = { key, left };
    grid.update({ left: drawn.left, layer: lens.layer, head: lens.head });
  };
  const sentence = (/** @type {Board.EachHead} */ each) => {
    if (!each)
      return "Ask tests the choice above. This removes each head in turn and shows the held-out accuracy that is left, in %.";
    const done = `${each.done} of ${each.of} heads`;
    const of = `${lens.name}; with every head ${percent(each.whole)}, on ${each.examples} held-out examples.`;
    const whole = Number.isFinite(each.whole) ? of : "";
    const begun = { running: `${done}. `, stopped: `Stopped after ${done}. ` }[each.status] ?? "";
    return begun + whole;
  };
  const update = (/** @type {ChecksView} */ next, /** @type {Chosen} */ at) => {
    [view, lens] = [next, at];
    const each = view.each;
    running = each?.status === "running";
    fall.replaceChildren(...fallOf(view));
    const count = sum(Object.values(view.heads).flat());
    const can = Boolean(view.can_count && count > 1 && lens?.data && view.heads[lens.kind]);
    for (const part of [name.parentElement, note]) part.hidden = !can;
    name.textContent = each ? "Left without each head, in %" : "All heads";
    press.textContent = running ? "Stop" : each ? "Run on all heads again" : "Without each head";
    for (const part of [gridHost, take.row, take.below]) part.hidden = !can || !each;
    if (!can) return;
    note.textContent = sentence(each);
    if (each) showGrid();
    picture.update(`${caption()}, in %, ${lens.name}`);
    keepLines(host, { python: each?.python || "" });
    take.refresh();
  };
  return { update };
};

/* ---- the board ---- */

const checks_board = (element, trigger) => {
  const root = element.querySelector(".hf-checks");
  const expected = predictionsPanel(root, { take: () => question.takeHead() });
  const panel = buildPanel(root, "Ask the model", {
    note: "a map shows where a head looks, not what the answer needs; so take it away and count",
    cls: "hf-ask-panel",
  });
  const blank = el("p", "hf-blank", "Choose a checkpoint and an input above; what is removed will be named here.");
  const asking = el("div");
  const [left, right] = [el("div"), el("div")];
  const two = el("div", "hf-checks-two", left, right);
  panel.body.append(blank, asking, two);
  const question = questionOf(asking, trigger);
  const answer = answerOf(left);
  const accuracy = accuracyOf(right, trigger);
  const layers = layersPanel(root, trigger);
  const pair = el("div", "hf-checks-pair");
  root.append(pair);
  const panels = [rolesPanel(pair, trigger), theoryPanel(pair)];
  /** @type {[ChecksView, Chosen, ReturnType<typeof setTimeout>]} */
  let [view, lens, later] = [null, null, null];

  const descend = () => {
    // the chosen head's energies, once it stays chosen
    const place = `${lens.kind}.${lens.layer}.${lens.head}`;
    if (!view.heads[lens.kind] || view.energies[place] || view.measured?.why) return;
    trigger("descend", { kind: lens.kind, layer: lens.layer, head: lens.head });
  };
  const show = () => {
    if (view && lens?.id !== view.id) return; // one of the two has yet to come
    blank.hidden = Boolean(view);
    asking.hidden = two.hidden = !view;
    pair.hidden = !view?.measured || !lens?.data;
    if (view) {
      question.update(view, lens);
      answer.update(view);
      accuracy.update(view, lens);
    }
    expected.update(view, lens);
    layers.update(view, lens);
    panels.forEach(one => one.update(view, lens));
    clearTimeout(later);
    if (view && lens?.data) later = setTimeout(descend, 250);
  };
  lensState.listen(root, next => {
    lens = describe(next);
    show();
  });
  const update = (/** @type {Board.ChecksValue} */ value) => {
    view = value && { ...value, counts: root.dataset };
    show();
  };
  const state = () => ({ asked: view && question.state(), each: Boolean(view?.each) });
  const restore = ({ asked, each }) => {
    if (asked && typeof asked === "object") question.restore(asked, view.id);
    if (each === true) trigger("each_head", {});
  };
  return { update, state, restore };
};

export { checks_board };
