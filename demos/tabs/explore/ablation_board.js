/* What is removed under the lens's map, and the answer without it beside the whole model's; how many heads are counted,
   under the lens's heads; below, in the fold for researchers, all that is measured besides. It takes a
   Board.ChecksValue, and puts its first two parts into the lens's slots. */
import { buildPanel, buildSegment, button, el, live, scrollRegion, sentAt } from "../../../hf_attn/viz/web/core/dom.js";
import { count, number, percent, range, shown } from "../../../hf_attn/viz/web/core/format.js";
import { onLook } from "../../../hf_attn/viz/web/core/theme.js";
import { keepLines, takeAway, takeRow } from "../../../hf_attn/viz/web/export/buttons.js";
import { lens as lensState } from "../../../hf_attn/viz/web/lens/explore_board.js";
import { nameAt } from "../../../hf_attn/viz/web/lens/facts.js";
import { paintSigned, signedColour } from "../../../hf_attn/viz/web/plots/signed_colours.js";
import { tokenStrip } from "../../../hf_attn/viz/web/plots/token_strip.js";
import { rolesPanel, shades, theoryPanel } from "./ablation_panels.js";
import { followFields } from "./input_row.js";
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
const WHATS = { nothing: "nothing", head: "this head", edge: "edge", token: "token", layer: "layer" };
const HOWS = { remove: "remove", uniform: "uniform weights", permute: "permuted weights" };
const CLOSE = 16; // letters of an answer from which on its symbols stand closer
const ASK_MS = 150; // an arrow key held down asks once
const [LOST, LESS] = [0.75, 0.97]; // shares right below which a head's number is rust, and bold

/** The lens in words, for what is asked of it. */
const describe = (/** @type {LensView} */ lens) => {
  if (!lens?.data) return lens;
  const { data, kind, layer, head } = lens;
  const several = data.maps.length * data.maps[0].length > 1;
  const name = data.title ? "the alignment" : NAMES[kind];
  return { ...lens, name, several, place: several ? `layer ${layer + 1}, head ${head + 1} of ${name}` : name };
};

/* ---- what is removed ---- */

