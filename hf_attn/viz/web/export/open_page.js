/* What a saved page does once it is there: openPage(kind, value), both as `pageOf` in single_page.js has them. */
import { buildPanel, el } from "../core/dom.js";
import { keepValue } from "../core/kept.js";
import { explore_board } from "../lens/explore_board.js";
import { mapView } from "../plots/long_heatmap.js";
import { numbersTable } from "./buttons.js";

const open = {
  lens: (main, value) => {
    main.className = "hf-explore-block";
    main.append(el("div", "hf-explore hf-board"));
    explore_board(main, () => {}).update(value);
  },
  map: (main, { map, file }) => {
    const panel = buildPanel(main, map.name);
    const host = el("div");
    const view = mapView(host, { name: map.name });
    panel.body.append(host);
    panel.footer.append(view.exports(() => file));
    panel.footer.hidden = false;
    main.className = "hf-board";
    view.update(map);
  },
  figure: (main, { drawings, lines, caption }) => {
    const panel = buildPanel(main, document.title);
    const image = (drawing, side) => {
      const source = `data:image/svg+xml;charset=utf-8,${encodeURIComponent(drawing[side])}`;
      return Object.assign(el("img", `hf-by-${side}`), { src: source, alt: drawing.name });
    };
    panel.body.append(...drawings.flatMap(one => [image(one, "light"), image(one, "dark")]));
    panel.body.append(numbersTable(lines, caption));
    main.className = "hf-board hf-figure-page";
  },
};

const openPage = (kind, value) => {
  const dark = matchMedia("(prefers-color-scheme: dark)");
  const { theme } = document.body.dataset;
  const dress = () => document.body.classList.toggle("dark", theme === "dark" || (theme === "auto" && dark.matches));
  dark.addEventListener("change", dress);
  dress();
  const main = document.querySelector("main");
  keepValue(main, value);
  open[kind](main, value);
};

export { openPage };
