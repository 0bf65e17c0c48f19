/* A stand-in for a canvas context that writes SVG: it knows just the calls our paint functions make. */
const escaped = text =>
  String(text)
    // biome-ignore lint/suspicious/noControlCharactersInRegex: these are looked for
    .replace(/[\u0000-\u0008\u000b\u000c\u000e-\u001f\ufffe\uffff]/g, "\ufffd") // XML has no place for these
    .replace(/[&<>"]/g, c => `&#${c.charCodeAt(0)};`);
const round = x => Math.round(x * 1000) / 1000;
const meter = document.createElement("canvas").getContext("2d");

class SvgContext {
  parts = [];
  path = [];
  clips = 0;
  stack = [];
  transform = "";
  clip_ = "";
  dash = [];
  fillStyle = "#000";
  strokeStyle = "#000";
  lineWidth = 1;
  globalAlpha = 1;
  font = "";
  textAlign = "left";
  textBaseline = "alphabetic";

  measureText(text) {
    meter.font = this.font;
    return meter.measureText(text);
  }
  setLineDash(dash) {
    this.dash = dash;
  }
  save() {
    this.stack.push({ ...this, parts: null, path: null, clips: null, stack: null });
  }
  restore() {
    const { parts, path, clips, stack, ...kept } = this.stack.pop();
    Object.assign(this, kept);
  }
  translate(x, y) {
    this.transform += `translate(${round(x)} ${round(y)})`;
  }
  scale(x, y) {
    this.transform += `scale(${round(x)} ${round(y)})`;
  }
  rotate(angle) {
    this.transform += `rotate(${round((angle * 180) / Math.PI)})`;
  }

  beginPath() {
    this.path = [];
  }
  moveTo(x, y) {
    this.path.push(`M${round(x)} ${round(y)}`);
  }
  lineTo(x, y) {
    this.path.push(`L${round(x)} ${round(y)}`);
  }
  bezierCurveTo(...xy) {
    this.path.push("C" + xy.map(round).join(" "));
  }
  roundRect(x, y, w, h, r) {
    const [a, b] = [Math.min(r, w / 2, h / 2), (dx, dy) => `a${round(a)} ${round(a)} 0 0 1 ${round(dx)} ${round(dy)}`];
    this.path.push(
      `M${round(x + a)} ${round(y)}h${round(w - 2 * a)}${b(a, a)}v${round(h - 2 * a)}${b(-a, a)}h${round(2 * a - w)}${b(-a, -a)}v${round(2 * a - h)}${b(a, -a)}z`,
    );
  }
  arc(x, y, r) {
    this.path.push(
      `M${round(x - r)} ${round(y)}a${round(r)} ${round(r)} 0 1 1 ${round(2 * r)} 0a${round(r)} ${round(r)} 0 1 1 ${round(-2 * r)} 0z`,
    );
  }

  clip() {
    const id = `clip${this.clips++}`;
    this.parts.push(`<clipPath id="${id}"><path d="${this.path.join("")}"/></clipPath>`);
    this.clip_ = ` clip-path="url(#${id})"`;
  }
  common() {
    return `${this.transform ? ` transform="${this.transform}"` : ""}${this.clip_}${this.globalAlpha < 1 ? ` opacity="${this.globalAlpha}"` : ""}`;
  }
  fill() {
    this.parts.push(`<path d="${this.path.join("")}" fill="${this.fillStyle}"${this.common()}/>`);
  }
  stroke() {
    const dash = this.dash.length ? ` stroke-dasharray="${this.dash.join(" ")}"` : "";
    this.parts.push(
      `<path d="${this.path.join("")}" fill="none" stroke="${this.strokeStyle}" stroke-width="${this.lineWidth}"${dash}${this.common()}/>`,
    );
  }
  fillRect(x, y, w, h) {
    this.parts.push(
      `<path d="M${round(x)} ${round(y)}h${round(w)}v${round(h)}h${round(-w)}z" fill="${this.fillStyle}"${this.common()}/>`,
    );
  }
  fillText(text, x, y) {
    const anchor = { left: "start", center: "middle", right: "end" }[this.textAlign];
    const [, weight, size, family] = /^(\d+) ([\d.]+)px (.*)$/.exec(this.font);
    const down = this.textBaseline === "middle" ? 0.35 * Number(size) : 0; // viewers differ on dominant-baseline; this does not
    this.parts.push(
      `<text xml:space="preserve" x="${round(x)}" y="${round(y + down)}" text-anchor="${anchor}" font-size="${size}" font-weight="${weight}" font-family="${escaped(family)}" fill="${this.fillStyle}"${this.common()}>${escaped(text)}</text>`,
    );
  }
}

const drawSvg = (paint, width, theme, label) => {
  const ctx = new SvgContext();
  let box = [width, 1];
  paint(ctx, width, theme, (w, h) => {
    box = [w, h];
  });
  return (
    `<svg xmlns="http://www.w3.org/2000/svg" width="${box[0]}" height="${box[1]}" viewBox="0 0 ${box[0]} ${box[1]}" role="img" aria-label="${escaped(label)}" style="font-variant-numeric:tabular-nums">` +
    `<rect width="100%" height="100%" fill="${theme.panel}"/>${ctx.parts.join("")}</svg>`
  );
};

export { drawSvg, SvgContext };