/** Asks as soon as something is chosen: `remove` under the map, how it is changed among what researchers ask for. */
const questionOf = (host, howHost, trigger) => {
  const ask = { what: "head", how: "remove", token: null, seed: 0 };
  /** @type {[ChecksView, Chosen, string[]]} */
  let [view, lens, offered] = [null, null, []];
  const what = buildSegment("What to remove", i => set({ what: offered[i] }));
  const how = buildSegment("How the head or the layer is changed", i => set({ how: Object.keys(HOWS)[i] }));
  const seed = Object.assign(el("input"), { type: "number", min: "0", step: "1", value: "0" });
  const seeded = el("label", "hf-seed", "seed ", seed);
  const stripHost = el("div", "hf-view");
  const tokens = tokenStrip(stripHost, { onPick: token => set({ token }) });
  const label = el("span", "hf-label", "Remove");
  const meant = el("p", "hf-meant");
  const problem = el("p", "hf-problem");
  problem.setAttribute("role", "alert");
  seed.oninput = () => set({ seed: Math.max(0, Math.floor(Number(seed.value)) || 0) });
  host.append(el("div", "hf-remove", label, what.element), stripHost, meant, problem);
  howHost.append(el("span", "hf-label", "How a head or a layer is changed"), how.element, seeded);

  const at = () => {
    if (!lens?.data) return { kind: "cross", layer: 0, head: 0, query: null, key: null };
    const { kind, layer, head } = lens;
    const { query, key } = lens.at; // in the whole input, of which the lens may show a window
    return { kind, layer, head, query: key === null ? null : query, key };
  };
  let sent = null; // what was asked last, and of which input
  let asking = null;
  const send = (more = {}) => {
    const asked = { ...ask, ...at() };
    // an edge hangs on the cell, the others do not
    if (ask.what !== "edge") Object.assign(asked, { query: null, key: null });
    const key = JSON.stringify([view.id, asked]);
    Object.assign(asked, more);
    if (sent?.key === key && !more.by_kind) return;
    sent = { key, id: view.id, asked };
    clearTimeout(asking);
    asking = setTimeout(() => trigger("ask_model", { ...asked, sent_at: sentAt() }), ASK_MS);
  };
  const set = patch => {
    Object.assign(ask, patch);
    show();
  };
  /** Why nothing can be asked; empty where it can. */
  const refusal = () => {
    if (view.no_answer) return view.no_answer;
    if (ask.what === "token") return ask.token === null ? "Choose the token to leave out." : "";
    if (ask.what !== "edge") return "";
    if (lens.key === null) return "No cell is chosen: choose one in the map above.";
    if (!lens.data.allowed || lens.data.allowed[lens.row][lens.key]) return "";
    const [reads, read] = [nameAt(lens.data, "row", lens.row), nameAt(lens.data, "col", lens.key)];
    return `${reads} may not read ${read}: the cell is masked, there is nothing to remove.`;
  };
  const show = () => {
    if (!view) return;
    const heads = lens?.data ? lens.data.maps[0].length : 0;
    const suits = {
      nothing: true,
      head: heads && !lens.mean,
      edge: heads && !lens.mean,
      token: true,
      layer: heads > 1,
    };
    offered = Object.keys(WHATS).filter(name => suits[name]);
    if (!offered.includes(ask.what)) ask.what = lens?.mean ? "layer" : "nothing";
    if (ask.token !== null && ask.token >= view.source.length) ask.token = null;
    const whole = ask.what === "head" || ask.what === "layer";
    what.update(
      offered.map(name => (name === "head" && !lens.several ? "the one map" : WHATS[name])),
      offered.indexOf(ask.what),
    );
    how.update(Object.values(HOWS), Object.keys(HOWS).indexOf(ask.how));
    howHost.hidden = !whole;
    seeded.hidden = ask.how !== "permute";
    stripHost.hidden = ask.what !== "token";
    tokens.update({ labels: view.source, weights: null, chosen: ask.token, name: "The token to leave out" });
    const no = refusal();
    meant.textContent = no;
    meant.hidden = !no;
    host.classList.toggle("hf-unasked", Boolean(no)); // the answer that stands there is to another question
    problem.hidden = !view.error;
    problem.textContent = view.error;
    host.hidden = Boolean(view.no_answer);
    if (!no) send();
  };
  const update = (/** @type {ChecksView} */ next, /** @type {Chosen} */ at) => {
    if (view?.id !== next.id) {
      ask.token = null;
      if (next.removes) Object.assign(ask, { what: next.removes, how: "remove" });
      if (lens === null && !at?.data) ask.what = "nothing";
    }
    [view, lens] = [next, at];
    show();
  };
  /** What was asked of this input; null where nothing was. */
  const state = () => (view?.answer && sent?.id === view.id ? sent.asked : null);
  const isPlace = place => place === null || Number.isInteger(place);
  const restore = asked => {
    const { what, how, token, seed: drawn, kind, layer, head, query, key } = asked;
    const known = [Object.hasOwn(WHATS, what), Object.hasOwn(HOWS, how), Object.hasOwn(NAMES, kind)];
    if (known.includes(false) || ![token, layer, head, query, key].every(isPlace)) return;
    seed.value = String(drawn ?? 0);
    set({ what, how, token, seed: drawn ?? 0 });
  };
  return { update, state, restore, byKind: () => send({ by_kind: true }) };
};

/* ---- the answers, symbol under symbol ---- */

