/* Panels of the Try tab beside its map: the answer with its verdict, what a step chose from, and the other answers,
   of a beam search with its tree. Each is tryPanels.name(host, …) with update(state), where state is
   the `State` of try_board.js. */
import { buildPanel, button, childrenOf, el } from "../../../hf_attn/viz/web/core/dom.js";
import { number, shown } from "../../../hf_attn/viz/web/core/format.js";
import { buildTable, cells } from "../../../hf_attn/viz/web/core/table.js";
import { takeAway } from "../../../hf_attn/viz/web/export/buttons.js";
import { parseTree } from "../../../hf_attn/viz/web/plots/parse_tree.js";
import { symbolStrip } from "../../../hf_attn/viz/web/plots/token_strip.js";
import { beamTree } from "./beam_tree.js";
import { distribution } from "./distribution.js";

const LONG = 40; // symbols of an answer, from where on it stands there as a text, too

/** @import {State, View} from "./try_board.js" */

const verdict = () => {
  const box = el("span", "hf-verdict");
  const update = (/** @type {Partial<View>} */ { correct, check, answer }) => {
    const known = correct === true || correct === false;
    const words =
      correct === false
        ? ["wrong", answer ? `is ${answer}` : check].filter(Boolean).join(", ")
        : check || (correct ? "right" : "no check for this task");
    box.className = "hf-verdict" + (correct === false ? " no" : "");
    box.replaceChildren(known ? el("i", correct ? "yes" : "no") : "", words);
  };
  return { element: box, update };
};

/** Which of several answers is looked at, in words. */
const nameView = (/** @type {State} */ { value, view }) => {
  if (view.branch) return `a branch of the beam tree, ${view.branch}`;
  if (value.seeds) return `draw with seed ${value.seeds[view.rank]}`;
  return value.others?.length ? `answer ${view.rank + 1} of ${value.others.length + 1}` : "";
};

const answer = host => {
  const panel = buildPanel(host, "Answer");
  const said = verdict();
  const written = el("div", "hf-answer");
  const treeHost = el("div");
  const text = el("p", "hf-mono hf-astext");
  const whole = el("p", "hf-mono hf-astext");
  const tree = parseTree(treeHost);
  const showText = () => {
    text.hidden = !text.hidden;
    asText.textContent = text.hidden ? "Show as text" : "Hide text";
    asText.setAttribute("aria-expanded", String(!text.hidden));
  };
  const asText = button("Show as text", showText, "");
  asText.setAttribute("aria-expanded", "false");
  asText.dataset.opens = "text";
  text.hidden = true;
  panel.header.append(said.element);
  panel.body.append(written, whole, treeHost, text);
  takeAway(panel, { picture: tree, file: () => "tree" });
  panel.footer.append(el("div", "hf-take", asText));

  const draw = (/** @type {View} */ { passage, written: symbols = [], wrong }, /** @type {boolean} */ isClass) => {
    if (passage) return el("p", "hf-passage", el("span", "hf-quiet", passage.prompt), el("b", "", passage.text));
    return symbolStrip(
      symbols.map(w => w.token),
      wrong,
      isClass ? String : shown,
    );
  };
  const update = (/** @type {State} */ state) => {
    const { value, view } = state;
    const hasTree = Boolean(view?.tree);
    const isClass = Boolean(value?.removal);
    const how = isClass ? "as the model reads it" : hasTree ? "as the model wrote it" : "symbol by symbol";
    const note = value ? [nameView(state) || how, value.order, value.split].filter(Boolean).join("; ") : "";
    panel.rename(hasTree ? "Tree" : isClass ? "Class" : "Answer", note);
    said.element.hidden = !value || Boolean(view.branch);
    said.update(view || {});
    written.hidden = hasTree;
    written.replaceChildren(...(value ? [draw(view, isClass)] : []));
    treeHost.hidden = panel.footer.hidden = !hasTree;
    tree.update(view?.tree || null);
    text.textContent = view?.text ?? (view?.written || []).map(w => w.token).join(" ");
    if (!hasTree) text.hidden = true;
    const isLong = view?.written.length > LONG;
    whole.hidden = hasTree || !view?.text || !(value.order || isLong);
    for (const part of [written, whole]) part.tabIndex = isLong ? 0 : -1; // they scroll
    whole.textContent = `As text: ${view?.text ?? ""}`;
  };
  return { update };
};

/** What temperature does where nothing is drawn. */
const remark = (/** @type {State} */ { value, how }) => {
  if (!value?.how || how.temperature === 1) return "";
  const { samples, title } = hfAttn.strategies[how.strategy];
  return samples ? "" : `Temperature does not change which symbol is likeliest: ${title} uses the marks.`;
};

/** A line that says so when the answer is of other settings than the sliders, with a button to write anew. */
const staleLine = onRewrite => {
  const words = el("span");
  const line = el("p", "hf-stale hf-notice", words, button("Write again", onRewrite));
  line.setAttribute("role", "status");
  const update = (/** @type {State} */ { value, how }) => {
    const draws = value?.seeds && how;
    const names = draws ? { temperature: ["temperature"], ...hfAttn.strategies[how.strategy].own } : {};
    const others = Object.keys(names).filter(name => value.how[name] !== how[name]);
    const was = others.map(name => `${names[name][0]} ${value.how[name]}`).join(", ");
    line.hidden = !others.length;
    words.textContent = `The answer was written with ${was}; only the bars have changed.`;
  };
  return { element: line, update };
};

