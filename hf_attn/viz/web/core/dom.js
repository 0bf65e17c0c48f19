/* Small page elements. Text from a model or a person reaches the page only through textContent and fillText. */
/** An element; strings become text, never markup.
    @template {keyof HTMLElementTagNameMap} Tag
    @param {Tag} tag
    @param {string} [cls]
    @param {(Node | string | null | undefined)[]} content
    @returns {HTMLElementTagNameMap[Tag]} */
const el = (tag, cls, ...content) => {
  const element = document.createElement(tag);
  if (cls) element.className = cls;
  element.append(...content.filter(part => part !== null && part !== undefined));
  return element;
};
/** @returns {HTMLElement[]} */
const childrenOf = element => [...element.children];
/** A picture of one shape, beside words that say the same. */
const svgShape = (size, tag, shape) => {
  const create = (name, attributes) => {
    const element = document.createElementNS("http://www.w3.org/2000/svg", name);
    Object.entries(attributes).forEach(([key, value]) => element.setAttribute(key, String(value)));
    return element;
  };
  const svg = create("svg", { ...size, "aria-hidden": "true" });
  svg.append(create(tag, shape));
  return svg;
};
/** When an event is sent, in ms; also after the page was loaded again it grows. */
const sentAt = () => performance.timeOrigin + performance.now();
/** Text that stands there already stays: whatever is put in has styles looked at around it. */
const write = (element, text) => {
  if (element.textContent !== text) element.textContent = text;
};
/** A section at the end of its host, with its heading; its footer is shown once something stands in it. */
const buildPanel = (host, title = "", { note = "", cls = "" } = {}) => {
  const [named, small] = [el("span", "", title), el("small", "", note)];
  const heading = el("h2", "", named, " ", small);
  const header = el("header", "", heading);
  const body = el("div", "hf-body");
  const footer = el("footer");
  const section = el("section", `hf-panel ${cls}`.trim(), header, body, footer);
  footer.hidden = true;
  host.append(section);
  /** @type {(name: string | Element, more?: string | Element) => void} */
  const rename = (name, more = "") => {
    write(named, name);
    if (more instanceof Element) small.replaceChildren(more);
    else write(small, more);
  };
  return { section, header, body, footer, rename };
};
/** A line for what went wrong, read aloud when it changes: say(message), which may be empty. */
const alertLine = host => {
  const line = el("div", "hf-error");
  line.setAttribute("role", "alert");
  line.hidden = true;
  host.append(line);
  return message => {
    line.hidden = !message;
    write(line, message || "");
  };
};
/** What is wider than its place scrolls in it, by keyboard too; the label names it for the reader of the screen. */
const scrollRegion = (label, cls = "", ...content) => {
  const scroll = el("div", `hf-scroll ${cls}`.trim(), ...content);
  scroll.tabIndex = 0;
  scroll.setAttribute("role", "region");
  scroll.setAttribute("aria-label", label);
  return scroll;
};
const button = (text, onClick, cls = "hf-btn") => {
  const b = el("button", cls, text);
  b.type = "button";
  b.onclick = onClick;
  return b;
};
const buildSegment = (label, onPick) => {
  // a row of choices, one of them pressed
  const group = el("span", "hf-seg");
  group.setAttribute("role", "group");
  group.setAttribute("aria-label", label);
  let had = null;
  const update = (names, chosen) => {
    const key = JSON.stringify(names);
    if (key !== had) group.replaceChildren(...names.map((name, i) => button(name, () => onPick(i), "")));
    had = key;
    [...group.children].forEach((b, i) => b.setAttribute("aria-pressed", String(i === chosen)));
  };
  return { element: group, update };
};
/** Turn a button of the page into the progress bar of what runs. The variable is the button's alone: a change of
    the document's would have every element of the page styled anew, with each message. */
const showProgress = (selector, status, done) => {
  for (const one of document.querySelectorAll(selector)) {
    one.dataset.hfStatus = status;
    one.style.setProperty("--hf-done", 100 * done + "%");
  }
};
/** @returns {{element: HTMLInputElement, update: (value: number, last?: number) => void}} */
const buildSlider = (label, min, max, step, onInput) => {
  const input = el("input");
  Object.assign(input, { type: "range", min, max, step });
  input.setAttribute("aria-label", label);
  const paint = () =>
    input.style.setProperty("--at", (100 * (Number(input.value) - min)) / (Number(input.max) - min || 1) + "%");
  input.addEventListener("input", () => {
    paint();
    onInput(Number(input.value));
  });
  const update = (value, last = Number(input.max)) => {
    input.max = String(last);
    input.value = String(value);
    paint();
  };
  return { element: input, update };
};
/** @returns {{input: HTMLInputElement, label: HTMLLabelElement}} */
const buildSwitch = (words, onChange) => {
  const input = Object.assign(el("input"), { type: "checkbox" });
  input.onchange = () => onChange(input.checked);
  return { input, label: el("label", "hf-switch", input, words) };
};
const live = () => {
  // read aloud when it changes, seen by nobody
  const line = el("p", "hf-sr");
  line.setAttribute("aria-live", "polite");
  return {
    element: line,
    say: text => write(line, text),
  };
};
const save = (name, blob) => {
  const link = el("a");
  link.href = URL.createObjectURL(blob);
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10000); // the download has begun long before
};
/** Put a text on the clipboard: by the new way, or where a page has none, as over plain http, from the element that
    shows it. Gives whether that went; where not, the text stands there selected, ready for Ctrl+C. */
const copyText = async (text, element) => {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    const [before, marked] = [document.activeElement, getSelection()];
    element.focus();
    if (element.select) element.select();
    else marked.selectAllChildren(element);
    const done = document.execCommand("copy");
    if (done && !element.select) marked.removeAllRanges();
    if (done && before instanceof HTMLElement) before.focus();
    return done;
  }
};

export {
  alertLine,
  buildPanel,
  buildSegment,
  buildSlider,
  buildSwitch,
  button,
  childrenOf,
  copyText,
  el,
  live,
  save,
  scrollRegion,
  sentAt,
  showProgress,
  svgShape,
  write,
};