const answersOf = host => {
  const [labels, strips, shares] = [
    el("div", "hf-said-labels"),
    el("div", "hf-said-strips"),
    el("div", "hf-said-shares"),
  ];
  const verdict = el("p", "hf-verdict-line");
  const said = live();
  const scroll = scrollRegion("The answers, symbol under symbol", "", strips);
  const box = el("div", "hf-said", labels, scroll, shares);
  host.append(box, verdict, said.element);
  const stripOf = (/** @type {Board.AblationAnswer} */ answer, row, isOther) => {
    const tokens = answer.symbols.length ? answer.symbols : ["nothing"];
    const cls = i => (answer.changed[i] ? (isOther ? "other" : "wrong") : "");
    return tokens.map((token, i) => {
      const one = el(answer.changed[i] ? "b" : "span", cls(i), shown(token));
      Object.assign(one.style, { gridRow: String(row), gridColumn: String(i + 1) });
      return one;
    });
  };
  const share = (value, isLost) => el("b", isLost ? "lost" : "", value === null ? "" : percent(value, 0));
  const nameOf = (/** @type {Board.AblationChange} */ { asked: [what, how, , layer, head] }) => {
    const place = {
      head: `${layer + 1}·${head + 1}`,
      layer: `layer ${layer + 1}`,
      edge: "the edge",
      token: "the token",
    };
    return `${how === "remove" || what === "edge" || what === "token" ? "without" : how} ${place[what]}`;
  };
  let drawn = "";
  return (/** @type {ChecksView} */ view) => {
    const { answer, predictions } = view;
    host.hidden = !answer;
    verdict.textContent = answer?.verdict || "";
    if (!answer) {
      said.say("");
      drawn = "";
      return;
    }
    const key = JSON.stringify([view.id, answer]);
    if (key === drawn) return;
    drawn = key;
    const [whole, held] = [answer.asked[0] === "nothing", answer.held_out];
    const isLost = (held.drop ?? 0) > 2 * (held.error ?? 0) && held.drop > 0;
    const isText = Boolean(predictions); // what is expected stands as bars, not as symbols
    scroll.hidden = isText;
    requestAnimationFrame(() => {
      scroll.tabIndex = scroll.scrollWidth > scroll.clientWidth ? 0 : -1; // no stop where nothing scrolls
    });
    box.classList.toggle("text", isText);
    labels.replaceChildren(el("span", "", "whole model"), ...(whole ? [] : [el("span", "", nameOf(answer))]));
    const isOther = answer.after.correct !== false;
    strips.classList.toggle("close", answer.before.symbols.join("").length > CLOSE);
    strips.replaceChildren(...stripOf(answer.before, 1, false), ...(whole ? [] : stripOf(answer.after, 2, isOther)));
    const measured = held.left !== undefined;
    shares.replaceChildren(
      share(measured ? held.whole : null, false),
      ...(whole ? [] : [held.status ? el("span", "hf-busy", "…") : share(measured ? held.left : null, isLost)]),
    );
    box.hidden = isText && !measured && !held.status;
    said.say(`${answer.what}: ${isText ? "" : answer.after.symbols.join(" ")}. ${answer.verdict}`);
  };
};

/* ---- heads, counted behind what is looked at ---- */

const countingOf = (host, trigger) => {
  const words = el("span");
  const bar = el("i", "hf-counted");
  const toggle = () => {
    asked = null; // what was asked may end with this
    trigger(running ? "stop_counting" : "count_heads", {});
  };
  const press = button("Stop", toggle, "hf-btn");
  const line = el("div", "hf-counting", words, bar, press);
  line.setAttribute("role", "status");
  host.append(line);
  let running = false;
  let asked = null;
  /** What stands under each head. */
  const notesOf = (/** @type {ChecksView} */ { each, heads }) => {
    const notes = Object.fromEntries(
      Object.entries(heads).map(([kind, counts]) => [
        kind,
        counts.map(count => range(count).map(() => ({ text: "–", cls: "wait", title: "not counted" }))),
      ]),
    );
    for (const row of each.rows) {
      const isNamed = each.named?.join() === [row.kind, row.layer, row.head].join();
      const cls = [row.left < LOST ? "lost" : row.left < LESS ? "less" : "", isNamed ? "named" : ""];
      notes[row.kind][row.layer][row.head] = {
        text: number(100 * row.left, 0),
        cls: cls.filter(Boolean).join(" "),
        title: `${percent(row.left, 0)} right without it${isNamed ? ", named above" : ""}`,
      };
    }
    return notes;
  };
  return (/** @type {ChecksView} */ view) => {
    const each = view?.each;
    const isCounted = Boolean(each?.of && !each.why);
    lensState.annotate(isCounted ? { title: "Right without this head, %", notes: notesOf(view) } : null);
    line.hidden = !each || (!each.of && !each.why) || Boolean(each.why && !each.of && !view.heads);
    if (!each) return;
    running = each.status === "running" || each.status === "waiting";
    const some = each.heads > each.of && !each.why ? ` counted, of ${count(each.heads)} in all` : "";
    words.textContent =
      each.why || `${each.done} of ${each.of} heads${some}, ${view.counts.examples} ${view.examples} each`;
    bar.style.setProperty("--done", `${(100 * each.done) / (each.of || 1)}%`);
    bar.hidden = Boolean(each.why);
    press.hidden = Boolean(each.why) || each.status === "finished";
    press.textContent = running ? "Stop" : "Count on";
    const place = JSON.stringify([view.id, each.done, each.whole]);
    if (each.status === "waiting" && asked !== place) {
      asked = place;
      trigger("count_heads", {});
    }
  };
};

