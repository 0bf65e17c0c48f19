/* From one vector for everything to query, key and value: three maps of the same sentence side by side, one chosen
   cell in all of them, and its score beside that of its mirror image. The board takes a Board.RolesValue. */
import { buildPanel, el } from "../../../hf_attn/viz/web/core/dom.js";
import { named, number } from "../../../hf_attn/viz/web/core/format.js";
import { heatmap } from "../../../hf_attn/viz/web/plots/heatmap.js";

const EVEN = 1e-9; // below it two scores differ by rounding only

const step = (host, place, words, /** @type {Board.RoleStep} */ data, onSelect) => {
  const cell = el("div", "hf-role");
  const mapHost = el("div");
  const pair = el("p", "hf-hint");
  const apart = data.asymmetry > EVEN;
  const verdict = el(
    "p",
    "hf-role-verdict",
    "scores are ",
    el("b", "", apart ? "asymmetric" : "symmetric"),
    `, largest |s\u1d62\u2c7c − s\u2c7c\u1d62| ${number(data.asymmetry)}`,
  );
  const title = el("h3", "", el("i", "hf-step-n", String(place)), data.title);
  cell.append(title, el("p", "hf-role-equation", data.equation), mapHost, pair, verdict);
  host.append(cell);
  const name = `${data.title}: weights`;
  const map = heatmap(mapHost, { rows: words, cols: words, values: data.weights, name, maxCell: 44, onSelect });
  const python = text => text.replace(/^place = .*$/m, `place = ${place - 1}`);
  cell.append(map.exports(() => `roles-step-${place}`, { python }));
  const select = at => {
    map.update({ selected: at });
    pair.hidden = !at;
    if (!at) return;
    const [a, b] = [named(words, at.r), named(words, at.c)];
    const [there, back] = [data.scores[at.r][at.c], data.scores[at.c][at.r]];
    pair.textContent = `score ${a} → ${b} ${number(there)}, ${b} → ${a} ${number(back)}`;
  };
  return { select };
};

const roles_board = element => {
  const root = element.querySelector(".hf-roles");
  const panel = buildPanel(root, "Who asks, who answers, what is said: three steps", {
    note: "the same five words; the maps W are random, so only the symmetry means something",
  });
  const grid = el("div", "hf-role-grid");
  panel.body.append(grid);
  let built = false;
  const update = (/** @type {Board.RolesValue} */ value) => {
    if (!value || built) return;
    built = true;
    const select = at => steps.forEach(one => one.select(at));
    const steps = value.steps.map((data, i) => step(grid, i + 1, value.words, data, select));
    select({ r: 1, c: 2 });
  };
  return { update };
};

export { roles_board };
