"""What is taken away is what was shown: pictures, numbers, one file that needs nothing, lines that run."""

import contextlib
import csv
import io
import re
import xml.etree.ElementTree as ElementTree

import numpy as np
import pytest
from playwright.sync_api import expect

from hf_attn import attention_maps, load_checkpoint
from hf_attn.checkpoints.save_load import BUNDLED
from tests.support.browser import PATIENCE, expect_trained, listen

SOURCE = "153+391"
INK = """canvas => {
    const {data} = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
    const found = new Set();
    for (let i = 0; i < data.length; i += 4) found.add(data.slice(i, i + 4).join());
    return found.size;
}"""


@pytest.fixture(scope="module")
def explore(chromium, served_app):
    """Explore with a bundled checkpoint's map; afterwards no script has failed."""
    page = chromium.new_context(viewport={"width": 1280, "height": 900}).new_page()
    page.set_default_timeout(PATIENCE)
    complaints = listen(page)
    page.goto(served_app)
    page.get_by_role("tab", name="Explore", exact=True).click()
    expect(heads(page).get_by_role("button", name="NPZ")).to_be_visible(timeout=PATIENCE)
    page.locator("#explore-board .hf-researchers > summary").click()
    heads(page).locator("[data-kind=cross] .hf-grid button").nth(4).click()
    expect(head(page).locator("h2").first).to_contain_text("Head 2·1")
    yield page
    assert complaints == []


@pytest.fixture(scope="module")
def weights():
    """What the page shows, computed here."""
    found = load_checkpoint(BUNDLED / "attn-addition")
    return attention_maps(found.model, found.task.encode(SOURCE), tokenizer=found.tokenizer)


def heads(page):
    return page.locator("#explore-board .hf-heads")


def head(page):
    return page.locator("#explore-board .hf-one")


def take(page, panel, name):
    """The bytes that a button saves."""
    with page.expect_download() as download:
        panel.get_by_role("button", name=name, exact=True).click()
    assert download.value.suggested_filename.endswith(f".{name.lower()}")
    return download.value.path().read_bytes()


def opened(chromium, content, path, scheme="light"):
    """A saved page, opened from the disk without a network; what it asked for besides itself."""
    asked = []
    path.write_bytes(content)
    page = chromium.new_context(offline=True, color_scheme=scheme).new_page()
    page.on("request", lambda request: asked.append(request.url))
    page.on("pageerror", lambda error: asked.append(str(error)))
    page.goto(path.as_uri())
    assert [url for url in asked if not url.startswith(("file:", "data:", "blob:"))] == []
    return page


# ---------------------------------------------------------------- one head


@pytest.mark.parametrize("panel", [heads, head])
def test_png_is_a_picture_and_svg_is_well_formed(explore, panel):
    png = take(explore, panel(explore), "PNG")
    assert png[:8] == b"\x89PNG\r\n\x1a\n"
    assert int.from_bytes(png[16:20], "big") > 200
    svg = ElementTree.fromstring(take(explore, panel(explore), "SVG"))
    assert svg.tag == "{http://www.w3.org/2000/svg}svg"
    assert len(list(svg.iter("{http://www.w3.org/2000/svg}path"))) > 40


def test_csv_holds_the_table_s_numbers_and_the_model_s(explore, weights):
    text = take(explore, head(explore), "CSV").decode()
    _, *rows = csv.reader(io.StringIO(text))
    numbers = np.array([[float(cell) for cell in row[1:]] for row in rows])
    assert np.abs(numbers - weights.cross[-1, 0].numpy()).max() < 2e-5
    head(explore).get_by_role("button", name="Show as table").click()
    shown = head(explore).locator(".hf-numbers tbody tr").all()
    table = [[float(cell) for cell in row.locator("td").all_text_contents()] for row in shown]
    head(explore).get_by_role("button", name="Hide table").click()
    assert np.abs(numbers - np.array(table)).max() < 6e-4


