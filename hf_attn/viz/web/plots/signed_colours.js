/* Numbers below and above zero: their colour, and strips of them.

   signedColour(theme, value, end)   a value between −end and end as [r, g, b]
   numberStrip(host, caption).update(lines)
       lines     [{label, values, digits (2), name () => nodes, role "q" | "k", total (text), scale}]: rows of one
                 length; those of one scale, else each by itself, share the end of the colours
       up to 16 numbers stand 8 in a line with their figures; more stand 16 in a line, values on hover and in a table
   miniStrip(values, end)            a line of small cells without figures, values in the title */
import { el } from "../core/dom.js";
import { number, range } from "../core/format.js";
import { css, numberOn, onLook, themeOf } from "../core/theme.js";
import { numbersTable, tableButton } from "../export/buttons.js";

const FIGURES = 16; // numbers of a vector up to which each is written out

const signedColour = (theme, value, end) => {
  const stops = theme.signed;
  const at = (Math.max(-1, Math.min(1, value / (end || 1))) + 1) * 4;
  const i = Math.min(7, Math.floor(at));
  return stops[i].map((x, k) => Math.round(x + (stops[i + 1][k] - x) * (at - i)));
};
/** Paint every element of a host that carries data-value, on a scale that ends at data-end. */
const paintSigned = host => {
  const theme = themeOf(host);
  for (const cell of host.querySelectorAll("[data-value]")) {
    const rgb = signedColour(theme, Number(cell.dataset.value), Number(cell.dataset.end));
    cell.style.background = css(rgb);
    cell.style.color = numberOn(theme, rgb);
  }
};
const signedCell = (value, end, digits, isWritten) => {
  const cell = el("span", "", isWritten ? number(value, digits) : "");
  cell.dataset.value = value;
  cell.dataset.end = end;
  if (!isWritten) cell.title = number(value, 3);
  return cell;
};
const miniStrip = (values, end) =>
  el("div", values.length > 8 ? "hf-mini many" : "hf-mini", ...values.map(value => signedCell(value, end, 2, false)));

const digitsOf = line => line.digits ?? 2;

const table = (lines, caption) => {
  const heads = ["number", ...lines.map(line => line.label)];
  const rows = range(lines[0].values.length).map(i => [
    i + 1,
    ...lines.map(line => number(line.values[i], digitsOf(line))),
  ]);
  const foot = lines.some(line => line.total) ? ["sum", ...lines.map(line => line.total || "")] : null;
  return numbersTable([heads, ...rows], caption, { foot });
};

const numberStrip = (host, caption) => {
  const strip = el("div", "hf-strip");
  const tableHost = el("div");
  const words = () => (strip.classList.contains("bare") ? "Show every number" : "Show as table");
  const shown = tableButton(tableHost, () => table(lines, caption()), words);
  let lines = null;
  host.append(strip, el("div", "hf-take", shown.press), tableHost);
  const one = (line, from, to, end, isWritten) => {
    const name = el("b", line.role ? `hf-${line.role}` : "", ...(line.name?.() ?? [line.label]));
    const cells = line.values.slice(from, to).map(value => signedCell(value, end(line), digitsOf(line), isWritten));
    const total = el(
      "span",
      "total",
      ...(line.total && to >= line.values.length ? [el("small", "", "sum "), line.total] : []),
    );
    const row = el("div", "line", name, el("div", "cells", ...cells), total);
    row.dataset.line = line.label;
    return row;
  };
  const scaleOf = line => line.scale ?? line.label;
  const update = next => {
    lines = next;
    const size = lines[0].values.length;
    const isWritten = size <= FIGURES;
    const by = isWritten ? 8 : 16;
    const end = line =>
      Math.max(
        1e-9,
        ...lines.filter(other => scaleOf(other) === scaleOf(line)).flatMap(other => other.values.map(Math.abs)),
      );
    strip.style.setProperty("--by", String(Math.min(by, size)));
    strip.classList.toggle("bare", !isWritten);
    const starts = range(Math.ceil(size / by)).map(part => part * by);
    strip.replaceChildren(
      ...starts.map(from => el("div", "part", ...lines.map(line => one(line, from, from + by, end, isWritten)))),
    );
    paintSigned(strip);
    shown.refresh();
  };
  onLook(strip, () => paintSigned(strip));
  return { update };
};

export { miniStrip, numberStrip, paintSigned, signedColour };