/** The counts as a table, to be saved. */
const eachPanel = host => {
  const panel = buildPanel(host, "Right answers without each head, %", { cls: "hf-each" });
  /** @type {ChecksView} */
  let view = null;
  const said = el("p", "hf-hint");
  panel.body.append(said);
  const lines = () => [
    ["kind", "layer", "head", "left", "low", "high", "lost", "standard error"],
    ...(view?.each?.rows || []).map(r => [r.kind, r.layer + 1, r.head + 1, r.left, r.low, r.high, r.drop, r.error]),
  ];
  const caption = () => `Held-out accuracy without each head; with all of them ${percent(view?.each?.whole)}`;
  /** All heads as a picture, a row a layer. */
  const shaded = theme => {
    if (!view?.each?.rows.length) return null;
    const layers = Object.entries(view.heads).flatMap(([kind, counts]) =>
      counts.map((heads, l) => ({ kind, heads, l })),
    );
    const cols = range(Math.max(...layers.map(one => one.heads))).map(h => `head ${h + 1}`);
    const cellOf = ({ kind, l }, h) => {
      const row = view.each.rows.find(r => r.kind === kind && r.layer === l && r.head === h);
      return row && { text: number(100 * row.left, 0), rgb: signedColour(theme, -Math.max(0, row.drop), 1) };
    };
    const cells = layers.map(one => cols.map((_, h) => cellOf(one, h) || null));
    return { rows: layers.map(({ kind, l }) => `${kind}, layer ${l + 1}`), cols, cells };
  };
  const picture = shades(panel.body, shaded);
  const figure = () => ({ title: "Without each head", drawings: picture.drawings() });
  const refresh = takeAway(panel, { file: () => "without-each-head", caption, lines, picture, figure });
  return (/** @type {ChecksView} */ next) => {
    view = next;
    const each = view.each;
    panel.section.hidden = !each?.rows.length;
    if (panel.section.hidden) return;
    said.textContent = `${each.done} of ${each.heads} heads; with every head ${percent(each.whole)}, on ${each.examples} held-out examples.`;
    picture.update(caption());
    keepLines(panel.section, { python: each.python });
    refresh();
  };
};

/* ---- how far each prediction moves ---- */

const movedPanel = host => {
  const panel = buildPanel(host, "How much each prediction changes", {
    note: "total variation, 0 = same, 1 = entirely different",
    cls: "hf-changes",
  });
  const chips = el("div", "hf-moved-by");
  const note = el("p", "hf-hint");
  panel.body.append(chips, note);
  /** @type {Board.AblationChange} */
  let answer = null;
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
  const take = takeRow({ file: () => "without", caption, lines, figure: () => ({ drawings: [] }) });
  panel.footer.hidden = false;
  panel.footer.append(take.row);
  panel.section.append(take.below);
  const paint = () => chips.isConnected && paintSigned(chips);
  onLook(chips, paint);
  return (/** @type {ChecksView} */ view) => {
    answer = view.answer;
    panel.section.hidden = !answer || answer.asked[0] === "nothing";
    if (panel.section.hidden) return;
    chips.replaceChildren(
      ...answer.moved.map(([symbol, varied, diverged]) => {
        const chip = el("span", "", el("b", "", shown(symbol)), el("small", "", number(varied, 2)));
        chip.dataset.value = String(-varied);
        chip.dataset.end = "1";
        chip.title = `total variation ${number(varied, 3)}, KL divergence ${number(diverged, 3)} nats`;
        return chip;
      }),
    );
    const own =
      view.is_own || view.predictions ? "" : " It is asked of what the model writes itself, not of the forced answer.";
    const kept =
      answer.moved.length > 1 && !view.predictions ? "The earlier symbols are kept as in the first answer." : "";
    note.replaceChildren(
      `${kept}${own} `,
      ...(answer.option ? [el("code", "", `hf-attn ablate … ${answer.option}`)] : []),
    );
    take.refresh();
    paint();
  };
};