def test_npz_of_one_head_and_of_all_is_read_by_numpy(explore, weights):
    one = np.load(io.BytesIO(take(explore, head(explore), "NPZ")))
    assert np.abs(one["weights"] - weights.cross[-1, 0].numpy()).max() < 2e-5
    assert "".join(one["key_tokens"]) == f"{SOURCE}end"
    assert "".join(one["query_tokens"]) == "0544end"
    every = np.load(io.BytesIO(take(explore, heads(explore), "NPZ")))
    for kind in ("encoder", "decoder", "cross"):
        assert every[kind].dtype == np.float32
        assert np.abs(every[kind] - getattr(weights, kind).numpy()).max() < 2e-5
    assert len(every["target_tokens"]) == weights.cross.shape[2]


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_one_file_of_a_map_opens_without_a_network_and_still_answers(explore, chromium, tmp_path, scheme):
    content = take(explore, head(explore), "HTML")
    page = opened(chromium, content, tmp_path / "map.html", scheme)
    canvas = page.locator("canvas[tabindex='0']")
    page.wait_for_function("document.querySelector('canvas[tabindex]').width > 100")
    assert canvas.evaluate(INK) > 20
    assert page.evaluate("document.body.classList.contains('dark')") is (scheme == "dark")
    canvas.focus()
    page.keyboard.press("ArrowRight")
    expect(page.locator("[aria-live]")).to_contain_text("weight")
    page.get_by_role("button", name="Show as table").click()
    expect(page.locator("tbody tr")).to_have_count(5)


def test_one_file_of_all_heads_is_the_lens(explore, chromium, tmp_path):
    content = take(explore, heads(explore), "HTML")
    page = opened(chromium, content, tmp_path / "lens.html")
    page.locator("[data-kind=encoder] button").first.click()
    expect(page.locator(".hf-one > header h2")).to_contain_text("the input reads itself")
    again = take(page, page.locator(".hf-heads"), "HTML")  # a page from the page
    assert abs(len(again) - len(content)) < 2000


def test_one_file_of_other_panels_holds_their_picture_and_their_numbers(explore, chromium, tmp_path):
    panel = explore.locator(".hf-panel", has=explore.get_by_role("heading", name="Singular values")).last
    content = take(explore, panel.get_by_role("button", name="HTML").first.locator("xpath=.."), "HTML")
    page = opened(chromium, content, tmp_path / "figure.html", "dark")
    pictures = page.locator("img:visible")
    assert pictures.count() >= 1
    assert pictures.first.evaluate("image => image.naturalWidth") > 100
    assert "%23161920" in pictures.first.get_attribute("src"), "the night's panel"
    assert page.locator("tbody tr").count() > 3


# ---------------------------------------------------------------- tables of shades, what words mean


def texts_of(svg):
    return [text.text for text in ElementTree.fromstring(svg).iter("{http://www.w3.org/2000/svg}text")]


def test_the_table_of_head_roles_is_a_picture_too(explore):
    table = explore.locator(".hf-roles-table")
    shown = [row.locator("td").all_text_contents() for row in table.locator("tbody tr").all()]
    texts = texts_of(take(explore, table, "SVG"))
    assert texts[: len(shown[0])] == table.locator("thead th").all_text_contents()[1:]
    assert [text for text in texts if re.fullmatch(r"[\d.]+", text)] == [
        text for row in shown for text in row
    ]
    assert take(explore, table, "PNG")[:4] == b"\x89PNG"


def test_what_is_left_without_each_head_is_a_picture_too(explore):
    expect(heads(explore).locator(".hf-counting")).to_contain_text("20 of 20 heads", timeout=PATIENCE)
    shown = heads(explore).locator(".hf-grid button > span").all_text_contents()
    row = explore.locator(".hf-each")
    texts = texts_of(take(explore, row, "SVG"))
    assert sorted(text for text in texts if text.isdigit()) == sorted(shown)
    assert [text for text in texts if text.startswith("encoder")] == ["encoder, layer 1"]
    expect(row.get_by_role("button", name="Copy as Python")).to_be_visible()


def test_the_keyboard_reaches_what_sink_share_and_entropy_mean(explore):
    for word, formula in (("first key (sink)", "a_q1"), ("entropy, bits", "−Σ_k a_qk log₂ a_qk")):
        term = explore.locator("#explore-board abbr", has_text=word)
        term.focus()
        expect(explore.locator(".hf-tip")).to_contain_text(formula)
        assert formula in term.get_attribute("title")
    explore.get_by_label("hide below").first.focus()
    expect(explore.locator(".hf-tip")).to_be_hidden()


