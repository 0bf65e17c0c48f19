"use strict";
/* A view as one file: an HTML page that holds its styles, scripts and numbers, opens from a disk and asks for nothing.

   hfAttn.pageOf(kind, title, value)   the page's text
   hfAttn.openPage(kind, value)        what such a page does once it is there
   kind   lens     value of explore_board: every head, as in the app
          map      {map (options of mapView), file}: one map, with its tip, keys, table and exports
          figure   {drawings [{light, dark, name}] (SVG), lines, caption}: pictures and the table of their numbers
   value.python, if there is one, is what "Copy as Python" gives there.

   Styles and scripts are those of the elements of the open page that are marked data-hf="canvas". */
(hfAttn => {
  const { el } = hfAttn;

  const open = {
    lens: (main, value) => {
      main.className = "hf-explore-block";
      main.append(el("div", "hf-explore hf-board"));
      hfAttn.explore_board(main, () => {}).update(value);
    },
    map: (main, { map, file }) => {
      const panel = hfAttn.panel(map.name);
      const host = el("div");
      const view = hfAttn.mapView(host, { name: map.name, rows: [], cols: [], values: [] });
      panel.body.append(host);
      panel.footer.append(view.exports(() => file));
      panel.footer.hidden = false;
      main.className = "hf-board";
      main.append(panel.section);
      view.update(map);
    },
    figure: (main, { drawings, lines, caption }) => {
      const panel = hfAttn.panel(document.title);
      const image = (drawing, side) => {
        const source = `data:image/svg+xml;charset=utf-8,${encodeURIComponent(drawing[side])}`;
        return Object.assign(el("img", `hf-by-${side}`), { src: source, alt: drawing.name });
      };
      panel.body.append(...drawings.flatMap(one => [image(one, "light"), image(one, "dark")]));
      panel.body.append(hfAttn.numbersTable(lines, caption));
      main.className = "hf-board hf-figure-page";
      main.append(panel.section);
    },
  };

  hfAttn.openPage = (kind, value) => {
    const dark = matchMedia("(prefers-color-scheme: dark)");
    const { theme } = document.body.dataset;
    const dress = () => document.body.classList.toggle("dark", theme === "dark" || (theme === "auto" && dark.matches));
    dark.addEventListener("change", dress);
    dress();
    const main = document.querySelector("main");
    hfAttn.keepLines(main, value);
    open[kind](main, value);
  };

  const escaped = text => String(text).replace(/[&<>]/g, sign => `&#${sign.charCodeAt(0)};`);
  const json = value => JSON.stringify(value).replace(/</g, "\\u003c"); // no page takes data for markup then
  const own = tag => [...document.querySelectorAll(`${tag}[data-hf=canvas]`)].map(one => one.textContent).join("\n");
  const element = (tag, attributes, text) => `<${tag} ${attributes}>${text}</${tag}>`;
  const POLICY = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data: blob:";

  hfAttn.pageOf = (kind, title, value) => `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="${POLICY}">
<title>${escaped(title)}</title>
${element("style", 'data-hf="canvas"', own("style"))}
</head>
<body data-theme="auto">
<main></main>
${element("script", 'type="application/json" id="value"', json(value))}
${element("script", 'data-hf="canvas"', own("script"))}
${element("script", "", `hfAttn.openPage("${kind}", JSON.parse(document.getElementById("value").textContent));`)}
</body>
</html>
`;

  /** Every picture that a panel shows, as SVG for the day and for the night. */
  hfAttn.drawingsIn = section => {
    const [light, dark] = [hfAttn.readTheme(document.documentElement), hfAttn.atNight(hfAttn.readTheme)];
    const seen = [...section.querySelectorAll("canvas")].filter(canvas => hfAttn.drawings.has(canvas) && canvas.offsetParent);
    return seen.map(canvas => {
      const draw = hfAttn.drawings.get(canvas);
      return { light: draw(light), dark: draw(dark), name: canvas.getAttribute("aria-label") };
    });
  };
})((window.hfAttn ||= {}));
