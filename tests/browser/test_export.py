"""What is taken away is what was shown: pictures, numbers, one file that needs nothing, lines that run."""

import contextlib
import io
import re
import xml.etree.ElementTree as ElementTree

import pytest
from playwright.sync_api import expect

from hf_attn.checkpoints.save_load import BUNDLED
from tests.support.browser import PATIENCE, choose_save, choose_tab, listen

SOURCE = "153+391"


@pytest.fixture(scope="module")
def explore(chromium, served_app):
    """Explore with a bundled checkpoint's map; afterwards no script has failed."""
    page = chromium.new_context(viewport={"width": 1280, "height": 900}).new_page()
    page.set_default_timeout(PATIENCE)
    complaints = listen(page)
    page.goto(served_app)
    page.get_by_role("tab", name="Explore", exact=True).click()
    expect(heads(page).get_by_role("button", name="Save")).to_be_visible(timeout=PATIENCE)
    page.locator("#explore-board .hf-researchers > summary").click()
    heads(page).locator("[data-kind=cross] .hf-grid button").nth(4).click()
    expect(head(page).locator("h2").first).to_contain_text("Head 2·1")
    yield page
    assert complaints == []


def heads(page):
    return page.locator("#explore-board .hf-heads")


def head(page):
    return page.locator("#explore-board .hf-one")


def take(page, panel, name):
    """The bytes that the Save menu of a panel saves."""
    with page.expect_download() as download:
        choose_save(panel, name)
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


def test_one_file_of_all_heads_is_the_lens(explore, chromium, tmp_path):
    content = take(explore, heads(explore), "HTML")
    page = opened(chromium, content, tmp_path / "lens.html")
    page.locator("[data-kind=encoder] button").first.click()
    expect(page.locator(".hf-one > header h2")).to_contain_text("the input reads itself")
    again = take(page, page.locator(".hf-heads"), "HTML")  # a page from the page
    assert abs(len(again) - len(content)) < 2000


def test_one_file_of_other_panels_holds_their_picture_and_their_numbers(explore, chromium, tmp_path):
    panel = explore.locator(".hf-panel", has=explore.get_by_role("heading", name="Singular values")).last
    content = take(explore, panel.locator(".hf-takes").nth(1), "HTML")
    page = opened(chromium, content, tmp_path / "figure.html", "dark")
    pictures = page.locator("img:visible")
    assert pictures.count() >= 1
    assert pictures.first.evaluate("image => image.naturalWidth") > 100
    assert "%23161920" in pictures.first.get_attribute("src"), "the night's panel"
    assert page.locator("tbody tr").count() > 3


# ---------------------------------------------------------------- tables of shades, what words mean


def texts_of(svg):
    return [text.text for text in ElementTree.fromstring(svg).iter("{http://www.w3.org/2000/svg}text")]


def test_what_is_left_without_each_head_is_a_picture_too(explore):
    expect(heads(explore).locator(".hf-counting")).to_contain_text("20 of 20 heads", timeout=PATIENCE)
    shown = heads(explore).locator(".hf-grid button > span").all_text_contents()
    row = explore.locator(".hf-each")
    texts = texts_of(take(explore, row, "SVG"))
    assert sorted(text for text in texts if text.isdigit()) == sorted(shown)
    assert [text for text in texts if text.startswith("encoder")] == ["encoder, layer 1"]
    row.get_by_role("button", name="Save").click()
    expect(row.get_by_role("menuitem", name="Python")).to_be_visible()
    explore.keyboard.press("Escape")


def test_the_keyboard_reaches_what_sink_share_and_entropy_mean(explore):
    for word, formula in (("first key (sink)", "a_q1"), ("entropy, bits", "−Σ_k a_qk log₂ a_qk")):
        term = explore.locator("#explore-board abbr", has_text=word)
        term.focus()
        expect(explore.locator(".hf-tip")).to_contain_text(formula)
        assert formula in term.get_attribute("title")
    explore.get_by_label("hide below").first.focus()
    expect(explore.locator(".hf-tip")).to_be_hidden()


# ---------------------------------------------------------------- lines of Python


def test_the_lines_of_theory_views_are_of_the_head_that_was_chosen(explore, monkeypatch):
    monkeypatch.chdir(BUNDLED.parent)
    heads(explore).locator("[data-kind=cross] .hf-grid button").nth(7).click()
    panel = explore.locator(".hf-theory")
    expect(panel.locator("h2")).to_contain_text("layer 2, head 4")
    choose_save(panel, "Python")
    with contextlib.redirect_stdout(io.StringIO()):
        exec(panel.locator(".hf-code:visible").text_content(), scope := {})
    shown = panel.locator("tbody tr", has_text="Effective rank").locator("td").nth(1)
    assert float(shown.text_content()) == pytest.approx(scope["views"]["effective_rank"].item(), abs=0.005)


# ---------------------------------------------------------------- a picture that stands alone


def slide_of(page, panel):
    """The texts of a panel's SVG, each as it stands there, and the whole text."""
    svg = take(page, panel, "SVG").decode()
    return texts_of(svg), svg


