/* The row above the lens: Show is pressed where something else stands in the fields than what is shown, and the field of
   a forced answer is there once it is asked for.

   followFields() → update(value), with each Board.ChecksValue   forceAnswer() opens the field, or closes an empty one */
const field = id => /** @type {HTMLInputElement} */ (document.querySelector(`#${id} :is(input, textarea)`));
const press = () => /** @type {HTMLButtonElement} */ (document.getElementById("explore-show"));

const openTarget = isOpen => {
  document.querySelector(".hf-explore-row")?.classList.toggle("forced", isOpen);
  document.getElementById("explore-force")?.setAttribute("aria-expanded", String(isOpen));
};

/** @type {Board.ChecksValue} */
let shown = null;
const look = () => {
  const show = press();
  if (!show || !field("explore-text")) return;
  const [text, target] = [field("explore-text").value.trim(), field("explore-target")?.value.trim() || ""];
  const isCounted = !shown?.each?.why; // else Show tries again
  const same = shown && isCounted && shown.typed_text === text && shown.typed_target === target;
  show.disabled = Boolean(same);
  show.classList.toggle("primary", !same);
};
const forceAnswer = () => {
  const isOpen = !document.querySelector(".hf-explore-row.forced");
  openTarget(isOpen || Boolean(field("explore-target")?.value));
  if (isOpen) setTimeout(() => field("explore-target")?.focus());
};

const followFields = () => {
  document.addEventListener("input", event => {
    const target = /** @type {Element} */ (event.target);
    if (target.closest(".hf-explore-row")) look();
  });
  return value => {
    if (value && value.id !== shown?.id) openTarget(Boolean(value.typed_target));
    shown = value;
    look();
    setTimeout(look, 50); // the fields are filled behind the boards
  };
};

export { followFields, forceAnswer };
