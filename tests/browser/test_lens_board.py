"""The lens in a browser, with the files of hf_attn.viz.web alone: no server, no Gradio."""

import base64
import re

import numpy as np
import pytest

from hf_attn.viz import web
from tests.support.browser import PATIENCE, choose_save, listen


def pack(weights):
    """Return weights as a board takes them."""
    return base64.b64encode(np.round(weights * 65535).astype("<u2").tobytes()).decode("ascii")


@pytest.fixture
def lens(chromium):
    """Open a page with a lens: window.lens, and in window.sent what it asked for; no script fails on it."""
    heard, pages = [], []

    def draw(value, width=1280):
        page = chromium.new_page(viewport={"width": width, "height": 900}, reduced_motion="reduce")
        pages.append(page)
        page.set_default_timeout(PATIENCE)
        heard.append(listen(page))
        styles = "\n".join(web.read_asset(name) for name in web.STYLES)
        styles += " [hidden] { display: none !important }"
        page.set_content(f"<style>{styles}</style><body><main class=hf-explore-block>")
        page.add_script_tag(content=web.join_scripts(web.list_scripts()))
        page.evaluate(
            """value => {
                const host = document.querySelector("main");
                host.innerHTML = '<div class="hf-explore hf-board"></div>';
                window.sent = [];
                window.lens = hfAttn.explore_board(host, (event, what) => sent.push([event, what]));
                lens.update(value);
                document.querySelector(".hf-researchers").open = true;
            }""",
            value,
        )
        return page

    yield draw
    for page in pages:
        page.close()
    assert not any(heard), heard


def random_value(queries=5, keys=5, heads=2):
    """Return a lens's value of one layer, and its weights."""
    weights = np.random.default_rng(0).dirichlet(np.ones(keys), (1, heads, queries))
    labels = [f"w{i}" for i in range(keys)]
    sent = {"maps": pack(weights), "shape": list(weights.shape)}
    kinds = {"encoder": {**sent, "rows": labels[:queries], "cols": labels}}
    return {"kinds": kinds, "kind": "encoder", "layer": 0, "head": 1, "query": 2, "key": 0, "id": 1}, weights


def tell_sent(page, event):
    """Return what was sent last under a name."""
    return page.evaluate("event => window.sent.filter(([name]) => name === event).at(-1)?.[1] ?? null", event)


def is_window(sent, **place):
    return sent.pop("sent_at") > 0 and sent == place


def test_several_tokens_are_averaged_listed_and_named(lens):
    value, weights = random_value()
    page = lens(value)
    chips = page.locator(".hf-tok")
    chips.nth(4).click(modifiers=["Control"])
    assert page.locator(".hf-cell h2").text_content() == "w2, w4 read w0"
    assert page.locator(".hf-big").text_content() == f"{weights[0, 1, [2, 4], 0].mean():.3f}"
    lines = page.locator(".hf-each-row tbody tr").all_text_contents()
    assert lines == [f"w{row}w0{weights[0, 1, row, 0]:.3f}" for row in (2, 4)]
    assert page.locator(".hf-tok.query").all_text_contents() == ["w2", "w4"]
    assert page.locator(".hf-tokens").first.get_attribute("aria-label") == "What w2, w4 read, the mean"
    chips.nth(2).click(modifiers=["Control"])
    assert page.locator(".hf-cell h2").text_content() == "w4 reads w0"
    box = chips.nth(1).bounding_box()
    page.mouse.move(box["x"] + 8, box["y"] + 8)
    page.mouse.down()
    page.locator(".hf-tok.query", has_text="w1").wait_for()  # held long enough
    page.mouse.up()
    assert page.locator(".hf-tok.query").all_text_contents() == ["w1", "w4"]


