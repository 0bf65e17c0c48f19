/* The top of the page: Copy link with the link itself and a teacher's two switches; what a link that was opened says;
   what a change of tab closes, and where the new one begins.
   A copy is asked for by the event copy_<tab> {turn, boards, locked, hidden}; the board takes a Board.LinkValue. */
import { buildSwitch, button, copyText, el } from "../../hf_attn/viz/web/core/dom.js";
import { boards as mountedBoards } from "../../hf_attn/viz/web/core/mount.js";
import { hideAnswers } from "../ui/hide_answers.js";

const PARAMETER = "view";
const LOOK_MS = 5000; // between two looks for the server, and the longest that one waits
const MOST_MISSED = 3; // looks in a row without an answer: a busy server, or a network that was away for a moment
const SLEPT_MS = 120_000; // without a look; one a minute is what browsers leave to a page that is not seen
const AGAIN_MS = 60_000; // at least, between two times that a page loads itself again
const GONE =
  "The server does not answer, so nothing goes on here; this page loads itself again when the server is back, " +
  "with its settings.";
// in the tab's own sessionStorage: what boards show as their page is left, and when the page last loaded itself again
const [DRAWN, LOADED] = ["hf-attn-drawn", "hf-attn-loaded"];
const MOST_DRAWN = 2_000_000; // characters: browsers keep five million, and the page's key is among them
const SET = "set by the link";
const [HIDDEN, SHOWN] = ["Right answers are hidden until you ask for them.", "Right answers are shown."];
const ONLY_HERE = "It opens on this machine only; for others run the app with --share, or as a Space.";
const isOnlyHere = () => ["localhost", "127.0.0.1", "[::1]"].includes(location.hostname);

/** The tab that is open: its name, and the element that holds it. */
const openTab = () => {
  /** @type {HTMLElement[]} */
  const panels = [...document.querySelectorAll("[role=tabpanel][id^=tab-]")];
  const panel = panels.find(one => one.offsetParent);
  return { name: panel?.id.slice("tab-".length), panel };
};
/** The address with another link; for others without the look that this reader chose. */
const addressOf = (text, forOthers) => {
  const address = new URL(location.href);
  address.searchParams.set(PARAMETER, text);
  if (forOthers) address.searchParams.delete("__theme");
  address.hash = "";
  return address.href;
};

/** Of the tabs only the open one is a stop of the Tab key; the arrow keys open its neighbours. */
const moveByArrows = list => {
  /** @type {() => HTMLElement[]} */
  const tabs = () => [...list.querySelectorAll("[role=tab]")];
  const leaveOneStop = () => {
    for (const tab of tabs()) tab.tabIndex = tab.getAttribute("aria-selected") === "true" ? 0 : -1;
  };
  list.addEventListener("keydown", event => {
    const step = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    const at = tabs().indexOf(event.target);
    const next = step && tabs()[(at + step + tabs().length) % tabs().length];
    next?.click();
    next?.focus();
  });
  leaveOneStop();
  return leaveOneStop;
};
/** Let the link at the top of the page lead to the first map of the open tab, or to its first field. */
const skipToMap = link => {
  link.onclick = event => {
    event.preventDefault();
    const { panel } = openTab();
    /** @type {HTMLElement[]} */
    const places = [...panel.querySelectorAll("canvas[tabindex='0']"), ...panel.querySelectorAll("button, input")];
    places.find(one => one.offsetParent)?.focus();
  };
};

/** Tell when another tab is open, whoever opened it: a click, a button elsewhere, a link. */
const onTab = tell => {
  const list = document.querySelector("[role=tablist]");
  if (!list) {
    requestAnimationFrame(() => onTab(tell)); // the header may be there before the tabs
    return;
  }
  const find = () => list.querySelector("[aria-selected=true]")?.getAttribute("data-tab-id");
  let open = find();
  const leaveOneStop = moveByArrows(list);
  const look = () => {
    leaveOneStop();
    const now = find();
    if (!now || now === open) return;
    open = now;
    tell(list);
  };
  // on a phone a tab of the More menu joins the list when it is opened
  new MutationObserver(look).observe(list, { subtree: true, childList: true, attributeFilter: ["aria-selected"] });
};

