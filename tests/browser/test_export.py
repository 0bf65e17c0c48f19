"""What is taken away is what was shown: pictures, numbers, one file that needs nothing, lines that run."""

import re
import xml.etree.ElementTree as ElementTree

import pytest
from playwright.sync_api import expect

from tests.support.browser import PATIENCE, choose_save, listen


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


def texts_of(svg):
    return [text.text for text in ElementTree.fromstring(svg).iter("{http://www.w3.org/2000/svg}text")]


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


def test_a_saved_page_s_picture_still_says_which_model_it_is(explore, chromium, tmp_path):
    page = opened(chromium, take(explore, head(explore), "HTML"), tmp_path / "map.html")
    page.wait_for_function("document.querySelector('canvas[tabindex]').width > 100")
    texts, _ = slide_of(page, page.locator(".hf-panel"))
    assert {"attn-addition", "153+391 → 544"} <= set(" · ".join(texts).split(" · "))
    assert any(text.endswith("trained, step 3\u202f000") for text in texts)


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
