/* Through time: a slider over the steps of a run, and a strip of nine frames (five on a phone) evenly spread over it.

   const film = filmStrip(host, {onStep(step)}); film.update({frames, last, cursor})
   frames   [{step, map}] in order of step: map is [rows][cols] of weights
   last     the last step of the run so far, the end of the slider; null before a run
   On the slider the arrows move by 1 % of the run, with Shift by 10 %, Home and End to its ends; onStep(step, way)
   then says which way, for steps that lie further apart.
   cursor   the step shown
   A place in the strip stays dashed while a neighbour is nearer to every frame there is. */
import { buildSlider, button, el, write } from "../core/dom.js";
import { clamp, count, range } from "../core/format.js";
import { thumb } from "../core/surface.js";
import { onLook, themeOf } from "../core/theme.js";

const PLACES = 9;

/** Which frame stands at each of the nine places: the nearest, and only at the place nearest to it. */
const spread = (frames, last) => {
  const at = i => (i * last) / (PLACES - 1);
  const gap = (i, f) => Math.abs(at(i) - f.step);
  const nearest = range(PLACES).map(i =>
    frames.reduce((best, f) => (!best || gap(i, f) < gap(i, best) ? f : best), null),
  );
  return nearest.map((f, i) =>
    f && nearest.every((g, j) => g !== f || gap(i, f) < gap(j, f) || (gap(i, f) === gap(j, f) && i <= j)) ? f : null,
  );
};

const place = onStep => {
  const canvas = el("canvas");
  const label = el("span");
  const press = button("", () => onStep(shown.step), "");
  let [drawn, shown] = [null, null];
  press.append(canvas, label);
  const draw = () => {
    if (shown) thumb(canvas, shown.map, themeOf(press));
  };
  onLook(press, draw);
  const update = (frame, pressed) => {
    shown = frame;
    press.disabled = !frame;
    press.className = frame ? "" : "blank";
    press.setAttribute("aria-pressed", String(Boolean(frame) && pressed));
    press.setAttribute("aria-label", frame ? "step " + count(frame.step) : "no frame yet");
    write(label, frame ? count(frame.step) : "");
    if (frame && frame.map !== drawn) {
      drawn = frame.map;
      draw();
    }
  };
  return { press, update };
};

const filmStrip = (host, { onStep }) => {
  const slider = buildSlider("Step of training shown", 0, 1, 1, onStep);
  const places = range(PLACES).map(() => place(onStep));
  const at = { cursor: 0, last: 1 };
  slider.element.addEventListener("keydown", event => {
    const by = ((event.shiftKey ? 10 : 1) * at.last) / 100;
    const [back, on] = [at.cursor - by, at.cursor + by];
    const keys = { ArrowLeft: back, ArrowDown: back, ArrowRight: on, ArrowUp: on, Home: 0, End: at.last };
    const to = keys[event.key];
    if (to === undefined || event.altKey || event.ctrlKey || event.metaKey) return;
    event.preventDefault();
    onStep(clamp(to, 0, at.last), Math.sign(to - at.cursor));
  });
  host.append(el("div", "hf-rail", slider.element), el("div", "hf-film", ...places.map(p => p.press)));
  return {
    update: ({ frames, last, cursor }) => {
      const strip = frames.length ? spread(frames, frames.at(-1).step) : range(PLACES).map(() => null);
      const nearest = strip
        .filter(Boolean)
        .reduce((best, f) => (!best || Math.abs(f.step - cursor) < Math.abs(best.step - cursor) ? f : best), null);
      Object.assign(at, { cursor: cursor || 0, last: last || 1 });
      slider.element.disabled = !last;
      slider.update(cursor || 0, last || 1);
      slider.element.setAttribute("aria-valuetext", `step ${count(cursor || 0)}`);
      strip.forEach((frame, i) => places[i].update(frame, frame === nearest));
    },
  };
};

export { filmStrip };
