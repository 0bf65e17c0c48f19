/* What changes when a word is taken away: each word of a text in the signed colour of what the named class loses
   without it, the value on hover, a scale with its ends named, the same as a table. */
import { buildPanel, childrenOf, el, live } from "../../../hf_attn/viz/web/core/dom.js";
import { number, percent, range } from "../../../hf_attn/viz/web/core/format.js";
import { css, numberOn, onLook, themeOf } from "../../../hf_attn/viz/web/core/theme.js";
import { tipOnFocus, tipOver } from "../../../hf_attn/viz/web/core/tooltip.js";
import { numbersTable, takeAway } from "../../../hf_attn/viz/web/export/buttons.js";
import { signedColour } from "../../../hf_attn/viz/web/plots/signed_colours.js";

const ENDS = [0.05, 0.1, 0.2, 0.5, 1]; // of the scale: the first that covers every word

const signed = x => (x > 0 && Number(x.toFixed(3)) !== 0 ? "+" : "") + number(x, 3);
const tells = (/** @type {Board.WordRemoval} */ value, /** @type {Board.RemovedWord} */ one) => [
  `without ${one.word}`,
  `${value.class} ${number(one.left, 3)} instead of ${number(value.before, 3)} (${signed(-one.drop)})`,
  ...(one.turns ? [`then the class is ${one.turns}`] : []),
];

const captionOf = (/** @type {Board.WordRemoval} */ value) => `What ${value.class} loses without each word`;
const table = (/** @type {Board.WordRemoval} */ value) => {
  const heads = ["word", "without it", "change", "class then"];
  const rows = value.words.map(one => [one.word, number(one.left, 3), signed(-one.drop), one.turns || value.class]);
  const caption = `The probability of ${value.class} without each word; with all words it is ${number(value.before, 3)}.`;
  return numbersTable([heads, ...rows], caption, { name: captionOf(value) });
};

/** The panel of the Try tab. */
const removalPanel = host => {
  const panel = buildPanel(host, "What changes when a word is taken away");
  const strip = el("p", "hf-words");
  const scale = el("div", "hf-signed");
  const said = live();
  panel.body.append(strip, scale, said.element);
  /** @type {Board.WordRemoval} */
  let value = null;

  const paint = () => {
    if (!value) return;
    const theme = themeOf(strip);
    const end = ENDS.find(limit => value.words.every(one => Math.abs(one.drop) <= limit)) ?? 1;
    childrenOf(strip).forEach((chip, i) => {
      const rgb = signedColour(theme, value.words[i].drop, end);
      chip.style.background = css(rgb);
      chip.style.color = numberOn(theme, rgb);
    });
    const bar = el("i");
    bar.style.background = `linear-gradient(to right, ${range(17)
      .map(k => css(signedColour(theme, k / 8 - 1, 1)))
      .join(", ")})`;
    const ends = [`−${end}: surer without it`, "0", `${end}: this class needs it`];
    scale.replaceChildren(bar, ...ends.map(text => el("span", "", text)));
  };
  onLook(strip, paint);

  const chipOf = (/** @type {Board.RemovedWord} */ one) => {
    const chip = el("span", one.turns ? "turns" : "", one.word);
    const told = tells(value, one);
    tipOver(chip, () => told);
    tipOnFocus(chip, told);
    chip.addEventListener("focus", () => said.say(told.join(", ")));
    return chip;
  };
  const lines = () => [
    ["word", `p(${value.class}) without it`, "change", "class then"],
    ...value.words.map(one => [one.word, one.left, -one.drop, one.turns || value.class]),
  ];
  const caption = () => captionOf(value);
  const refresh = takeAway(panel, { file: () => "removal", lines, caption, table: () => table(value) });
  const update = (/** @type {Board.TryValue} */ next) => {
    value = next?.removal || null;
    panel.section.hidden = !value;
    if (!value) return;
    strip.replaceChildren(...value.words.map(chipOf));
    strip.setAttribute("aria-label", `Words by what ${value.class} loses without them`);
    paint();
    refresh();
    const turning = value.words.some(one => one.turns);
    panel.rename(
      "What changes when a word is taken away",
      `${value.class} has ${percent(value.before)} with all words; underlined: without it the class is another` +
        (turning ? "" : " (no single word does that)"),
    );
  };
  return { update };
};

export { removalPanel };