/** The field with the link under the button, and what goes into it. */
const linkPanel = (root, ask, onClose) => {
  const field = el("input");
  const said = el("p", "hf-hint");
  const lock = buildSwitch("Lock the settings", ask);
  const hide = buildSwitch("Hide the answers: rings, verdicts, printed figures", ask);
  const close = button("Close", () => shut());
  const lesson = el("div", "hf-lesson", el("span", "hf-label", "For a lesson"), lock.label, hide.label);
  const box = el("div", "hf-link-panel", field, close, lesson, said);
  Object.assign(field, { type: "text", readOnly: true });
  field.setAttribute("aria-label", "The link");
  field.onfocus = () => field.select();
  said.setAttribute("role", "status");
  const shut = () => {
    if (box.hidden) return;
    box.hidden = true;
    onClose();
  };
  box.hidden = true;
  root.append(box);
  const fill = (address, words) => {
    field.hidden = !address;
    field.value = address;
    said.textContent = words;
    said.classList.toggle("hf-bad", !address);
    box.hidden = false;
  };
  const options = () => ({ locked: lock.input.checked, hidden: hide.input.checked });
  const choose = ({ locked, hidden }) => {
    lock.input.checked = locked;
    hide.input.checked = hidden;
  };
  return { box, fill, field, options, choose, shut };
};

/** What a link that was opened says or asks, with the button that shows the answers. */
const notice = (root, trigger) => {
  const words = el("p");
  let said = "";
  const show = button("Show the answer", () => {
    show.hidden = true;
    words.textContent = `${said} ${SHOWN}`.trim();
    hideAnswers(false);
  });
  const box = el("div", "hf-link-says", words, show);
  words.setAttribute("role", "status");
  box.hidden = show.hidden = true;
  const answers = ["accept_link", "open_settings"].map(event =>
    button(event === "open_settings" ? "Only open its settings" : "", () => {
      for (const one of answers) one.hidden = true;
      trigger(event, {});
    }),
  );
  box.append(...answers);
  root.append(box);
  return (text, { wrong = false, hides = false, accepts = "", stays = false } = {}) => {
    box.hidden = !text && !hides;
    box.classList.toggle("hf-stays", stays);
    answers[0].textContent = accepts;
    for (const one of answers) one.hidden = !accepts;
    box.classList.toggle("hf-error", wrong);
    words.setAttribute("role", wrong ? "alert" : "status");
    said = text;
    words.textContent = `${said} ${hides ? HIDDEN : ""}`.trim();
    show.hidden = !hides;
  };
};

/** The tab's own store: {read(name), write(name, text)}; null, and nothing kept, where there is none or it is full. */
const store = {
  read: name => {
    try {
      return sessionStorage.getItem(name);
    } catch {
      return null;
    }
  },
  write: (name, text) => {
    try {
      sessionStorage.setItem(name, text);
    } catch {
      // as if nothing had been kept
    }
  },
};

/** Say where the server does not answer; load the page again after that, after a sleep, and for a server started anew.
    Gradio does so too, where it notices. */
const watchServer = say => {
  let [known, last, missed, isAway] = [null, Date.now(), 0, false];
  const find = () =>
    fetch("gradio_api/app_id", { signal: AbortSignal.timeout(LOOK_MS) })
      .then(answer => answer.json())
      .then(answered => answered.app_id)
      .catch(() => null);
  const look = async () => {
    const id = await find();
    known ||= id;
    missed = id ? 0 : missed + 1;
    isAway ||= Boolean(known) && (missed >= MOST_MISSED || Date.now() - last > SLEPT_MS);
    last = Date.now();
    if (isAway && !id) say(GONE, { wrong: true, stays: true });
    const isDue = Boolean(id) && (isAway || id !== known) && last - Number(store.read(LOADED)) > AGAIN_MS;
    if (!isDue) {
      setTimeout(look, LOOK_MS);
      return;
    }
    store.write(LOADED, String(last));
    location.reload();
  };
  look();
};

/** Keep what boards show for the page that is loaded next in this tab; give what the page before kept. */
const passDrawings = () => {
  const passed = { drawn: {} }; // empty once boards have it: a page may go before
  try {
    passed.drawn = JSON.parse(store.read(DRAWN)) || {};
  } catch {
    // nothing that a page left
  }
  store.write(DRAWN, "{}");
  addEventListener("pagehide", () => {
    const { "link-board": _, ...values } = mountedBoards.values();
    for (const id of Object.keys(values)) delete passed.drawn[id]; // it is not what they showed last
    // a board that follows a job was given only what changed last
    const whole = Object.entries(values).filter(([, value]) => !["running", "paused"].includes(value?.status));
    const text = JSON.stringify({ ...passed.drawn, ...Object.fromEntries(whole) });
    if (text.length <= MOST_DRAWN) store.write(DRAWN, text);
  });
  return passed;
};

