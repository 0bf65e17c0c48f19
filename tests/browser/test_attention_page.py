"""The Attention tab in a browser: a newcomer's way from the first example to a model that learns."""

import re
from decimal import Decimal

import pytest
from playwright.sync_api import expect

from hf_attn.textbooks.worked_examples import WORKED_EXAMPLES
from tests.support.browser import expect_trained, open_tab, settle


@pytest.fixture(scope="module")
def page(chromium, served_app):
    """The app in a real browser, as it opens."""
    with open_tab(chromium, served_app, "Attention") as opened:
        yield opened


def number(text):
    """A number as the page writes it."""
    return Decimal(text.strip().replace("−", "-"))


def products_of(board):
    """The shown products, and the score that is shown under them."""
    board.get_by_role("button", name="Show every number").first.click()
    shown = board.locator(".hf-arithmetic .hf-numbers").first
    rows = [row.locator("td").all_text_contents() for row in shown.locator("tbody tr").all()]
    score = shown.locator("tfoot td").last.inner_text()
    board.get_by_role("button", name="Hide table").first.click()
    return [number(row[2]) for row in rows], number(score)


def test_a_newcomer_sees_an_explained_example_clicks_a_cell_and_checks_figures_by_hand(page):
    board = page.locator("#attention-board")
    expect(page.get_by_role("tab", name="Attention")).to_have_attribute("aria-selected", "true")
    pair = board.locator(".hf-read-line .hf-pair")
    expect(pair).to_have_text("MUL reads *")
    expect(page.locator("#attention-headline")).to_contain_text("To write “MUL” it looks at “*”: 74")
    page.get_by_role("button", name="Read one number").click()
    expect(board.locator(".hf-ledger tbody tr")).to_have_count(10)
    expect(page.locator("#attention-origin")).to_contain_text("attn-parser")

    canvas = board.locator(".hf-map-panel canvas[tabindex='0']")
    box = canvas.bounding_box()
    canvas.click(position={"x": box["width"] * 0.55, "y": box["height"] * 0.75})  # some cell
    expect(pair).not_to_have_text("MUL reads *")
    canvas.press("ArrowRight")
    chosen = board.locator(".hf-map-panel [aria-live]").last.inner_text()
    query, key = re.match(r"(\S+) reads (\S+?),", chosen).groups()
    expect(pair).to_have_text(f"{query} reads {key}")
    products, score = products_of(board)
    assert len(products) == 32
    assert sum(products).quantize(score) == score
    assert score == number(board.locator(".hf-chain output").first.inner_text())
    assert score == number(board.locator(".hf-ledger tr.chosen td").nth(1).inner_text())
    board.locator(".hf-ledger").get_by_role("button", name="*", exact=True).click()
    expect(pair).to_have_text(f"{query} reads *")

    def picture():
        settle(page)
        return canvas.evaluate("canvas => canvas.toDataURL()")

    ringed = picture()
    page.evaluate("hfAttn.hideAnswers(true)")
    assert picture() != ringed
    page.evaluate("hfAttn.hideAnswers(false)")
    assert picture() == ringed, "the whole map is drawn anew, though only a cell came last"
    expect(pair).to_have_text(f"{query} reads *")

    page.get_by_role("button", name="Example:").click()
    page.locator("#attention-text input").fill("x=1+?")
    page.get_by_role("button", name="Show", exact=True).click()
    expect(page.locator("#attention-error [role=alert]")).to_contain_text("?")
    expect(pair).to_have_text(f"{query} reads *")

    page.get_by_role("button", name=WORKED_EXAMPLES["exercise-1"].title).click()
    expect(pair).to_have_text("(1,1) reads (1,1)")
    expect(page.locator("#attention-error [role=alert]")).to_have_count(0)
    board.get_by_role("button", name="0.44", exact=True).click()
    expect(board.locator(".hf-figure-told")).to_contain_text("printed 0.44, computed 0.50: not the same")

    hand = page.locator("#hand-board")
    hand.get_by_label("Weights: (1,1), (1,1)", exact=True).fill("0.44")
    hand.get_by_label("Weights: (1,1), (1,0)", exact=True).fill(".25")
    hand.get_by_role("button", name="Check").click()
    expect(hand.locator(".hf-hand-verdict")).to_contain_text("1 of 2 figures are right")
    expect(hand.locator("input.wrong")).to_have_count(1)
    hand.locator("input.wrong").fill(".5035")
    hand.locator("input.wrong").press("Enter")
    expect(hand.locator("input.right")).to_have_count(2)
    expect(page.locator("#roles-board .hf-role-verdict b")).to_have_text(
        ["symmetric", "symmetric", "asymmetric"]
    )