def test_the_mean_of_a_layers_heads_is_a_choice(lens):
    value, weights = random_value()
    page = lens(value)
    page.get_by_label("Mean of the layer's heads").check()
    assert "Layer 1, mean of 2 heads" in page.locator(".hf-one h2").text_content()
    assert page.locator(".hf-big").text_content() == f"{weights[0, :, 2, 0].mean():.3f}"
    page.get_by_role("button", name="layer 1, head 1").click()
    assert page.locator(".hf-big").text_content() == f"{weights[0, 0, 2, 0]:.3f}"


def test_the_state_of_a_lens_goes_into_another_one_and_shows_the_same_pixels(lens):
    value, _ = random_value()
    page = lens(value)
    page.locator(".hf-tok").nth(3).click(modifiers=["Control"])
    page.get_by_label("Ignore the first token").check()
    page.get_by_label("hide below").fill("0.1")
    kept = page.evaluate("lens.state()")
    assert (kept["row"], kept["key"], kept["tokens"], kept["floor"], kept["sink"]) == (2, 0, [3], 0.1, True)
    other = lens(None)
    other.evaluate("kept => lens.restore(kept)", kept)
    other.evaluate("value => lens.update(value)", {**value, "head": 0, "query": 0})
    assert other.evaluate("lens.state()") == kept
    assert page.evaluate(PIXELS) == other.evaluate(PIXELS)


PIXELS = """new Promise(done => requestAnimationFrame(() => requestAnimationFrame(
    () => done(document.querySelector("canvas[tabindex]").toDataURL()))))"""


def long_value(of=(100, 100), start=(40, 0)):
    """Return a lens's value of a window of 20 by 20, and its weights."""
    value, weights = random_value(20, 20)
    kind = value["kinds"]["encoder"]
    small = {"small": kind["maps"], "small_shape": kind["shape"], "from": list(start), "of": list(of)}
    whole = {"0.1": pack(weights[0, 1])}
    value["kinds"] = {"encoder": {**kind, **small, "maps": None, "whole": whole, "ahead": None}}
    return {**value, "query": 42, "key": 3, "window": {"size": 20, "why": "too long"}}, weights


def test_a_head_that_was_not_sent_is_asked_for_once_and_drawn_when_it_comes(lens):
    value, weights = long_value()
    page = lens(value)
    assert page.locator(".hf-cell h2").text_content() == "w2 43 reads w3 4"
    page.get_by_role("button", name="layer 1, head 1").click()
    assert tell_sent(page, "fetch") == {"id": 1, "kind": "encoder", "layer": 0, "head": 0}
    assert page.locator(".hf-waiting").count() == 1
    assert page.locator(".hf-big").text_content() == f"{weights[0, 1, 2, 3]:.3f}", "what was drawn stays"
    add = {"kind": "encoder", "at": "0.0", "map": pack(weights[0, 0])}
    page.evaluate("value => lens.receive(value)", {"id": 0, "add": add})
    assert page.locator(".hf-waiting").count() == 1, "it is of another input"
    page.evaluate("value => lens.receive(value)", {"id": 1, "add": add})
    assert page.locator(".hf-waiting").count() == 0
    assert page.locator(".hf-big").text_content() == f"{weights[0, 0, 2, 3]:.3f}"
    assert page.evaluate("window.sent.filter(([name]) => name === 'fetch').length") == 1


def test_a_window_is_chosen_by_its_tokens_and_the_cell_stays_the_same_token(lens):
    value, _ = long_value()
    page = lens(value)
    page.get_by_role("group", name="Which queries").get_by_role("button", name="21–40").click()
    assert is_window(tell_sent(page, "move_window"), row=20, column=0)
    page.get_by_role("group", name="Which keys").get_by_role("button", name="81–100").click()
    assert is_window(tell_sent(page, "move_window"), row=40, column=80)
    moved = {**value, "kinds": {"encoder": {**value["kinds"]["encoder"], "from": [35, 0]}}}
    page.get_by_role("button", name="layer 1, head 2").click()
    page.evaluate("value => lens.update(value)", moved)
    assert page.evaluate("[lens.state().row, lens.state().key]") == [42, 3]