/* ---- the board ---- */

const checks_board = (element, trigger) => {
  const root = element.querySelector(".hf-checks");
  const { slots } = lensState;
  const [asking, answered, expecting] = [el("div"), el("div"), el("div")];
  slots.map.replaceChildren(asking, answered, expecting);
  slots.heads.replaceChildren();
  const how = el("div", "hf-question");
  const question = questionOf(asking, how, trigger);
  const showAnswers = answersOf(answered);
  const expected = predictionsPanel(expecting, { byKind: () => question.byKind() });
  const showCounting = countingOf(slots.heads, trigger);
  root.append(how);
  const pair = el("div", "hf-checks-pair");
  root.append(pair);
  const showMoved = movedPanel(pair);
  const showEach = eachPanel(pair);
  const layers = layersPanel(root, trigger);
  const deep = el("div", "hf-checks-pair");
  root.append(deep);
  const panels = [rolesPanel(deep, trigger), theoryPanel(deep)];
  const showFields = followFields();
  /** @type {[ChecksView, Chosen, ReturnType<typeof setTimeout>]} */
  let [view, lens, later] = [null, null, null];

  const descend = () => {
    // the chosen head's energies, once it stays chosen
    const place = `${lens.kind}.${lens.layer}.${lens.head}`;
    if (!view.heads[lens.kind] || view.energies[place] || view.measured?.why) return;
    trigger("descend", { kind: lens.kind, layer: lens.layer, head: lens.head });
  };
  /** The headline offers the head that it names, where another is shown. */
  const offer = () => {
    const press = /** @type {HTMLElement} */ (document.querySelector("#explore-headline button"));
    if (press) press.hidden = !lens?.data || press.dataset.head === `${lens.kind}.${lens.layer}.${lens.head}`;
  };
  const show = () => {
    root.hidden = !view || !(lens?.more || !lens?.data);
    showCounting(view);
    offer();
    requestAnimationFrame(offer); // the sentence may come behind the value
    if (view && lens?.id !== view.id) return; // one of the two has yet to come
    if (!view) {
      answered.hidden = asking.hidden = true;
      expected.update(null, lens);
      return;
    }
    asking.hidden = false;
    question.update(view, lens);
    showAnswers(view);
    keepLines(slots.map, { python: view.python });
    expected.update(view, lens);
    clearTimeout(later);
    if (root.hidden) return;
    deep.hidden = !view.measured || !lens?.data;
    showMoved(view);
    showEach(view);
    layers.update(view, lens);
    panels.forEach(one => one.update(view, lens));
    if (lens?.data) later = setTimeout(descend, 250);
  };
  lensState.listen(root, next => {
    lens = describe(next);
    show();
  });
  const update = (/** @type {Board.ChecksValue} */ value) => {
    view = value && { ...value, counts: root.dataset };
    showFields(value);
    show();
  };
  const state = () => ({ asked: view && question.state() });
  const restore = ({ asked }) => {
    if (asked && typeof asked === "object") question.restore(asked);
  };
  return { update, state, restore };
};

document.addEventListener("click", event => {
  const target = event.target;
  if (!(target instanceof HTMLElement) || !target.matches("#explore-headline button")) return;
  const [kind, layer, head] = target.dataset.head.split(".");
  lensState.pick({ kind, layer: Number(layer), head: Number(head), mean: false });
});

export { checks_board };