def test_the_first_screen_holds_sentence_curves_map_and_the_three_steps(chromium, served_app):
    with open_tab(chromium, served_app, "Attention") as page:
        parts = ["#attention-headline", ".hf-curves", ".hf-map-panel canvas[tabindex='0']", "#attention-away"]
        for part in parts:
            expect(page.locator(part).first).to_be_in_viewport(ratio=1)
        expect(page.locator(".hf-arithmetic")).to_be_hidden()


def test_a_written_token_moves_curves_tree_map_and_line_together(chromium, served_app):
    with open_tab(chromium, served_app, "Attention") as page:
        board = page.locator("#attention-board")
        tokens = board.get_by_role("radiogroup").get_by_role("radio")
        tokens.nth(3).click()
        expect(board.locator(".hf-read-line .hf-pair")).to_have_text("ADD reads (")
        expect(board.locator(".hf-written")).to_have_text("Written so far: 4 of 8.")
        expect(board.locator(".hf-curve-token.best")).to_have_text("(")
        page.keyboard.press("End")
        expect(tokens.last).to_be_focused()
        expect(board.locator(".hf-written")).to_contain_text("All written")
        expect(board.locator(".hf-read-line .hf-pair")).to_have_text("end reads end")
        page.set_viewport_size({"width": 390, "height": 844})
        settle(page)
        assert board.locator(".hf-map-panel canvas[tabindex='0']").bounding_box()["y"] <= 420


@pytest.mark.parametrize(
    ("tab", "panel"),
    [
        ("Attention", "#attention-board .hf-map-panel"),
        ("Train", ".hf-looks"),
        ("Explore", "#explore-board .hf-one"),
    ],
)
def test_the_keyboard_reaches_the_map_within_eight_stops_and_at_once_by_the_first(
    chromium, served_app, tab, panel
):
    with open_tab(chromium, served_app, tab) as page:
        board = page.locator(f"{panel} canvas[tabindex='0']")
        expect(board).to_be_visible()
        settle(page)
        page.evaluate("document.body.tabIndex = -1, document.body.focus(), document.body.tabIndex")
        stops = 0
        while not board.evaluate("map => map === document.activeElement"):
            page.keyboard.press("Tab")
            stops += 1
            if stops == 1:
                expect(page.get_by_text("Skip to the map")).to_be_in_viewport(ratio=1)
            assert stops <= 8
        page.get_by_text("Skip to the map").focus()
        page.keyboard.press("Enter")
        expect(board).to_be_focused()


def test_the_words_of_a_sentence_show_what_may_come_next(chromium, served_app):
    with open_tab(chromium, served_app, "Attention") as page:
        page.get_by_role("button", name="Example:").click()
        page.get_by_role("button", name="the cat … it was tired").click()
        expect(page.locator("#attention-headline")).to_contain_text("guesses the next word: cat, ")
        first = page.locator("#attention-board .hf-likeliest li").first
        expect(first).to_contain_text("cat")
        expect(page.locator("#attention-word")).to_be_in_viewport(ratio=1)
        page.get_by_role("button", name="Take a word away").click()
        expect(page.locator("#attention-headline")).to_contain_text("Without “cat”: man, ")
        expect(page.locator("#attention-board .hf-likeliest li").first.locator("span")).to_have_count(2)
        page.get_by_role("button", name="Put it back").click()
        expect(first.locator("span")).to_have_count(1)
        page.locator("#attention-headline").get_by_role("button", name="soft").click()
        expect(page.locator("#attention-headline")).to_contain_text("guesses the next word: mat, ")
        expect(page.locator("#attention-headline").get_by_role("button", name="tired")).to_be_focused()
        page.locator("#attention-board").get_by_role("radio", name="because").click()
        expect(first).to_contain_text("it")
        page.set_viewport_size({"width": 390, "height": 844})
        settle(page)
        parts = (".hf-map-panel .hf-read-line", ".hf-path", "#attention-board .hf-under")
        tops = [page.locator(part).bounding_box()["y"] for part in parts]
        assert tops == sorted(tops), "on a phone the next step comes before what grows from the answer"