const steps = (host, onStep, onRewrite) => {
  const panel = buildPanel(host, "What could come next");
  const chips = el("div", "hf-steps");
  const dist = el("div");
  const bars = distribution(dist);
  /** @type {State} */
  let now = null;
  chips.setAttribute("role", "group");
  chips.setAttribute("aria-label", "Step of the answer");
  const stale = staleLine(onRewrite);
  panel.body.append(chips, stale.element, dist);
  const refresh = takeAway(panel, {
    picture: bars,
    file: () => `step-${now.step + 1}`,
    lines: bars.lines,
    caption: () => `What step ${now.step + 1} could have written`,
  });
  const chip = (/** @type {Board.WrittenSymbol} */ w, i, wrong, chosen) => {
    const b = button(shown(w.token), () => onStep(i), wrong ? "wrong" : "");
    b.append(el("small", "", number(w.probability, 2)));
    b.setAttribute("aria-pressed", String(chosen));
    if (wrong) b.append(el("span", "hf-sr", "wrong"));
    return b;
  };
  /** @returns {[string, string]} */
  const title = (/** @type {State} */ { value, view, step }) => {
    if (!value) return ["What could come next", ""];
    if (value.removal) return ["What the text could be", "every class with its probability"];
    const first = Math.max(0, step - 12);
    const before = [first ? "…" : "", ...view.written.slice(first, step).map(w => shown(w.token))].join(" ").trim();
    return [`Step ${step + 1}: what could come next`, before ? "after " + before : "after nothing yet"];
  };
  const update = (/** @type {State} */ state) => {
    now = state;
    const { value, view, step, how } = state;
    const written = view?.written || [];
    stale.update(state);
    panel.rename(...title(state));
    const focused = childrenOf(chips).indexOf(/** @type {HTMLElement} */ (document.activeElement));
    chips.hidden = Boolean(value?.removal); // one step, and it stands beside
    chips.replaceChildren(...written.map((w, i) => chip(w, i, view.wrong?.[i], i === step)));
    if (focused >= 0) childrenOf(chips)[focused]?.focus();
    const at = childrenOf(chips)[step]; // many chips scroll by themselves, the page stays
    if (at) chips.scrollTop = at.offsetTop - chips.offsetTop - chips.clientHeight / 2;
    const from = value?.distributions?.[view.steps?.[step]];
    dist.hidden = panel.footer.hidden = !from;
    if (from) {
      const what = value.removal ? "class" : "symbol";
      bars.update(from, value.removal ? null : how, { what, written: written[step]?.token, note: remark(state) });
      refresh();
    }
  };
  return { update };
};

/* ---- beams, or several draws ---- */

const marks = () => {
  const mark = (cls, words) => el("span", "", el("i", cls), words);
  return el("div", "hf-marks", mark("full", "shown above"), mark("", "kept"), mark("gone", "dropped"));
};

const table = onAnswer => {
  const body = el("tbody");
  const seed = el("span");
  const heads = [seed, "answer", ["log p", "num"], ["÷ length", "num len"], "check"];
  const element = buildTable("hf-ends", heads, body);
  const row = (/** @type {State} */ { value, view }, /** @type {Board.Answer} */ one, i) => {
    const chip = (w, k) =>
      el("span", "hf-tok" + (i && w.token !== value.written[k]?.token ? " other" : ""), shown(w.token));
    const told = one.passage
      ? el("p", "hf-passage", one.passage.text)
      : el("div", "hf-tokens", ...one.written.map(chip));
    const [place, name] = value.seeds ? [value.seeds[i], "the draw with seed"] : [i + 1, "answer"];
    const isShown = !view.branch && view.rank === i;
    const press = button(String(place), () => onAnswer(i));
    press.setAttribute("aria-pressed", String(isShown));
    press.setAttribute("aria-label", `Show ${name} ${place}`);
    return el(
      "tr",
      isShown ? "won" : "",
      ...cells("", press, told),
      el("td", "num", number(one.log_probability, 2)),
      el("td", "num len", number(one.per_token, 3)),
      el("td", one.correct === false ? "no" : "", { true: "right", false: "wrong" }[one.correct] ?? ""),
    );
  };
  const update = (/** @type {State} */ state) => {
    const { value } = state;
    const all = [value, ...(value.others || [])];
    seed.textContent = value.seeds ? "seed" : "";
    const focused = [...body.querySelectorAll("button")].indexOf(/** @type {HTMLElement} */ (document.activeElement));
    body.replaceChildren(...all.map((one, i) => row(state, one, i)));
    if (focused >= 0) body.querySelectorAll("button")[focused]?.focus();
  };
  return { element, update };
};

const others = (host, onAnswer, onNode) => {
  const panel = buildPanel(host);
  const treeHost = el("div", "hf-beams");
  const legend = marks();
  const tree = beamTree(treeHost, { onPick: onNode });
  const answers = table(onAnswer);
  panel.header.append(legend);
  panel.body.append(treeHost, answers.element);
  const refresh = takeAway(panel, {
    picture: tree,
    file: () => "beam-tree",
    lines: tree.lines,
    caption: () => "Every symbol of the beam tree, from the first step on",
  });
  const update = (/** @type {State} */ state) => {
    const { value, view } = state;
    const all = value?.others || [];
    const beams = value?.beams;
    panel.section.hidden = !all.length && !beams;
    if (panel.section.hidden) return;
    const note = beams
      ? `${value.how.num_beams} beams; below each symbol the sum of log p so far; of the dropped, the two likeliest of each step`
      : `drawn with seeds that follow one another, at temperature ${number(value.how.temperature, 1)}`;
    panel.rename(beams ? "Beam tree" : "Several draws", note);
    treeHost.hidden = legend.hidden = panel.footer.hidden = !beams;
    tree.update(beams ? { ...beams, chosen: view.node, path: view.end } : null);
    refresh();
    answers.update(state);
  };
  return { update };
};

const tryPanels = { answer, steps, others };

export { tryPanels };