def test_a_saved_map_says_what_it_shows_where_it_comes_from_and_what_its_marks_mean(explore):
    heads(explore).locator("[data-kind=cross] .hf-grid button").nth(4).click()
    canvas = head(explore).locator("canvas[tabindex]")
    canvas.focus()
    if not head(explore).locator(".hf-big").is_visible():
        explore.keyboard.press("Enter")
    explore.keyboard.press("Home")
    texts, svg = slide_of(explore, head(explore))
    assert 'width="1280" height="720"' in svg
    assert "".join(texts[:4]) == "0 reads 1 1 with weight 0.000"
    for part in ("attn-addition", "head 2·1", "153+391 → 544"):
        assert part in texts[4]
    assert {"query", ": reads ↓", "key", ": is read →"} <= set(texts)
    assert {"0", "1   weight; a row sums to 1", "known answer", "needed indirectly"} <= set(texts)
    assert re.search(r"hf_attn \d+\.\d+\S* · trained, step 3\u202f000", " ".join(texts))
    canvas.press("Escape")
    texts, _ = slide_of(explore, head(explore))
    assert texts[0] == "Head 2·1"


def test_a_saved_picture_is_light_whatever_the_page_is(explore):
    _, day = slide_of(explore, head(explore))
    explore.evaluate("document.body.classList.add('dark')")
    _, night = slide_of(explore, head(explore))
    explore.evaluate("document.body.classList.remove('dark')")
    assert day == night


def test_the_picture_of_all_heads_names_its_axes_and_its_scale(explore):
    texts, _ = slide_of(explore, heads(explore))
    assert texts[0] == "Every head: the answer reads the input"
    assert {"head →", "layer ↓", "1   weight; a row sums to 1"} <= set(texts)
    assert "in each map: rows are queries, columns keys" in texts


def test_a_saved_page_s_picture_still_says_which_model_it_is(explore, chromium, tmp_path):
    page = opened(chromium, take(explore, head(explore), "HTML"), tmp_path / "map.html")
    page.wait_for_function("document.querySelector('canvas[tabindex]').width > 100")
    texts, _ = slide_of(page, page.locator(".hf-panel"))
    assert {"attn-addition", "153+391 → 544"} <= set(" · ".join(texts).split(" · "))
    assert any(text.endswith("trained, step 3\u202f000") for text in texts)


SPACED = """all => {
    const one = all.find(one => one.textContent === " reads ");
    const [wide, start] = [one.getComputedTextLength(), one.getStartPositionOfChar(0).x];
    return [start + wide, one.nextElementSibling.getStartPositionOfChar(0).x];
}"""


def test_the_words_of_a_title_stand_apart_in_the_svg_as_a_browser_draws_it(explore, chromium):
    canvas = head(explore).locator("canvas[tabindex]")
    canvas.focus()
    canvas.press("Home")
    page = chromium.new_page()
    page.set_content(take(explore, head(explore), "SVG").decode())
    end, next_word = page.locator("text").evaluate_all(SPACED)
    page.close()
    assert end == pytest.approx(next_word, abs=1)


# ---------------------------------------------------------------- the Save menu


def test_the_save_menu_is_worked_by_keyboard_and_closes_with_the_focus_where_it_was(explore):
    press = head(explore).get_by_role("button", name="Save", exact=True).first
    menu = head(explore).get_by_role("menu", name="Save")
    focused = "document.activeElement.textContent"
    press.focus()
    explore.keyboard.press("Enter")
    expect(menu).to_be_visible()
    expect(press).to_have_attribute("aria-expanded", "true")
    assert explore.evaluate(focused).startswith("PNG")
    explore.keyboard.press("ArrowDown")
    assert explore.evaluate(focused).startswith("SVG")
    explore.keyboard.press("ArrowUp")
    explore.keyboard.press("ArrowUp")
    assert explore.evaluate(focused).startswith("Python")
    explore.keyboard.press("Escape")
    expect(menu).to_be_hidden()
    expect(press).to_be_focused()
    expect(press).to_have_attribute("aria-expanded", "false")
    explore.keyboard.press("ArrowDown")
    expect(menu).to_be_visible()
    explore.locator("#explore-board .hf-one > header h2").click()  # elsewhere
    expect(menu).to_be_hidden()


def test_a_closed_save_menu_is_no_stop_and_tab_closes_an_open_one(explore):
    panel = head(explore)
    press = panel.get_by_role("button", name="Save", exact=True).first
    press.focus()
    explore.keyboard.press("Tab")
    after = explore.evaluate_handle("document.activeElement")
    assert after.evaluate("one => one.closest('.hf-save')") is None
    press.click()
    explore.keyboard.press("Tab")
    expect(panel.get_by_role("menu")).to_be_hidden()
    assert after.evaluate("one => one === document.activeElement")


def test_a_finger_has_44_pixels_for_each_row_of_the_menu_which_lies_on_the_screen(chromium, served_app):
    context = chromium.new_context(viewport={"width": 390, "height": 844}, has_touch=True, is_mobile=True)
    page = context.new_page()
    page.set_default_timeout(PATIENCE)
    page.goto(served_app)
    found = [rows_of(page.locator("#attention-board .hf-map-panel"))]
    choose_tab(page, "Explore")
    expect(page.locator("#explore-board .hf-counting")).to_contain_text("20 of 20 heads")
    found += [rows_of(panel) for panel in (heads(page), head(page))]
    context.close()
    for boxes in found:
        assert len(boxes) >= 4
        assert all(box["height"] >= 44 and box["x"] >= 0 and box["x"] + box["width"] <= 390 for box in boxes)


def rows_of(panel):
    """Where the rows of a panel's Save menu lie; the menu is closed again."""
    panel.get_by_role("button", name="Save", exact=True).first.tap()
    boxes = [one.bounding_box() for one in panel.get_by_role("menuitem").all() if one.is_visible()]
    panel.page.keyboard.press("Escape")
    return boxes