def test_how_a_weight_came_about_is_asked_for_and_query_key_and_value_unfold(lens):
    value, weights = random_value()
    page = lens({**value, "asks": ["cell"]})
    asked = {"id": 1, "kind": "encoder", "layer": 0, "head": 1, "query": 2, "key": 0}
    was_asked = "query => sent.filter(([name]) => name === 'look_inside').at(-1)?.[1].query === query"
    page.wait_for_function(was_asked, arg=2)
    assert tell_sent(page, "look_inside") == asked
    numbers = {"q": [1.0, 2.0], "k": [0.5, -1.0], "v": [3.0, 4.0], "score": -1.5, "scaled": -1.06}
    other = {"key": 3, "scaled": 0.25}
    cell = {**asked, **numbers, "bias": None, "other": other, "weight": weights[0, 1, 2, 0], "keys": 5}
    page.evaluate("value => lens.receive(value)", {"id": 1, "cell": cell})
    assert page.locator(".hf-sum > *").all_text_contents() == [
        *("q · k", "−1.50", "÷ √2", "−1.06"),
        *("highest: w3", "0.25", "softmax of 5", f"{cell['weight']:.3f}"),
    ]
    assert page.locator(".hf-inside").is_hidden()
    page.get_by_role("button", name="Show q, k, v").click()
    page.locator(".hf-behind").get_by_role("button", name="Show as table").click()
    rows = page.locator(".hf-behind .hf-numbers tbody tr").all_text_contents()
    assert rows == ["110.5000.5003", "22−1−24"]
    page.locator(".hf-tok").nth(1).click()
    page.wait_for_function(was_asked, arg=1)
    without = {**asked, "query": 1, "why": "It has none."}
    page.evaluate("value => lens.receive(value)", {"id": 1, "cell": without})
    assert page.locator(".hf-behind .hf-hint").text_content() == "It has none."


def test_the_arrow_keys_go_through_the_heads_of_all_kinds_and_the_keyboard_stops_at_one(lens):
    value, _ = random_value()
    kind = value["kinds"]["encoder"]
    page = lens({**value, "kinds": {"encoder": kind, "decoder": kind}, "head": 1})
    stops = page.locator(".hf-grid button:not([tabindex='-1'])")
    stops.focus()
    page.keyboard.press("ArrowDown")
    assert page.evaluate("[lens.state().kind, lens.state().head]") == ["decoder", 1]
    page.keyboard.press("ArrowLeft")
    page.keyboard.press("ArrowUp")
    assert page.evaluate("[lens.state().kind, lens.state().head]") == ["encoder", 0]
    assert stops.count() == 1
    assert stops.evaluate("one => one === document.activeElement")


def test_what_is_said_of_each_head_stands_under_it(lens):
    value, _ = random_value()
    page = lens(value)
    notes = {"encoder": [[{"text": "62", "cls": "lost", "title": "62 % right without it"}, {"text": "–"}]]}
    page.evaluate("notes => hfAttn.lens.annotate({title: 'Right without this head', notes})", notes)
    assert page.locator(".hf-heads h2").text_content().strip() == "Right without this head"
    assert page.locator(".hf-grid button > span").all_text_contents() == ["62", "–"]
    assert page.get_by_role("button", name="layer 1, head 1, 62 % right without it").count() == 1


def test_keys_move_the_cell_enter_pins_and_escape_lets_go(lens):
    value, weights = random_value()
    page = lens({**value, "key": None})
    picture = page.locator("canvas[tabindex]")
    picture.focus()
    page.keyboard.press("Enter")
    assert page.locator(".hf-cell h2").text_content() == f"w0 reads w{weights[0, 1, 0].argmax()}"
    for key in ("ArrowDown", "End", "ArrowLeft", "Enter"):
        page.keyboard.press(key)
    assert page.locator(".hf-cell h2").text_content() == "w1 reads w3"
    page.keyboard.press("Escape")
    assert page.locator(".hf-cell h2").text_content() == "No cell chosen"