# ---------------------------------------------------------------- lines of Python


def test_the_copied_lines_run_as_pasted_and_give_the_head_that_was_chosen(explore, weights, monkeypatch):
    monkeypatch.chdir(BUNDLED.parent)
    explore.context.grant_permissions(["clipboard-read", "clipboard-write"])
    heads(explore).locator("[data-kind=cross] .hf-grid button").nth(2).click()
    expect(head(explore).locator("h2").first).to_contain_text("Head 1·3")
    head(explore).get_by_role("button", name="Copy as Python").click()
    expect(head(explore).get_by_role("button", name="Copied")).to_be_visible()
    pasted, scope = explore.evaluate("navigator.clipboard.readText()"), {}
    assert pasted == head(explore).locator(".hf-code:visible").text_content()
    with contextlib.redirect_stdout(io.StringIO()):
        exec(pasted, scope)
    assert np.abs(scope["weights"].numpy() - weights.cross[0, 2].numpy()).max() < 1e-5
    explore.get_by_label("Mean of the layer's heads").check()
    with contextlib.redirect_stdout(io.StringIO()):
        exec(head(explore).locator(".hf-code:visible").text_content(), scope)
    assert np.abs(scope["weights"].numpy() - weights.cross[0].mean(0).numpy()).max() < 1e-5


def test_the_lines_of_theory_views_are_of_the_head_that_was_chosen(explore, monkeypatch):
    monkeypatch.chdir(BUNDLED.parent)
    heads(explore).locator("[data-kind=cross] .hf-grid button").nth(7).click()
    panel = explore.locator(".hf-theory")
    expect(panel.locator("h2")).to_contain_text("layer 2, head 4")
    panel.get_by_role("button", name="Copy as Python").first.click()
    with contextlib.redirect_stdout(io.StringIO()):
        exec(panel.locator(".hf-code:visible").text_content(), scope := {})
    shown = panel.locator("tbody tr", has_text="Effective rank").locator("td").nth(1)
    assert float(shown.text_content()) == pytest.approx(scope["views"]["effective_rank"].item(), abs=0.005)


NOT_YET = {"Validation accuracy", "Accuracy by length"}  # of Duel and Positions: nothing was trained there
ROWS = """() => [...document.querySelectorAll(".hf-takes")].filter(row => row.offsetParent).map(row => [
    row.closest(".hf-panel").querySelector("h2").firstChild.textContent.trim(),
    [...row.querySelectorAll("button")].some(one => one.textContent === "Copy as Python" && one.offsetParent),
])"""


@pytest.mark.slow  # tests/app/test_snippets.py runs the lines themselves
def test_whatever_can_be_taken_away_can_be_copied_as_python(chromium, served_app):
    page, found = chromium.new_page(viewport={"width": 1280, "height": 900}), {}
    page.set_default_timeout(PATIENCE)
    page.goto(served_app)
    for name, filled in {
        "Attention": "#attention-board .hf-takes",
        "Train": "#train-board .hf-takes:visible",
        "Try": "#try-board .hf-takes:visible",
        "Explore": ".hf-theory .hf-takes:visible",
        "Duel": "#duel-board",
        "Positions": "#positions-board .hf-takes",
        "Language": "[role=tabpanel] .hf-takes:visible",
    }.items():
        page.get_by_role("tab", name=name, exact=True).click()
        if name == "Train":
            page.get_by_label("Steps", exact=True).fill("8")
            page.locator("#train").click()
            expect_trained(page)
        expect(page.locator(filled).first).to_be_visible(timeout=PATIENCE)
        found[name] = page.evaluate(ROWS)
    page.close()
    assert all(found[name] for name in ("Attention", "Train", "Try", "Explore", "Positions", "Language"))
    without = {title for rows in found.values() for title, has_lines in rows if not has_lines}
    assert without <= NOT_YET


def test_on_a_phone_the_buttons_wait_behind_one(explore):
    explore.set_viewport_size({"width": 390, "height": 800})
    row = head(explore).locator(".hf-takes")
    expect(row.get_by_role("button", name="CSV")).to_be_hidden()
    row.get_by_role("button", name="Save").click()
    expect(row.get_by_role("button", name="CSV")).to_be_visible()
    explore.set_viewport_size({"width": 1280, "height": 900})
