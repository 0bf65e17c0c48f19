/* Small mathematics, and numbers, tokens and tables as text. */
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
const count = x => number(x, 0).replace(/\B(?=(\d{3})+$)/g, NARROW);
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

/** A file's name of these parts, without its ending; a part that is missing is left out. */
const fileName = (...parts) =>
  parts
    .filter(Boolean)
    .join("-")
    .replace(/[^\w-]+/g, "-");
/** The first round number from this one on. */
const roundUp = most => [0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 50, 100, 200, 500, 1000].find(end => most <= end) ?? most;

const csvCell = value => {
  // a leading = + - @ would run as a formula in a spreadsheet
  const text = typeof value === "number" ? String(value) : String(value).replace(/^(?=[=+\-@\t\r])/, "'");
  return /[",\n\r]/.test(text) ? `"${text.replace(/"/g, '""')}"` : text;
};
const csv = lines => lines.map(line => line.map(csvCell).join(",")).join("\r\n") + "\r\n";

export {
  clamp,
  clip,
  count,
  csv,
  entropy,
  fileName,
  isPlace,
  mean,
  minutes,
  NO_ATTENTION,
  named,
  number,
  percent,
  range,
  roundUp,
  shown,
  sum,
  weight,
};