LABELS_OVERLAP = """([labels, r, c]) => {
    const host = document.querySelector("canvas[tabindex]").parentElement;
    const {layout, paint} = hfAttn.heatmapPaint, theme = hfAttn.themeOf(host);
    const ctx = document.createElement("canvas").getContext("2d");
    const values = labels.map(() => labels.map(() => 0.1));
    const o = {rows: labels, cols: labels, values, maxCell: 60, most: 1, selected: {r, c}};
    const box = layout(ctx, host.clientWidth, theme, o);
    const names = labels.map(label => hfAttn.clip(hfAttn.shown(label)));
    const drawn = [], fill = ctx.fillText.bind(ctx);
    ctx.fillText = (text, x, y) => {
        const at = ctx.getTransform(), wide = ctx.measureText(text).width;
        const left = ctx.textAlign === "right" ? x - wide : ctx.textAlign === "center" ? x - wide / 2 : x;
        const p = new DOMPoint(left, y).matrixTransform(at);
        // along the writing, and across it: labels of one axis are parallel
        const a = p.x * at.a + p.y * at.b, across = p.y * at.a - p.x * at.b;
        if (names.includes(text)) drawn.push({text, slanted: at.b !== 0, a, b: a + wide, across});
    };
    paint(ctx, theme, box, o, values, null);
    const meet = (p, q) => p.slanted === q.slanted && p.a < q.b && q.a < p.b;
    const near = (p, q) => Math.abs(p.across - q.across) < 12 - 1e-6;
    return drawn.flatMap((p, i) => drawn.slice(i + 1).filter(q => meet(p, q) && near(p, q)).map(q => [p, q]));
}"""


@pytest.mark.parametrize("width", [390, 1280])
def test_no_two_labels_of_a_map_overlap_however_long_and_nothing_scrolls_sideways(lens, width):
    long = ["[CLS]", *["extraordinarily", "a", "שלום", "世界", "🙂", "␣the", "documentation"] * 3, "[SEP]"]
    value, _ = random_value(len(long), len(long))
    value["kinds"]["encoder"] |= {"rows": long, "cols": long}
    page = lens(value, width)
    overlaps = page.evaluate(LABELS_OVERLAP, [long, value["query"], value["key"]])
    assert overlaps == []
    assert page.evaluate("document.documentElement.scrollWidth") <= width


STROKES = """picture => {
    const bends = [...new DOMParser().parseFromString(picture, "image/svg+xml").querySelectorAll("path")]
        .filter(path => /^M\\S+ \\S+C/.test(path.getAttribute("d")));
    const number = (path, name) => Number(path.getAttribute(name) || 1);
    return bends.map(path => [number(path, "stroke-width"), number(path, "opacity")]);
}"""
DRAW = """() => new Promise(done => requestAnimationFrame(() => requestAnimationFrame(() => {
    const draw = hfAttn.drawings.get(document.querySelector("canvas[tabindex]"));
    done(draw(hfAttn.readTheme(document.documentElement)));
})))"""


def drawn_lines(page):
    """Return [width, opacity] of every line on the page's own picture."""
    return page.evaluate(STROKES, page.evaluate(DRAW))


def figures_in(picture):
    """Return the weights that are written in a picture, in any order."""
    return sorted(re.findall(r">(1|0|\.\d\d)</text>", picture))


def point_at(page, side, i, of):
    """Point at the i-th word of a side, as map_lines.js lays out a short map."""
    box = page.locator("canvas[tabindex]").bounding_box()
    middle = box["y"] + 26 + (i + 0.5) * (box["height"] - 28) / of
    page.mouse.move(box["x"] + (20 if side == "query" else box["width"] - 20), middle)


def choose_drawing(page, name):
    page.locator(".hf-one").get_by_role("button", name=name, exact=True).click()


