/* A picture that stands alone: on white paper of 1280 by 720, under its title, over its legend, with a foot that says
   where it comes from; light, whatever the page is.

   paintSlide(ctx, picture)   picture {host, name, paint, title(), legend} as `surface` knows them. What is drawn once
   more is drawn larger: its own 13 px labels become 18. paint is told the room that it has, so that it can use it. */
import { inputAt, originAt } from "./kept.js";
import { SvgContext } from "./svg.js";
import { drawText, font } from "./theme.js";

const [WIDE, HIGH, MARGIN] = [1280, 720, 64];
const LARGER = 18 / 13;
const LEGEND = 16 / 12;
const SMALLEST = 24; // a title too long for its line, before it is cut
const BREAK = " · ";
const FOR_THE_PAGE = /^(click|choose|drag) /i; // what a picture cannot do

/* ---- the words ---- */

/** The heading that stands last before a picture, with what stands small beside it. */
const headingOf = host => {
  const isBefore = one =>
    one.compareDocumentPosition(host) & Node.DOCUMENT_POSITION_FOLLOWING && one.textContent.trim();
  for (let around = host.parentElement; around; around = around.parentElement) {
    const found = [...around.querySelectorAll("h2, h3")].findLast(isBefore);
    if (!found) continue;
    const note = found.querySelector("small")?.textContent ?? "";
    const whole = found.textContent.trim();
    return [note ? whole.slice(0, -note.length).trim() : whole, note];
  }
  return ["", ""];
};

/** Without those that another one says too. */
const distinct = texts => {
  const said = texts.map(text => text.toLowerCase());
  const isTold = (text, i) => said.some((other, j) => j !== i && other.includes(text) && (other !== text || j < i));
  return texts.filter((text, i) => text && !isTold(said[i], i));
};

/** @returns {{title: (string | [string, string])[], facts: string[], foot: string}} */
const wordsOf = ({ host, name, title }) => {
  const [heading, note] = headingOf(host);
  const sentence = title?.();
  const { model = "", weights = "" } = originAt(host);
  const isThere = model !== "none yet";
  const [, checkpoint, step] = /^(?:(.+?)(?: \(bundled\))?, )?(step .*)$/.exec(weights) || [];
  const from = step ? `trained, ${step}` : weights === "untrained" ? weights : weights && `weights ${weights}`;
  const outer = host.closest(".hf-panel")?.querySelector("h2 small")?.textContent ?? "";
  const notes = [name, note, /\d/.test(outer) ? outer : "", inputAt(host)].flatMap(text => (text || "").split("; "));
  const isSaid = text => text && text !== main && !FOR_THE_PAGE.test(text);
  const main = sentence ? "" : heading || name;
  const facts = distinct([main, isThere ? checkpoint || model : "", ...notes]).filter(isSaid);
  const foot = [`hf_attn ${window.hfAttn.version}`, isThere ? from : ""].filter(Boolean).join(BREAK);
  return { title: sentence || [main], facts, foot };
};

/* ---- the paper ---- */

const write = (ctx, theme, text, x, y, size, more = {}) =>
  drawText(ctx, theme, text, x, y, { base: "alphabetic", size, ...more });

/** As much of a text as fits. */
const cut = (text, fits) => {
  if (fits(text)) return text;
  const letters = [...text];
  while (letters.length && !fits(`${letters.join("").trimEnd()}…`)) letters.pop();
  return `${letters.join("").trimEnd()}…`;
};

const writeTitle = (ctx, theme, parts, most) => {
  const whole = parts.map(part => [part].flat()[0]).join("");
  ctx.font = font(theme, 36, 600);
  const size = Math.max(SMALLEST, Math.min(36, Math.floor((36 * most) / ctx.measureText(whole).width)));
  const fits = text => ctx.measureText(text).width <= most;
  ctx.font = font(theme, size, 600);
  const shownParts = fits(whole) ? parts : [cut(whole, fits)];
  let x = MARGIN;
  for (const [text, role = "ink"] of shownParts.map(part => [part].flat()))
    x += write(ctx, theme, text, x, 82, size, { colour: theme[role], weight: 600 });
};

/** Facts in at most two lines, broken between two of them where both lines fit; gives how many. */
const writeFacts = (ctx, theme, facts, most) => {
  ctx.font = font(theme, 20);
  const fits = line => ctx.measureText(line).width <= most;
  const broken = (pieces, glue) => {
    let count = pieces.length;
    while (count > 1 && !fits(pieces.slice(0, count).join(glue))) count--;
    return [pieces.slice(0, count).join(glue), pieces.slice(count).join(glue)].filter(Boolean);
  };
  const between = broken(facts, BREAK);
  const lines = between.every(fits) ? between : broken(facts.join(BREAK).split(" "), " ");
  lines.forEach((line, i) => write(ctx, theme, cut(line, fits), MARGIN, 120 + 28 * i, 20, { colour: theme["ink-2"] }));
  return lines.length;
};

/** How large it would be. */
const measure = (paint, ...given) => {
  let box = [1, 1];
  paint(new SvgContext(), given[0], given[1], (w, h) => (box = [w, h]), ...given.slice(2));
  return box;
};
const put = (ctx, x, y, scale, draw) => {
  ctx.save();
  ctx.translate(x, y);
  ctx.scale(scale, scale);
  draw();
  ctx.restore();
};
const ignore = () => {};

const paintSlide = (ctx, theme, picture) => {
  const { title, facts, foot } = wordsOf(picture);
  const wide = WIDE - 2 * MARGIN;
  ctx.fillStyle = theme.panel;
  ctx.fillRect(0, 0, WIDE, HIGH);
  writeTitle(ctx, theme, title, wide);
  const top = 148 + 28 * (writeFacts(ctx, theme, facts, wide) - 1);
  const footWide = write(ctx, theme, foot, WIDE - MARGIN, HIGH - 46, 14, { align: "right" });

  let bottom = HIGH - 68;
  if (picture.legend) {
    const most = (wide - footWide - 40) / LEGEND;
    const high = measure(picture.legend, most, theme)[1] * LEGEND;
    bottom = HIGH - 34 - high;
    put(ctx, MARGIN, bottom, LEGEND, () => picture.legend(ctx, most, theme, ignore));
    bottom -= 20;
  }
  const room = { width: wide / LARGER, height: (bottom - top) / LARGER };
  const [w, h] = measure(picture.paint, room.width, theme, room);
  const scale = LARGER * Math.min(1, room.width / w, room.height / h);
  const [x, y] = [(WIDE - w * scale) / 2, top + (bottom - top - h * scale) / 2];
  put(ctx, x, y, scale, () => picture.paint(ctx, room.width, theme, ignore, room));
};

export { HIGH, paintSlide, WIDE };
