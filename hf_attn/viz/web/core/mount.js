/* A board inside its gr.HTML: value in, events out; and what it chose itself, for a link.

   mount(name, {id, element, props, watch, trigger}) draws the board that a script exports by that name and keeps it up
   to date. A board gives {update(value)} and, where a link can carry its own choices, state() → JSON and
   restore(state). A board that asks for more than its value holds sends its value's id, and the answer, {id, …} with
   one thing more, goes to receive(answer); one with another id comes late, and is dropped. So is a value with a
   `turn`, [whose, number], lower than the one of the same that is on show. A button with data-opens shows or hides
   something under it: what is open travels with the board's choices, as `open`.
   boards.states(within)   what the boards inside an element chose: {id: state}
   boards.restore(states)  chooses it again: at once, or where a board has nothing to show yet, with its first value
   boards.values()         what each board was given: {id: value}
   boards.keep(values)     lets boards of the same ids show these, whatever comes, until the reader does something;
                           a board that the page builds only then shows it where it would be empty
   boards.redraw(names, {keep})  gives the boards of these names their value once more; kept is what they chose
   veil(name, value)       what a board sees of a value; setVeil(veil) puts one of the page's own there */
import { keepValue } from "./kept.js";

const mounted = new Map(); // id → {name, board, element, draw, filled, value, show, isKept}
const wanted = new Map(); // id → what a link chose for a board that has nothing to show yet
const held = new Map(); // id → what a board that is not built yet is to show
let hasActed = false; // whether the reader has done something since

let hide = (_name, value) => value;
const setVeil = veil => {
  hide = veil;
};
const veil = (name, value) => hide(name, value);

const isOpen = press => press.getAttribute("aria-expanded") === "true";
const folds = element => [...element.querySelectorAll("[data-opens]")];
const stateOf = ({ board, element }) => {
  const open = folds(element).flatMap((press, i) => (isOpen(press) ? [i] : []));
  return { ...board.state?.(), ...(open.length ? { open } : {}) };
};

const settle = id => {
  const one = mounted.get(id);
  if (!one?.filled || !wanted.has(id)) return;
  const { open, ...state } = wanted.get(id);
  wanted.delete(id);
  try {
    one.board.restore?.(state);
    folds(one.element).forEach((press, i) => {
      if (Array.isArray(open) && open.includes(i) !== isOpen(press)) press.click();
    });
  } catch (error) {
    console.warn(`A link chose in ${id} what is not there:`, error); // somebody else wrote the link
  }
};

/** Show what was kept for a board. */
const goOn = id => {
  const one = mounted.get(id);
  if (!one || !held.has(id)) return;
  const value = held.get(id);
  held.delete(id);
  if (hasActed && one.filled) return;
  try {
    one.show(value);
    one.isKept = !hasActed;
  } catch (error) {
    console.warn(`What ${id} showed is not what it shows now:`, error); // of another version of the app
  }
};

const mount = (name, { id, element, props, watch, trigger }) => {
  const board = window.hfAttn[name](element, trigger);
  const one = { name, board, element, filled: false };
  const isAnswer = value => board.receive && value && "id" in value && Object.keys(value).length === 2;
  const isLate = ({ turn }) => turn?.[0] === value?.turn?.[0] && turn?.[1] < value?.turn?.[1];
  let value = null;
  one.draw = () => {
    keepValue(element, value);
    board.update(veil(name, value));
    one.filled = value !== null && value !== undefined;
    settle(id);
  };
  one.value = () => value;
  one.show = next => {
    value = next;
    one.draw();
  };
  const take = () => {
    const next = typeof props.value === "string" ? JSON.parse(props.value || "null") : props.value;
    if (one.isKept || (next && isLate(next))) return;
    if (!isAnswer(next)) {
      one.show(next);
    } else if (next.id === value?.id) {
      value = { ...value, ...next }; // for the next time that it is drawn
      board.receive(veil(name, next));
    }
  };
  mounted.set(id, one);
  watch("value", take);
  take();
  goOn(id);
};

const boards = {
  states: within => {
    const here = [...mounted].filter(([, one]) => one.filled && within.contains(one.element));
    const states = here.map(([id, one]) => [id, stateOf(one)]);
    return Object.fromEntries(states.filter(([, state]) => Object.keys(state).length));
  },
  restore: states => {
    for (const [id, state] of Object.entries(states)) {
      wanted.set(id, state);
      settle(id);
    }
  },
  values: () => {
    const shown = [...mounted].filter(([, one]) => one.filled).map(([id, one]) => [id, one.value()]);
    return Object.fromEntries([...held, ...shown]);
  },
  keep: values => {
    for (const [id, value] of Object.entries(values)) {
      held.set(id, value);
      goOn(id);
    }
    const release = event => {
      if (!event.isTrusted) return; // a click that the page makes itself
      hasActed = true;
      for (const one of mounted.values()) one.isKept = false;
    };
    for (const act of ["pointerdown", "keydown", "click", "input"]) addEventListener(act, release, { capture: true });
  },
  redraw: (names, { keep }) =>
    [...mounted].forEach(([id, one]) => {
      if (!names.includes(one.name) || !one.filled) return;
      if (keep && one.board.state && !wanted.has(id)) wanted.set(id, stateOf(one));
      one.draw();
    }),
};

export { boards, mount, setVeil, veil };