def test_lines_are_as_wide_as_their_weights_and_small_ones_are_left_out(lens):
    value, weights = random_value()
    page = lens({**value, "key": None})
    assert drawn_lines(page) == []
    choose_drawing(page, "Lines")
    expected = weights[0, 1][weights[0, 1] >= 0.02]
    assert 0 < len(expected) < weights[0, 1].size, "some are left out, to be told from all"
    widths, opacities = np.array(sorted(drawn_lines(page))).T
    assert np.allclose(widths, 10 * np.sort(expected), atol=1e-3)
    assert np.allclose(opacities, 0.25 + 0.75 * np.sort(expected), atol=1e-3)
    point_at(page, "query", 3, of=5)
    row = weights[0, 1, 3]
    page.wait_for_function("() => !document.querySelector('.hf-tip').hidden")
    assert np.allclose([width for width, _ in drawn_lines(page)], 10 * np.sort(row[row >= 0.02]), atol=1e-3)
    assert figures_in(page.evaluate(DRAW)) == sorted(f"{weight:.2f}"[1:] for weight in row if weight >= 0.02)
    assert page.locator(".hf-tip").inner_text().startswith("w3 reads\n")
    point_at(page, "key", 1, of=5)
    page.wait_for_function("() => document.querySelector('.hf-tip').textContent.startsWith('w1 is read')")
    read = weights[0, 1, :, 1]
    assert np.allclose([width for width, _ in drawn_lines(page)], 10 * np.sort(read[read >= 0.02]), atol=1e-3)


def test_the_cell_stays_chosen_between_map_and_lines_and_keys_say_the_same(lens):
    value, weights = random_value()
    page = lens(value)
    chosen = page.locator(".hf-cell h2")
    choose_drawing(page, "Lines")
    assert chosen.text_content() == "w2 reads w0"
    page.locator("canvas[tabindex]").focus()
    for key, of_word in (("ArrowDown", weights[0, 1, 3]), ("ArrowRight", weights[0, 1, :, 1])):
        page.keyboard.press(key)
        assert len(drawn_lines(page)) == (of_word >= 0.02).sum(), "of the word that the key led to"
    assert chosen.text_content() == "w3 reads w1"
    spoken = page.locator(".hf-one .hf-sr[aria-live]").first
    said = spoken.text_content()
    point_at(page, "key", 4, of=5)
    page.mouse.down()
    page.mouse.up()
    assert chosen.text_content() == "w3 reads w4", "the query stays"
    point_at(page, "query", 1, of=5)
    page.mouse.down()
    page.mouse.up()
    assert chosen.text_content().startswith("w1 reads ")
    choose_drawing(page, "Map")
    assert chosen.text_content().startswith("w1 reads ")
    page.evaluate("hfAttn.lens.pick({row: 2, key: 1})")
    page.locator("canvas[tabindex]").focus()
    page.keyboard.press("ArrowDown")
    assert spoken.text_content() == said


@pytest.mark.parametrize("width", [390, 1280])
def test_a_long_map_has_at_most_twelve_lines_a_query_and_says_so(lens, width):
    value, _ = random_value(100, 100)
    weights = np.full((1, 2, 100, 100), 0.01)
    kind = {**value["kinds"]["encoder"], "maps": pack(weights)}
    page = lens({**value, "kinds": {"encoder": kind}, "key": None}, width)
    choose_drawing(page, "Lines")
    assert len(drawn_lines(page)) == 48 * 12
    caption = page.locator(".hf-legend canvas").get_attribute("aria-label")
    assert "at most 12 lines a query; queries 1 to 48 of 100, keys 1 to 48 of 100" in caption
    assert page.evaluate("document.documentElement.scrollWidth") <= width


def test_the_saved_picture_has_the_lines(lens):
    value, weights = random_value()
    page = lens(value)
    choose_drawing(page, "Lines")
    with page.expect_download() as download:
        choose_save(page.locator(".hf-one"), "SVG")
    picture = download.value.path().read_text("utf-8")
    widths = sorted(width for width, _ in page.evaluate(STROKES, picture))
    assert np.allclose(widths, 10 * np.sort(weights[0, 1][weights[0, 1] >= 0.02]), atol=1e-3)
    assert "no line below 0.02" in picture
