/* A push or a pull: what was done, how far it is, what came of it, and lines to copy, a Board.ShareValue.
   Until something was pressed it says what will be here: the words of `data-empty`. */
import { buildPanel, button, copyText, el, live } from "../../../hf_attn/viz/web/core/dom.js";

const SHORT = { running: "under way", stopped: "stopped", error: "not done", finished: "done" };
const megabytes = bytes => (bytes / 1e6).toFixed(1);

/** Lines with a button that copies them. */
const codeOf = (/** @type {Board.CodeLines} */ { title, text }) => {
  const code = el("pre", "hf-code", text);
  const copy = button("Copy", async () => {
    copy.textContent = (await copyText(text, code)) ? "Copied" : "Press Ctrl+C";
  });
  copy.setAttribute("aria-label", `Copy: ${title}`);
  code.tabIndex = 0;
  return el("div", "hf-lines", el("header", "", el("h3", "", title), copy), code);
};

const stepOf = (/** @type {Board.TransferStep} */ { message }, isNow) => {
  const line = el("li", isNow ? "now" : "", message);
  if (isNow) line.setAttribute("aria-current", "step");
  return line;
};

const barOf = (/** @type {Board.ShareValue} */ { done, total, status }) => {
  if (status !== "running" || !total || done >= total) return null;
  const bar = Object.assign(el("progress"), { max: total, value: done });
  bar.setAttribute("aria-label", `${megabytes(done)} of ${megabytes(total)} MB`);
  return bar;
};

const resultOf = (/** @type {Board.TransferResult} */ result) => {
  const title = el(result.verified ? "p" : "div", result.verified ? "hf-verified" : "hf-error", result.title);
  const link = el("a", "hf-mono", result.url);
  if (/^https?:\/\//.test(result.url)) link.href = result.url;
  Object.assign(link, { target: "_blank", rel: "noopener noreferrer" });
  const facts = result.facts.flatMap(([name, text]) => [el("dt", "", name), el("dd", "hf-mono", text)]);
  const differences = result.differences.map(text => el("li", "", text));
  return el(
    "div",
    "hf-came",
    title,
    el("p", "", link),
    differences.length ? el("ul", "hf-otherwise", ...differences) : null,
    el("dl", "hf-share-facts", ...facts),
  );
};

const share_board = element => {
  const root = element.querySelector(".hf-share");
  const { title, empty } = root.dataset;
  const panel = buildPanel(root, title);
  const spoken = live();
  const content = el("div", "hf-share-body");
  panel.body.append(content, spoken.element);

  const whyOf = (/** @type {Board.ShareValue} */ { status, message }) =>
    status === "error" ? el("div", "hf-error", message) : el("p", "hf-notice", message);
  const update = (/** @type {Board.ShareValue} */ value) => {
    panel.rename(title, value?.status ? SHORT[value.status] : "");
    if (!value) {
      content.replaceChildren(el("p", "hf-blank", empty));
      return;
    }
    const now = value.status === "running" ? value.steps.at(-1) : null;
    const steps = value.steps.map(step => stepOf(step, step === now));
    const parts = [
      value.result ? resultOf(value.result) : null,
      value.message ? whyOf(value) : null,
      steps.length ? el("ol", "hf-told", ...steps) : null,
      barOf(value),
      ...(value.code || []).map(codeOf),
    ];
    content.replaceChildren(...parts.filter(Boolean));
    panel.section.setAttribute("aria-busy", String(value.status === "running"));
    spoken.say(value.result?.title || value.message || value.steps.at(-1)?.message || "");
  };
  return { update };
};

export { share_board };
