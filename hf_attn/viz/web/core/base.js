"use strict";
/* What every component shares: numbers as text, small page elements, theme and colour, packed maps, the tip.
   Text from a model or a person reaches the page only through textContent and fillText. */
(hfAttn => {
  const range = n => Array.from({ length: n }, (_, i) => i);
  const sum = values => values.reduce((a, b) => a + b, 0);
  const mean = values => (values.length ? sum(values) / values.length : 0);
  const clamp = (x, low, high) => Math.max(low, Math.min(high, x));
  const entropy = weights => -sum(weights.map(w => (w > 0 ? w * Math.log2(w) : 0))); // in bits
  const isPlace = (i, list) => Number.isInteger(i) && i in list; // what a link names may be anything

  const NO_ATTENTION = "No attention: all of the source passes through one vector.";

  /* ---- numbers as text ---- */

  const NARROW = "\u202f";
  const number = (x, digits = 2) => {
    // a true minus sign, and never "−0.00"
    if (!Number.isFinite(x)) return "–";
    const text = Math.abs(x).toFixed(digits);
    return (x < 0 && Number(text) !== 0 ? "−" : "") + text;
  };
  const weight = x => (x < 0.005 ? "0" : x > 0.995 ? "1" : x.toFixed(2).slice(1)); // inside a cell: .46
  const count = x =>
    Number.isFinite(x)
      ? Math.round(x)
          .toString()
          .replace(/\B(?=(\d{3})+$)/g, NARROW)
      : "–";
  const percent = (x, digits = 1) => (Number.isFinite(x) ? (100 * x).toFixed(digits) + NARROW + "%" : "–");
  const minutes = seconds => {
    if (!Number.isFinite(seconds)) return "–";
    const whole = Math.round(seconds);
    const pad = n => String(n).padStart(2, "0");
    const [h, m, s] = [Math.floor(whole / 3600), Math.floor(whole / 60) % 60, whole % 60];
    return h ? `${h}:${pad(m)}:${pad(s)}` : `${m}:${pad(s)}`;
  };

  /* ---- tokens as text ---- */

  const shown = token => String(token).replace(/ /g, "␣").replace(/\n/g, "⏎").replace(/\t/g, "⇥") || "∅";
  const clip = (token, most = 14) => {
    // by code point: CJK and emoji stay whole
    const letters = [...token];
    return letters.length <= most ? token : letters.slice(0, most - 1).join("") + "…";
  };
  const named = (labels, i) => {
    // a token that occurs twice is named with its place
    const token = shown(labels[i]);
    return labels.indexOf(labels[i]) === labels.lastIndexOf(labels[i]) ? token : `${token} ${i + 1}`;
  };

  /* ---- page elements ---- */

  const el = (tag, cls, ...content) => {
    // strings become text, never markup
    const element = document.createElement(tag);
    if (cls) element.className = cls;
    element.append(...content.filter(part => part !== null && part !== undefined));
    return element;
  };
  /** Text that stands there already stays: whatever is put in has styles looked at around it. */
  const write = (element, text) => {
    if (element.textContent !== text) element.textContent = text;
  };
  const panel = (title, note = "") => {
    const [named, small] = [el("span", "", title), el("small", "", note)];
    const heading = el("h2", "", named, " ", small);
    const header = el("header", "", heading);
    const body = el("div", "hf-body");
    const footer = el("footer");
    const section = el("section", "hf-panel", header, body, footer);
    footer.hidden = true;
    const rename = (name, more = "") => {
      write(named, name);
      if (more instanceof Element) small.replaceChildren(more);
      else write(small, more);
    };
    return { section, header, body, footer, rename };
  };
  const button = (text, onClick, cls = "hf-btn") => {
    const b = el("button", cls, text);
    b.type = "button";
    b.onclick = onClick;
    return b;
  };
  const segment = (label, onPick) => {
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
  const slider = (label, min, max, step, onInput) => {
    const input = el("input");
    Object.assign(input, { type: "range", min, max, step });
    input.setAttribute("aria-label", label);
    const paint = () =>
      input.style.setProperty("--at", (100 * (input.value - input.min)) / (input.max - input.min || 1) + "%");
    input.addEventListener("input", () => {
      paint();
      onInput(Number(input.value));
    });
    const update = (value, last = input.max) => {
      input.max = last;
      input.value = value;
      paint();
    };
    return { element: input, update };
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
  const copy = async (text, element) => {
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
      if (done) before?.focus?.();
      return done;
    }
  };
  const csvCell = value => {
    // a leading = + - @ would run as a formula in a spreadsheet
    const text = typeof value === "number" ? String(value) : String(value).replace(/^(?=[=+\-@\t\r])/, "'");
    return /[",\n\r]/.test(text) ? `"${text.replace(/"/g, '""')}"` : text;
  };
  const csv = lines => lines.map(line => line.map(csvCell).join(",")).join("\r\n") + "\r\n";

  /* ---- theme and colour ---- */

  const NAMES = [
    "bg",
    "panel",
    "sunken",
    "line",
    "line-strong",
    "control",
    "ink",
    "ink-2",
    "ink-3",
    "accent",
    "accent-soft",
    "on-accent",
    "query",
    "query-soft",
    "key",
    "key-soft",
    "bad",
    "bad-soft",
    "cell-dark",
    "cell-light",
    "series-1",
    "series-2",
    "series-3",
    "series-4",
  ];
  const rgbOf = hex => [1, 3, 5].map(i => parseInt(hex.slice(i, i + 2), 16));
  const reduced = matchMedia("(prefers-reduced-motion: reduce)");
  let known = { look: null };
  const theme = element => {
    const look = `${document.body.className} ${reduced.matches}`; // all that the variables hang on
    if (known.look !== look) known = { look, ...readTheme(element) };
    return known;
  };
  /** What is read of an element that has the night's colours, whatever the page has. */
  const atNight = read => {
    const night = el("div", "dark");
    document.body.append(night);
    const found = read(night);
    night.remove();
    return found;
  };
  const readTheme = element => {
    const style = getComputedStyle(element);
    const get = name => style.getPropertyValue("--hf-" + name).trim();
    const read = { font: get("font"), mono: get("font-mono"), fade: parseFloat(get("t-map")) || 0 };
    for (const name of NAMES) read[name] = get(name);
    read.attention = range(11).map(i => rgbOf(get("att-" + i)));
    return read;
  };
  const fill = (colours, value, most = 1) => {
    // one weight as [r, g, b] on the attention scale
    const stops = colours.attention;
    const at = clamp(value / most || 0, 0, 1) * (stops.length - 1);
    const i = Math.min(stops.length - 2, Math.floor(at));
    return stops[i].map((x, k) => Math.round(x + (stops[i + 1][k] - x) * (at - i)));
  };
  const css = rgb => `rgb(${rgb.join(",")})`;
  const numberOn = (colours, rgb) => {
    // black or white, whichever contrasts more
    const [r, g, b] = rgb.map(v => ((v /= 255) <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4));
    return 0.2126 * r + 0.7152 * g + 0.0722 * b > 0.179 ? colours["cell-dark"] : colours["cell-light"];
  };
  const font = (colours, size, weightOf = 400, family = colours.font) => `${weightOf} ${size}px ${family}`;
  const DASHES = [[], [7, 4], [2, 3], [9, 3, 2, 3]]; // one a series, beside its colour

  /* ---- packed maps: little-endian uint16, weight = v / 65535 ---- */

  const unpack = (base64, shape) => {
    // nested arrays of the given shape, or null
    if (!base64 || !shape || shape.some(n => !n)) return null;
    const bytes = Uint8Array.from(atob(base64), c => c.charCodeAt(0));
    const view = new DataView(bytes.buffer);
    if (bytes.length !== 2 * shape.reduce((a, b) => a * b, 1)) return null;
    let at = 0;
    const read = depth =>
      range(shape[depth]).map(() => {
        if (depth + 1 < shape.length) return read(depth + 1);
        at += 2;
        return view.getUint16(at - 2, true) / 65535;
      });
    return read(0);
  };
  const meanOf = maps => maps[0].map((row, r) => row.map((_, c) => mean(maps.map(m => m[r][c]))));

  /* ---- redraw when the look changes ---- */

  const lookers = new Set();
  const lookChanged = () =>
    lookers.forEach(one => {
      if (one.host.isConnected) one.redraw();
      else lookers.delete(one);
    });
  const watchRatio = () => {
    matchMedia(`(resolution: ${devicePixelRatio}dppx)`).addEventListener(
      "change",
      () => {
        lookChanged();
        watchRatio();
      },
      { once: true },
    );
  };
  const watchLook = () => {
    const observer = new MutationObserver(lookChanged);
    const what = { attributes: true, attributeFilter: ["class"] };
    observer.observe(document.documentElement, what);
    observer.observe(document.body, what);
    watchRatio();
  };
  let watching = false;
  const onLook = (host, redraw) => {
    // until the host leaves the page
    if (!watching) {
      watching = true;
      watchLook();
    }
    lookers.add({ host, redraw });
  };

  /* ---- the tip ---- */

  let tipBox = null;
  const tip = (event, lines) => {
    if (!tipBox) {
      tipBox = Object.assign(el("div", "hf-tip"), { ariaHidden: "true" });
      document.body.append(tipBox);
    }
    tipBox.hidden = !lines;
    if (!lines) return;
    tipBox.replaceChildren(...lines.map(line => el("div", "", line)));
    const box = tipBox.getBoundingClientRect();
    tipBox.style.left = clamp(event.clientX + 14, 8, Math.max(8, innerWidth - box.width - 8)) + "px";
    tipBox.style.top = Math.max(8, event.clientY - box.height - 12) + "px";
  };

  /** A word with its meaning, line by line: under the pointer, and with keyboard or finger on it. */
  const term = (text, ...lines) => {
    const word = Object.assign(el("abbr", "", text), { title: lines.join("\n"), tabIndex: 0 });
    word.onfocus = () => {
      const { left: clientX, top: clientY } = word.getBoundingClientRect();
      tip({ clientX, clientY }, lines);
    };
    word.onblur = event => tip(event, null);
    return word;
  };

  Object.assign(hfAttn, {
    range,
    sum,
    mean,
    clamp,
    entropy,
    isPlace,
    number,
    weight,
    count,
    percent,
    minutes,
    shown,
    clip,
    named,
    el,
    write,
    panel,
    button,
    segment,
    showProgress,
    slider,
    live,
    save,
    copy,
    csv,
    theme,
    readTheme,
    atNight,
    fill,
    css,
    rgbOf,
    numberOn,
    font,
    DASHES,
    NO_ATTENTION,
    unpack,
    meanOf,
    onLook,
    tip,
    term,
  });
})((window.hfAttn ||= {}));
