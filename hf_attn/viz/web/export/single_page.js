/* A view as one file: an HTML page that holds its styles, scripts and numbers, opens from a disk and asks for nothing.

   pageOf(kind, title, value)   the page's text
   kind   lens     value of explore_board: every head, as in the app
          map      {map (options of mapView), file}: one map, with its tip, keys, table and exports
          figure   {drawings [{light, dark, name}] (SVG), lines, caption}: pictures and the table of their numbers
   value.python, if there is one, is what "Python" in the Save menu gives there.

   Styles and scripts are those of the elements of the open page that are marked data-hf="canvas". */
import { drawings } from "../core/surface.js";
import { atNight, readTheme } from "../core/theme.js";

const escaped = text => String(text).replace(/[&<>]/g, sign => `&#${sign.charCodeAt(0)};`);
const json = value => JSON.stringify(value).replace(/</g, "\\u003c"); // no page takes data for markup then
const own = tag => [...document.querySelectorAll(`${tag}[data-hf=canvas]`)].map(one => one.textContent).join("\n");
const element = (tag, attributes, text) => `<${tag} ${attributes}>${text}</${tag}>`;
const POLICY = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data: blob:";

const pageOf = (kind, title, value) => `<!doctype html>
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
const drawingsIn = section => {
  const [light, dark] = [readTheme(document.documentElement), atNight(readTheme)];
  const seen = [...section.querySelectorAll("canvas")].filter(canvas => drawings.has(canvas) && canvas.offsetParent);
  return seen.map(canvas => {
    const draw = drawings.get(canvas);
    return { light: draw(light), dark: draw(dark), name: canvas.getAttribute("aria-label") };
  });
};

export { drawingsIn, pageOf };