def test_a_sentence_of_one_s_own_is_read_with_random_weights_and_folds_where_it_is_long(chromium, served_app):
    with open_tab(chromium, served_app, "Attention") as page:
        page.get_by_role("button", name="Example:").click()
        page.get_by_role("button", name="river bank").click()
        expect(page.locator("#attention-headline")).to_contain_text("Random weights.")
        page.get_by_role("button", name="Example:").click()
        words = " ".join(f"word{place}" for place in range(40))
        page.locator("#attention-text input").fill(words)
        page.get_by_role("button", name="Show", exact=True).click()
        board = page.locator("#attention-board")
        chosen = board.get_by_role("radiogroup").get_by_role("radio", checked=True)
        expect(chosen).to_have_text("word39")
        expect(board.locator(".hf-curve-fold").first).to_be_visible()
        chosen.press("Home")
        expect(chosen).to_have_text("word0")
        assert page.evaluate("document.documentElement.scrollWidth") == 1280


def test_the_third_step_takes_the_shown_head_away_in_explore(chromium, served_app):
    with open_tab(chromium, served_app, "Attention") as page:
        page.get_by_role("button", name="Example:").click()
        page.get_by_role("button", name="add two numbers").click()
        expect(page.locator("#attention-headline")).to_contain_text("153+391 and writes 544, which is right")
        place = page.locator("#attention-board .hf-map-panel h2 small").inner_text()
        page.get_by_role("button", name="Take a head away").click()
        expect(page.get_by_role("tab", name="Explore")).to_have_attribute("aria-selected", "true")
        head = "·".join(re.findall(r"\d", place))
        lens = page.locator("#explore-board")
        expect(lens.locator(".hf-one > header h2")).to_contain_text(f"Head {head}")
        expect(lens.locator(".hf-said-labels")).to_contain_text(f"without {head}")
        expect(lens.locator(".hf-verdict-line")).to_contain_text("Of 200 unseen inputs")
        expect(page.locator("#explore-text input, #explore-text textarea")).to_have_value("153+391")


def test_one_button_leads_to_a_copy_model_that_learns(page):
    for width in (360, 768, 1280):
        page.set_viewport_size({"width": width, "height": 900})
        assert page.evaluate("document.documentElement.scrollWidth") == width
    page.get_by_role("button", name="Watch one learn").click()
    expect(page.get_by_role("tab", name="Train")).to_have_attribute("aria-selected", "true")
    expect(page.locator("#runs tbody tr")).to_have_count(1)
    expect(page.locator("#train-board .hf-film button:not(.blank)").nth(1)).to_be_visible()  # it learns
    expect_trained(page)


@pytest.mark.parametrize(
    ("tab", "board", "panel"),
    [
        ("Attention", "attention-board", ".hf-map-panel"),
        ("Try", "try-board", ".hf-panel:has(canvas[tabindex='0'][aria-label*='queries by'])"),
    ],
)
def test_a_link_says_that_a_map_is_drawn_as_lines(chromium, served_app, tab, board, panel):
    with open_tab(chromium, served_app, tab) as page:
        if tab == "Try":
            page.get_by_role("button", name="Write", exact=True).click()
        drawn_as = page.locator(f"#{board} {panel}").get_by_role("group", name="Drawn as")
        drawn_as.get_by_role("button", name="Lines").click()
        kept = page.evaluate("hfAttn.boards.states(document.body)")
        drawn_as.get_by_role("button", name="Map").click()
        page.evaluate("kept => hfAttn.boards.restore(kept)", {board: kept[board]})
        expect(drawn_as.locator("[aria-pressed=true]")).to_have_text("Lines")
