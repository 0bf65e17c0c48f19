/* What Gradio's own fields lack.

   The number beside a slider: what it cannot be is told under it and goes no further, so that nothing is computed from
   it; where the field is left, the slider's own number comes back.
   A list: from its field Tab goes to the next field, not into the list, which closes.
   A menu that lies over the page: Escape and a click elsewhere close it.
   Radio buttons, and the examples under an input: one Tab stop, in which arrows move. */
const rangeOf = field => field.closest(".block")?.querySelector("input[type=range]");

/** What the field takes, in words; empty where it takes what is typed. */
const allowedIn = (field, range) => {
  const [value, low, high] = [field.valueAsNumber, Number(range.min), Number(range.max)];
  const isWhole = Number.isInteger(Number(range.step));
  const fits = value >= low && value <= high && (!isWhole || Number.isInteger(value));
  return fits ? "" : `Give a ${isWhole ? "whole " : ""}number from ${low} to ${high}.`;
};

const say = (field, words) => {
  const block = field.closest(".block");
  let line = block.querySelector(".hf-slider-error");
  if (!line && words) {
    line = document.createElement("p");
    line.className = "hf-slider-error";
    line.setAttribute("role", "alert");
    block.append(line);
  }
  if (line && line.textContent !== words) line.textContent = words;
  field.setAttribute("aria-invalid", String(Boolean(words)));
};

const look = event => {
  const field = event.target;
  if (!field.matches?.(".gradio-container input[type=number]")) return;
  const range = rangeOf(field);
  if (!range) return;
  const allowed = allowedIn(field, range);
  const isLeft = event.type === "focusout";
  if (!allowed) {
    if (!isLeft) say(field, "");
    return;
  }
  event.stopImmediatePropagation();
  const isBegun = field.value === "" && !field.validity.badInput; // emptied, to be typed anew
  if (isLeft) {
    say(field, `${allowed} ${range.value} stays.`);
    field.value = range.value;
  } else say(field, isBegun ? "" : allowed);
};
// before Gradio's own listeners
for (const kind of ["input", "change", "focusout", "blur"]) addEventListener(kind, look, true);
document.addEventListener("input", event => {
  const target = /** @type {HTMLInputElement} */ (event.target);
  const field = target.type === "range" && target.closest(".block")?.querySelector("input[type=number]");
  if (field) say(field, ""); // the slider was moved instead
});

document.addEventListener("focusin", event => {
  const target = /** @type {Element} */ (event.target);
  if (!target.matches("input[role=combobox]")) return;
  requestAnimationFrame(() => {
    const list = document.getElementById(target.getAttribute("aria-controls"));
    if (list) list.tabIndex = -1;
  });
});

/** What is one Tab stop: a row of examples, or radio buttons, which to the browser are no group. */
const GROUP = ".hf-chips, fieldset:has(input[type=radio])";
const membersOf = group =>
  /** @type {HTMLInputElement[]} */ ([...group.querySelectorAll("button.chip, input[type=radio]")]).filter(
    one => one.offsetParent && !one.disabled,
  );
addEventListener(
  "keydown",
  event => {
    if (event.key !== "Tab") return;
    for (const group of document.querySelectorAll(GROUP)) {
      const members = membersOf(group);
      const isHere = one => one.checked || one === document.activeElement;
      const stop = members.find(isHere) || members.find(one => !one.tabIndex) || members[0];
      for (const one of members) one.tabIndex = one === stop ? 0 : -1;
    }
  },
  true,
);
document.addEventListener("keydown", event => {
  const target = /** @type {HTMLInputElement} */ (event.target);
  const way = { ArrowLeft: -1, ArrowUp: -1, ArrowRight: 1, ArrowDown: 1 }[event.key];
  const members = way ? membersOf(target.closest(GROUP) || target) : [];
  if (!members.includes(target)) return;
  event.preventDefault();
  const next = members.at((members.indexOf(target) + way) % members.length);
  next.focus();
  if (next.type === "radio") next.click();
});

const closeMenus = event => {
  const isKey = event.type === "keydown";
  const target = /** @type {Element} */ (event.target);
  if (isKey && (event.key !== "Escape" || document.querySelector("[role=option]"))) return; // that list closes first
  for (const menu of document.querySelectorAll(".hf-menu")) {
    /** @type {HTMLElement} */
    const press = menu.querySelector("button.label-wrap.open");
    if (!press || (!isKey && menu.contains(target))) continue;
    press.click();
    if (isKey) press.focus();
  }
};
for (const kind of ["pointerdown", "keydown"]) addEventListener(kind, closeMenus, true);

export {};