/** Say beside each locked field that the link has set it; fields may come and go. */
const markLocked = ids => {
  const sheet = document.getElementById("hf-locked") || el("style");
  sheet.id = "hf-locked";
  const boxes = `:is(${ids.map(id => `#${CSS.escape(id)}`).join()})`;
  const label = `${boxes} :is([data-testid=block-info], .switch-label, label > span.label-text)::after`;
  const look = "display:inline-block;margin-left:.3em;white-space:nowrap;color:var(--hf-ink-3);font-weight:400";
  sheet.textContent = ids.length ? `${label}{content:"${SET}";${look}}${boxes}{cursor:not-allowed}` : "";
  document.head.append(sheet);
  // a button is out of reach however often the page enables it
  for (const id of ids) if (document.getElementById(id)?.matches("button")) document.getElementById(id).inert = true;
};

const link_board = (element, trigger) => {
  const root = element.querySelector(".hf-link");
  skipToMap(element.querySelector(".hf-skip"));
  const asked = { turn: 0 };
  const ask = () => {
    const { name, panel } = openTab();
    if (!name) return;
    asked.turn += 1;
    trigger(`copy_${name}`, { turn: asked.turn, boards: mountedBoards.states(panel), ...link.options() });
  };
  let tab = null; // of which the switches speak
  const press = button("Copy link", () => {
    if (tab !== openTab().name) link.choose({ locked: false, hidden: false });
    tab = openTab().name;
    ask();
  });
  root.append(press);
  const forget = () => {
    asked.turn += 1; // an answer under way is to a question that nobody asks any more
  };
  const link = linkPanel(root, ask, forget);
  const say = notice(root, trigger);
  watchServer(say);
  const passed = passDrawings();
  document.addEventListener("keydown", event => {
    if (event.key !== "Escape" || event.defaultPrevented || link.box.hidden) return;
    link.shut();
    press.focus();
  });
  const onClick = event => {
    if (!link.box.contains(event.target) && event.target !== press) link.shut();
  };
  document.addEventListener("click", onClick, true); // before a board has its clicks to itself
  onTab(tabs => {
    forget();
    link.shut();
    // a button far down the page opened it: what it opened begins on top
    if (tabs.getBoundingClientRect().top < 0) scrollTo(0, 0);
  });

  const made = async (/** @type {Board.LinkValue} */ { turn, made: text, said }) => {
    history.replaceState(history.state, "", addressOf(text, false));
    window.hfAttnIsPast = true;
    const address = addressOf(text, true);
    link.fill(address, said);
    const done = await copyText(address, link.field);
    if (turn !== asked.turn) return;
    const { locked, hidden } = link.options();
    const lesson = [locked && "its settings are locked", hidden && "right answers are hidden"]
      .filter(Boolean)
      .join(", ");
    const where = isOnlyHere() ? ONLY_HERE : "";
    const copied = `${done ? "Copied" : "Copy it from the field"}${lesson && `; ${lesson}`}.`;
    link.fill(address, [copied, said, where].filter(Boolean).join(" "));
  };
  const opened = (/** @type {Board.OpenedLink} */ { boards, locked, hidden, said, trains, isLost }) => {
    tab = openTab().name;
    link.choose({ locked: locked.length > 0, hidden: Boolean(hidden) });
    window.hfAttnIsPast = !locked.length && !hidden;
    markLocked(locked);
    hideAnswers(Boolean(hidden));
    // what came with this message is drawn first
    setTimeout(() => mountedBoards.restore(boards), 0);
    if (isLost) setTimeout(mountedBoards.keep, 0, passed.drawn);
    passed.drawn = {};
    say(said, { hides: hidden });
    if (trains) trigger("open_link", {});
  };
  const update = (/** @type {Board.LinkValue} */ value) => {
    if (!value) return;
    if (value.opened) opened(value.opened);
    else if (value.asks) say(value.asks, { accepts: value.accepts });
    else if (value.turn === 0) say(value.refused, { wrong: true });
    else if (value.turn === asked.turn && value.refused) link.fill("", value.refused);
    else if (value.turn === asked.turn) made(value);
  };
  return { update };
};

export { link_board };
