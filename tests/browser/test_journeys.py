"""Journeys: what a visitor does from end to end, all on one server. They are the gate's tests in a browser.

On none of them does a script fail, is an error told on the console, or is anything asked of another host.
"""

import contextlib
import csv
import functools
import http.server
import io
import re
import shutil
import socket
import threading
import xml.etree.ElementTree as ElementTree
from decimal import Decimal

import numpy as np
import pytest
from playwright.sync_api import expect

from demos.tabs.explore import ablation_panel, head_counts
from hf_attn import attention_maps, load_checkpoint, show_attention
from hf_attn.analysis.ablation import measure_outcomes
from hf_attn.checkpoints.save_load import BUNDLED
from hf_attn.tasks import build_task
from hf_attn.textbooks.worked_examples import WORKED_EXAMPLES
from tests.support.addition_head import SUM, find_needed_head, load_addition, symbols_of
from tests.support.board_page import colour_at, scale_colour
from tests.support.browser import (
    PATIENCE,
    SETTLE,
    choose_save,
    choose_tab,
    expect_duel_ended,
    expect_trained,
    follow,
    listen,
    run_long,
    set_training,
    settle,
    train_to_the_end,
)
from tests.support.native_models import build_native
from tests.support.tables import write_table
from tests.support.walk import WALK, look, use

IMAGE = "<img src=x onerror=window.bad=1>"
VALUE = "{{window.bad=1}}${window.bad=1}"
FOREIGN = "img[src=x], iframe, svg[onload], a[href^=javascript]"
PIXELS = "host => [...host.querySelectorAll('canvas')].filter(c => c.offsetParent).map(c => c.toDataURL())"


@pytest.fixture
def visit(chromium, served_app):
    """Open the app as somebody new; at the end of the test nothing has been complained of."""
    contexts, heard = [], []

    def open_page(tab=None, address=served_app, scripts=(), **looks):
        looks = {"viewport": {"width": 1280, "height": 900}, "reduced_motion": "reduce", **looks}
        contexts.append(chromium.new_context(**looks))
        contexts[-1].set_default_timeout(PATIENCE)
        page = contexts[-1].new_page()
        heard.append(listen(page, (served_app, "file:", "data:", "blob:")))
        for script in (SETTLE, *scripts):
            page.add_init_script(path=script)
        page.goto(address)
        if tab:
            choose_tab(page, tab)
        return page

    yield open_page
    try:
        assert not any(heard), heard
    finally:
        for context in contexts:
            context.close()


def input_of(page, tab):
    """Return the field in which a tab takes its text."""
    return page.locator(f"#{tab}-text input, #{tab}-text textarea")


def choose(page, label, option):
    page.get_by_label(label, exact=True).locator("visible=true").click()
    page.get_by_role("option", name=option, exact=True).click()


def expect_no_sideways_scrolling(page, widths=(360, 768, 1280)):
    for width in widths:
        page.set_viewport_size({"width": width, "height": 900})
        assert page.evaluate("document.documentElement.scrollWidth") <= width
    page.set_viewport_size({"width": 1280, "height": 900})


# ---------------------------------------------------------------- a run from its button to its checkpoint


def test_one_button_teaches_copying_and_the_run_is_scrubbed_asked_tried_explored_and_loaded(visit, tmp_path):
    page = visit("Train")
    expect(page.locator("#train-board .hf-looks")).to_contain_text("untrained")
    train_to_the_end(page)
    expect_a_learned_diagonal(page)
    scrub_the_film(page)
    load_the_download(page, tmp_path)
    rename_delete_and_undo(page)
    ask_whether_the_head_is_needed(page)  # which opens Explore
    look_into_every_head(page)
    try_inputs_and_strategies(page)


def expect_a_learned_diagonal(page):
    board = page.locator("#train-board")
    share = re.search(r"([\d.]+)\s%", page.locator("#note").inner_text()).group(1)
    assert float(share) >= 99
    expect(board.locator(".hf-says .wrong")).to_have_count(0)
    board.locator(".hf-looks").get_by_role("button", name="Show as table").click()
    rows = board.locator(".hf-numbers tbody tr")
    weights = [[float(cell) for cell in row.locator("td").all_text_contents()] for row in rows.all()]
    assert len(weights) == len(weights[0]) > 3
    assert np.diagonal(weights).mean() > 0.6
    board.get_by_role("button", name="Hide table").click()


def scrub_the_film(page):
    board = page.locator("#train-board")
    when = board.locator(".hf-when")
    page.get_by_label("Step of training shown").focus()
    for key, told in (("Shift+ArrowLeft", "step 54in the past"), ("ArrowLeft", "step 53in the past")):
        page.keyboard.press(key)
        expect(when).to_contain_text(told)
    page.keyboard.press("Home")
    expect(board.locator(".hf-looks .hf-tag")).to_contain_text("untrained")
    curve = board.locator("canvas[aria-label^='Validation accuracy']")
    box = curve.bounding_box()
    curve.click(position={"x": 44 + (box["width"] - 52) / 2, "y": box["height"] / 2})
    expect(when).to_contain_text("step 30in the past")
    assert board.locator(".hf-stats dd").first.inner_text().startswith("30 of 60")
    board.locator(".hf-film button:enabled").first.click()
    expect(board.locator(".hf-looks .hf-tag")).to_contain_text("untrained")
    page.get_by_role("button", name="Go to the end").click()
    expect(when).to_contain_text("step 60the last step")
    expect(board.locator(".hf-looks .hf-tag")).to_have_count(0)


def load_the_download(page, tmp_path):
    with page.expect_download() as download:
        page.get_by_role("button", name="Download copy 1").click()
    assert download.value.suggested_filename == "attn-copy-1.zip"
    shutil.unpack_archive(download.value.path(), tmp_path, "zip")
    loaded = load_checkpoint(tmp_path / "attn-copy-1")
    assert loaded.training["results"]["exact_match"] >= 0.99
    assert loaded.training["curve"][-1]["step"] == 60


def rename_delete_and_undo(page):
    runs = page.locator("#runs")
    runs.get_by_role("button", name="Rename copy 1").press("Enter")
    page.keyboard.press("Delete")
    page.keyboard.press("Enter")
    expect(runs.get_by_role("alert")).to_be_visible()
    page.keyboard.type("mine")
    page.keyboard.press("Enter")
    runs.get_by_role("button", name="Delete mine").press("Enter")
    page.keyboard.press("Enter")  # the focus is on Undo
    runs.get_by_role("button", name="Open mine").click()
    expect(runs.locator("tbody tr.on")).to_contain_text("mine")


def ask_whether_the_head_is_needed(page):
    asked, headline = page.locator("#train-board .hf-asked"), page.locator("#train-board .hf-headline")
    asked.get_by_role("button", name=re.compile("^Take (head|layer) .* away$")).click()
    expect(headline).to_contain_text(re.compile("^(Yes|No): without"))
    asked.get_by_role("button", name="Put it back").click()
    expect(headline).to_contain_text("right after 60 steps")
    asked.get_by_role("button", name="Open in Explore").click()
    expect(page.get_by_role("tab", name="Explore")).to_have_attribute("aria-selected", "true")
    expect(page.locator("#explore-board")).to_contain_text("without 1")


def look_into_every_head(page):
    board = page.locator("#explore-board")
    expect(page.locator("#explore-origin")).to_contain_text("step 60")
    heads = board.locator("[data-kind=cross] .hf-grid button")
    expect(heads).to_have_count(2)
    heads.nth(1).click()
    expect(board.locator(".hf-one > header h2")).to_contain_text("Head 1·2")
    board.locator("[data-kind=decoder] .hf-grid button").first.click()
    expect(board.locator(".hf-one > header h2")).to_contain_text("the answer reads itself")
    page.get_by_role("button", name="Force an answer").click()
    page.locator("#explore-target input, #explore-target textarea").fill("1 1 1")
    page.locator("#explore-show").click()
    expect(board).to_contain_text("→ 1 1 1")


def try_inputs_and_strategies(page):
    choose_tab(page, "Try")
    board, field = page.locator("#try-board"), input_of(page, "try")
    expect(page.get_by_label("Checkpoint").locator("visible=true")).to_have_value("mine (this session)")
    expect(board.locator(".hf-verdict")).to_be_visible()  # what was watched is answered first
    field.fill("7 15 2 3 12")
    page.get_by_role("button", name="Write").click()
    expect(board.locator(".hf-verdict")).to_have_text("right: the same as the input")
    expect(board.locator(".hf-answer")).to_have_text("7152312end")
    field.fill("7 x 2")
    field.press("Enter")
    expect(page.locator("#try-error [role=alert]")).to_contain_text("'x'")
    expect(board.locator(".hf-answer")).to_have_text("7152312end")  # the answer stays
    field.fill("7 2")
    field.press("Enter")
    expect(page.locator("#try-error [role=alert]")).to_have_count(0)
    page.get_by_role("radio", name="beam").check()
    beams = board.locator(".hf-beams canvas")
    expect(beams).to_be_visible()  # a key that is pressed on what is hidden goes to what has the focus
    for key in ("ArrowLeft", "ArrowRight"):
        beams.press(key)
    said = board.locator(".hf-panel", has_text="Beam tree").locator("[aria-live=polite]")
    expect(said).to_contain_text("sum of log p")
    board.get_by_role("button", name="Show answer 2", exact=True).click()
    expect(board.locator("h2").first).to_contain_text("answer 2 of 4")
    expect(board.locator(".hf-verdict")).to_contain_text("wrong, is 7 2")
    page.get_by_role("radio", name="nucleus").check()
    expect(board.locator(".hf-dist")).to_contain_text("nucleus 0.90 keeps 1 of 23 symbols")
    seeds = board.locator(".hf-ends tbody button")
    expect(seeds).to_have_text(["0", "1", "2", "3", "4"])
    page.get_by_role("button", name="Another draw").click()
    expect(seeds).to_have_text(["1", "2", "3", "4", "5"])
    page.locator("#try-temperature input[type=number]").fill("1.7")
    expect(board.locator(".hf-stale")).to_contain_text("written with temperature 1; only the bars")
    expect(board.locator(".hf-dist .line").first).to_contain_text("at 1.7")


def test_settings_are_mended_and_a_run_is_paused_stepped_resumed_found_again_and_stopped(visit):
    page = visit("Train")
    set_training(page, **{"Learning rate": "fast"})
    page.get_by_role("button", name="Train", exact=True).click()
    expect(page.locator("#error-learning_rate [role=alert]")).to_contain_text("for example 0.003")
    expect(page.locator("#note")).to_contain_text("Learning rate: “fast” is not a number")
    set_training(page, **{"Learning rate": "0.005", "Heads": "3"})  # what is offered divides every size
    page.get_by_label("Heads", exact=True).press("Enter")
    expect(page.locator("#error-num_attention_heads [role=alert]")).to_contain_text("multiple of 3")
    expect(page.locator("#error-learning_rate [role=alert]")).to_have_count(0)
    choose(page, "Task", "Addition")
    expect(page.locator(".hf-field-error [role=alert]")).to_have_count(0)
    expect(page.get_by_label("Steps", exact=True)).to_have_value(str(build_task("addition").recipe.steps))

    run_long(page)
    note = page.locator("#note")
    page.get_by_role("button", name="Pause", exact=True).click()
    expect(note).to_contain_text("Paused at step")
    step = int(re.search(r"step (\d+)", note.inner_text().replace("\u202f", "")).group(1))
    page.get_by_role("button", name="Step", exact=True).click()
    expect(note).to_contain_text(f"Paused at step {step + 1} of")
    page.get_by_role("button", name="Resume", exact=True).click()
    expect(page.locator("#train")).to_have_text(re.compile("Training"))

    page.wait_for_function("window.hfAttnKey")  # before, the server knows no page that could come back
    page.reload()
    expect(page.get_by_role("tab", name="Train", exact=True)).to_have_attribute("aria-selected", "true")
    set_training(page)
    expect(page.get_by_label("Steps", exact=True)).to_have_value("5000")
    page.get_by_role("button", name="Stop", exact=True).click()
    expect(note).to_contain_text("The weights are kept; nothing is lost.")
    expect(page.get_by_role("button", name="Resume", exact=True)).to_be_enabled()
    expect(page.locator("#runs tbody tr")).to_have_count(1)

    choose_tab(page, "Explore")
    text = input_of(page, "explore")
    expect(text).not_to_have_value("")
    text.fill("12+34")
    text.press("Enter")
    expect(page.locator("#explore-board")).to_contain_text("12+34")
    page.reload()
    expect(page.get_by_role("tab", name="Explore", exact=True)).to_have_attribute("aria-selected", "true")
    expect(text).to_have_value("12+34")
    expect(page.locator("#explore-board")).to_contain_text("12+34")


def expect_nothing_ran(page):
    settle(page)
    assert page.evaluate("window.bad") is None
    assert page.locator(FOREIGN).count() == 0


def test_a_table_of_ones_own_is_learned_words_are_taken_out_and_nothing_hostile_in_it_runs(visit, tmp_path):
    page = visit("Train")
    page.on("dialog", lambda dialog: pytest.fail(dialog.message))
    choose(page, "Task", "Your own classes")
    expect(page.locator("#note")).to_contain_text("Choose a table first")
    expect(page.locator("#train-board")).to_contain_text("Choose a task, then press Train.")
    upload = page.locator("#field-table input[type=file]")
    (tmp_path / f"{IMAGE}{VALUE}.csv").write_bytes(b"PK\x03\x04 nothing")
    upload.set_input_files(tmp_path / f"{IMAGE}{VALUE}.csv")
    expect(page.locator("#error-table [role=alert]")).to_contain_text("is a ZIP archive")
    expect(page.get_by_role("alert")).to_have_count(1)
    page.locator("#field-table").get_by_role("button", name="Clear").click()
    lines = write_table(tmp_path).read_text().replace(";dislike;", f";no {VALUE};")
    table = tmp_path / f"{IMAGE}.csv"
    table.write_text(lines.replace(";like;", f";yes {IMAGE};").replace("source", f"{IMAGE}<script>", 1))
    upload.set_input_files(table)
    expect(page.get_by_label("Column: label")).to_have_value("label")
    expect(page.locator("#note")).to_contain_text("parameters")
    set_training(page, Steps="60")
    page.get_by_role("button", name="Train", exact=True).click()
    expect_trained(page, "held-out examples get the right class")
    expect(page.locator("#train-board .hf-says tbody tr")).to_have_count(6)
    expect(page.locator("#train-board .hf-says")).to_contain_text(f"yes {IMAGE}")
    expect(page.locator("#note")).to_contain_text("The baseline, TF-IDF, logistic regression: ")
    expect(page.locator("#train-board .hf-keys").first).to_contain_text("TF-IDF, logistic regression")
    runs = page.locator("#runs")
    runs.get_by_role("button", name="Rename csv 1").press("Enter")
    page.keyboard.type(IMAGE)
    page.keyboard.press("Enter")
    expect(runs.locator("tbody tr.on")).to_contain_text(IMAGE)
    expect_nothing_ran(page)

    choose_tab(page, "Try")
    board, field = page.locator("#try-board"), input_of(page, "try")
    expect(field).not_to_have_value("")  # what Try itself writes first
    field.fill("a poor film in town")
    page.get_by_role("button", name="Read", exact=True).click()
    words = board.locator(".hf-words span")
    expect(words).to_have_text(["a", "poor", "film", "in", "town"])
    board.get_by_role("button", name="Show as table").first.click()
    rows = board.locator(".hf-numbers tbody tr")
    changes = [float(row.locator("td").nth(1).inner_text().replace("−", "-")) for row in rows.all()]
    assert changes.index(min(changes)) == 1  # without "poor" the class loses most
    words.nth(1).hover()
    expect(page.locator(".hf-tip")).to_contain_text("without poor")
    field.fill(f"a poor {IMAGE} film {VALUE}")
    page.get_by_role("button", name="Read", exact=True).click()
    expect(board).to_contain_text("onerror")
    for name in ("Explore", "Share"):
        choose_tab(page, name)
        expect(page.locator("body")).to_contain_text(IMAGE)
    expect_nothing_ran(page)


def test_two_visitors_train_at_once_never_meet_and_when_one_leaves_a_third_takes_the_place(visit):
    first, second, third = visit("Train"), visit("Train"), visit("Train")
    run_long(first)
    run_long(second)
    set_training(third, Steps="10")
    third.get_by_role("button", name="Train", exact=True).click()
    expect(third.locator("#note")).to_contain_text("Waiting for a free place, this one is next")
    choose_tab(third, "Duel")  # a second job of the same visitor has its own place
    third.locator("#duel-start").click()
    expect(third.locator("#tab-duel")).to_contain_text("Waiting for a free place, 1 before this one")
    third.locator("#duel-stop").click()
    expect(third.locator("#duel-start")).to_have_text("Start")
    expect(third.locator("#note")).to_have_text(re.compile("this one is next"))
    choose_tab(third, "Train")
    for page in (first, second):
        expect(page.locator("#runs tbody tr")).to_have_count(1)
    first.context.close()  # in the middle of its run
    expect_trained(third)
    expect(second.locator("#train")).to_have_text(re.compile("Training"))
    choose_tab(second, "Try")
    checkpoint = second.get_by_label("Checkpoint").locator("visible=true")
    expect(checkpoint).to_have_value(re.compile("this session"))
    checkpoint.click()
    expect(second.get_by_role("option").filter(has_text="this session")).to_have_count(1)


def copy_link(page, *choices):
    """Press Copy link and return the link, in which these choices are made."""
    page.get_by_role("button", name="Copy link").click()
    panel = page.locator(".hf-link-panel")
    expect(panel.get_by_role("status")).to_contain_text("Copied")
    for name, told in choices:
        panel.get_by_label(name).check()
        expect(panel.get_by_role("status")).to_contain_text(told)
    link = page.get_by_label("The link").input_value()
    assert link == page.url
    for name, _ in choices:
        panel.get_by_label(name).uncheck()
    panel.get_by_role("button", name="Close").click()
    return link


def pixels(page, board):
    return page.locator(board).evaluate(PIXELS)


def expect_pixels(page, board, seen):
    """Wait until every canvas of a board looks as it did elsewhere."""
    there = f"({PIXELS})(document.querySelector('{board}'))"
    page.wait_for_function(f"seen => JSON.stringify({there}) === JSON.stringify(seen)", arg=seen)


def test_a_link_shows_another_visitor_the_same_head_the_same_run_and_what_a_teacher_hides(visit):
    page = visit("Explore")
    board = page.locator("#explore-board")
    board.locator(".hf-grid button").nth(3).click()
    board.locator(".hf-researchers > summary").click()
    board.locator("input[type=range]").first.fill("0.1")
    expect(board).to_contain_text("Head 1·4")
    hides = ("Hide the answers", "right answers are hidden")
    lesson = copy_link(page, hides, ("Lock the settings", "its settings are locked"))
    expect(board).to_contain_text("known answer")
    head = pixels(page, "#explore-board")
    choose_tab(page, "Train")
    set_training(page, Steps="12")
    page.get_by_role("button", name="Train", exact=True).click()
    expect_trained(page)
    frame = page.locator("#train-board .hf-film button:enabled").nth(1)
    frame.click()
    expect(frame).to_have_attribute("aria-pressed", "true")
    run, film = copy_link(page), pixels(page, "#train-board")

    other = visit(address=lesson)
    board = other.locator("#explore-board")
    expect(board).to_contain_text("Head 1·4")
    expect(input_of(other, "explore")).to_have_value(SUM)
    expect(input_of(other, "explore")).to_be_disabled()
    expect(board).not_to_contain_text("known answer")
    assert pixels(other, "#explore-board") != head
    other.get_by_role("button", name="Show the answer").click()
    expect(board).to_contain_text("known answer")
    expect_pixels(other, "#explore-board", head)
    other.goto(run)
    expect_trained(other)
    expect_pixels(other, "#train-board", film)
    expect(other.locator("#runs tbody tr")).to_have_count(1)


# ---------------------------------------------------------------- the other tabs


def number(text):
    """A number as the page writes it."""
    return Decimal(text.strip().replace("−", "-"))


def test_a_newcomer_is_explained_an_example_checks_it_by_hand_reads_a_sentence_and_goes_three_steps(visit):
    page = visit()
    expect(page.get_by_role("tab", name="Attention")).to_have_attribute("aria-selected", "true")
    shown = ("#attention-headline", ".hf-curves", ".hf-map-panel canvas[tabindex='0']", "#attention-away")
    for part in shown:
        expect(page.locator(part).first).to_be_in_viewport(ratio=1)
    expect(page.locator("#attention-headline")).to_contain_text("To write “MUL” it looks at “*”: 74")
    check_a_number(page)
    solve_an_exercise(page)
    read_a_sentence(page)
    page.get_by_role("button", name="Example:").click()
    page.get_by_role("button", name="add two numbers").click()
    expect(page.locator("#attention-headline")).to_contain_text("153+391 and writes 544, which is right")
    place = page.locator("#attention-board .hf-map-panel h2 small").inner_text()
    expect_no_sideways_scrolling(page)
    page.get_by_role("button", name="Take a head away").click()
    expect(page.get_by_role("tab", name="Explore")).to_have_attribute("aria-selected", "true")
    head, lens = "·".join(re.findall(r"\d", place)), page.locator("#explore-board")
    expect(lens.locator(".hf-said-labels")).to_contain_text(f"without {head}")
    expect(lens.locator(".hf-verdict-line")).to_contain_text("Of 200 unseen inputs")
    choose_tab(page, "Attention")
    page.get_by_role("button", name="Watch one learn").click()
    expect(page.get_by_role("tab", name="Train")).to_have_attribute("aria-selected", "true")
    expect(page.locator("#train-board .hf-film button:not(.blank)").nth(1)).to_be_visible()  # it learns
    expect_trained(page)


def check_a_number(page):
    """Read one number of the map: what its score is a sum of."""
    board = page.locator("#attention-board")
    pair = board.locator(".hf-read-line .hf-pair")
    expect(pair).to_have_text("MUL reads *")
    page.get_by_role("button", name="Read one number").click()
    expect(board.locator(".hf-ledger tbody tr")).to_have_count(10)
    canvas = board.locator(".hf-map-panel canvas[tabindex='0']")
    box = canvas.bounding_box()
    canvas.click(position={"x": box["width"] * 0.55, "y": box["height"] * 0.75})  # some cell
    expect(pair).not_to_have_text("MUL reads *")
    canvas.press("ArrowRight")
    chosen = board.locator(".hf-map-panel [aria-live]").last.inner_text()
    query, key = re.match(r"(\S+) reads (\S+?),", chosen).groups()
    expect(pair).to_have_text(f"{query} reads {key}")
    settle(page)
    board.get_by_role("button", name="Show every number").first.click()
    table = board.locator(".hf-arithmetic .hf-numbers").first
    products = [number(row.locator("td").nth(2).inner_text()) for row in table.locator("tbody tr").all()]
    score = number(table.locator("tfoot td").last.inner_text())
    board.get_by_role("button", name="Hide table").first.click()
    assert len(products) == 32
    assert sum(products).quantize(score) == score
    assert score == number(board.locator(".hf-chain output").first.inner_text())
    assert score == number(board.locator(".hf-ledger tr.chosen td").nth(1).inner_text())
    page.get_by_role("button", name="Example:").click()
    input_of(page, "attention").fill("x=1+?")
    page.get_by_role("button", name="Show", exact=True).click()
    expect(page.locator("#attention-error [role=alert]")).to_contain_text("?")
    expect(pair).to_have_text(f"{query} reads {key}")  # what was shown stays


def solve_an_exercise(page):
    board, hand = page.locator("#attention-board"), page.locator("#hand-board")
    page.get_by_role("button", name=WORKED_EXAMPLES["exercise-1"].title).click()
    expect(board.locator(".hf-read-line .hf-pair")).to_have_text("(1,1) reads (1,1)")
    expect(page.locator("#attention-error [role=alert]")).to_have_count(0)
    board.get_by_role("button", name="0.44", exact=True).click()
    expect(board.locator(".hf-figure-told")).to_contain_text("printed 0.44, computed 0.50: not the same")
    hand.get_by_label("Weights: (1,1), (1,1)", exact=True).fill("0.44")
    hand.get_by_label("Weights: (1,1), (1,0)", exact=True).fill(".25")
    hand.get_by_role("button", name="Check").click()
    expect(hand.locator(".hf-hand-verdict")).to_contain_text("1 of 2 figures are right")
    hand.locator("input.wrong").fill(".5035")
    hand.locator("input.wrong").press("Enter")
    expect(hand.locator("input.right")).to_have_count(2)
    verdicts = ["symmetric", "symmetric", "asymmetric"]
    expect(page.locator("#roles-board .hf-role-verdict b")).to_have_text(verdicts)


def read_a_sentence(page):
    """A sentence whose next word changes as a word is taken out, and one of one's own."""
    board, headline = page.locator("#attention-board"), page.locator("#attention-headline")
    page.get_by_role("button", name="Example:").click()
    page.get_by_role("button", name="the cat … it was tired").click()
    expect(headline).to_contain_text("guesses the next word: cat, ")
    page.get_by_role("button", name="Take a word away").click()
    expect(headline).to_contain_text("Without “cat”: man, ")
    page.get_by_role("button", name="Put it back").click()
    headline.get_by_role("button", name="soft").click()
    expect(headline).to_contain_text("guesses the next word: mat, ")
    board.get_by_role("radio", name="because").click()
    expect(board.locator(".hf-likeliest li").first).to_contain_text("it")
    page.get_by_role("button", name="Example:").click()
    page.get_by_role("button", name="river bank").click()
    expect(headline).to_contain_text("Random weights.")
    page.get_by_role("button", name="Example:").click()
    input_of(page, "attention").fill(" ".join(f"word{place}" for place in range(40)))
    page.get_by_role("button", name="Show", exact=True).click()
    chosen = board.get_by_role("radiogroup").get_by_role("radio", checked=True)
    expect(chosen).to_have_text("word39")
    chosen.press("Home")
    expect(chosen).to_have_text("word0")


def test_a_head_is_removed_and_explored_and_its_map_is_saved_as_every_file_and_as_python(
    visit, tmp_path, monkeypatch
):
    page = visit("Explore")
    remove_heads(page)
    ask_as_a_researcher(page)
    weights = attention_maps(
        load_addition().model, load_addition().task.encode(SUM), tokenizer=load_addition().tokenizer
    )
    save_numbers(page, weights)
    open_the_saved_page(page, visit, tmp_path)
    monkeypatch.chdir(BUNDLED.parent)
    run_the_copied_lines(page, weights)


def remove_heads(page):
    pick, change = find_needed_head()
    place, head = f"layer {pick.layer + 1}, head {pick.head + 1}", f"{pick.layer + 1}·{pick.head + 1}"
    found = load_addition()
    measured = measure_outcomes(found.model, found.task, [change.trial], head_counts.EXAMPLES)
    whole, left = (f"{100 * outcome.exact_match:.0f}\u202f%" for outcome in measured)
    lens, headline = page.locator("#explore-board"), page.locator("#explore-headline")
    expect(lens).to_contain_text(f"{SUM} → 544")
    expect(page.locator("#explore-show")).to_be_disabled()  # it is shown already
    cell = lens.locator("[data-kind=cross]").get_by_role("button", name=place)
    cell.click()
    expect(lens.locator(".hf-said-labels")).to_have_text(f"whole modelwithout {head}")
    strips = lens.locator(".hf-said-strips > *")
    expect(strips).to_have_text([*symbols_of(change.before), *symbols_of(change.after)])
    expect(lens.locator(".hf-said-shares > *")).to_have_text([whole, left])
    expect(lens.locator(".hf-verdict-line")).to_contain_text(f"unseen inputs {left} are right")
    expect(headline).to_contain_text(f"Without head {head}, {SUM} becomes")
    expect(lens.locator(".hf-counting")).to_contain_text("20 of 20 heads")
    expect(cell.locator("span")).to_have_text(left.split("\u202f")[0])
    lens.locator("[data-kind=encoder]").get_by_role("button", name="layer 1, head 4").click()
    expect(lens.locator(".hf-verdict-line")).to_contain_text("Same answer without head 1·4.")
    headline.get_by_role("button", name="Show it").click()
    expect(lens.locator(".hf-one > header h2")).to_contain_text(f"Head {head}")
    lens.get_by_role("button", name="edge", exact=True).click()
    expect(lens.locator(".hf-said-labels")).to_contain_text("without the edge")
    lens.get_by_role("button", name="nothing", exact=True).click()
    expect(strips).to_have_text(symbols_of(change.before))


def ask_as_a_researcher(page):
    checks = page.locator("#checks-board")
    page.locator("#explore-board .hf-researchers > summary").click()
    expect(checks.locator(".hf-roles-table tbody tr")).to_have_count(9)  # eight heads and even attention
    expect(checks.locator(".hf-theory-facts")).to_contain_text("after one update")
    counted = f"{ablation_panel.ROLE_EXAMPLES} held-out examples"
    expect(checks.get_by_role("button", name=counted, exact=True)).to_be_visible()
    expect_no_sideways_scrolling(page)


def saved(page, panel, name):
    """The bytes that the Save menu of a panel saves."""
    with page.expect_download() as download:
        choose_save(panel, name)
    assert download.value.suggested_filename.endswith(f".{name.lower()}")
    return download.value.path().read_bytes()


def texts_of(svg):
    return [text.text for text in ElementTree.fromstring(svg).iter("{http://www.w3.org/2000/svg}text")]


def save_numbers(page, weights):
    heads, head = page.locator("#explore-board .hf-heads"), page.locator("#explore-board .hf-one")
    heads.locator("[data-kind=cross] .hf-grid button").nth(4).click()
    expect(head.locator("h2").first).to_contain_text("Head 2·1")
    png = saved(page, head, "PNG")
    assert png[:8] == b"\x89PNG\r\n\x1a\n"
    size = [int.from_bytes(png[at : at + 4], "big") for at in (16, 20)]
    assert size == [2560, 1440]  # a slide, twice as sharp
    _, *rows = csv.reader(io.StringIO(saved(page, head, "CSV").decode()))
    numbers = np.array([[float(cell) for cell in row[1:]] for row in rows])
    assert np.abs(numbers - weights.cross[-1, 0].numpy()).max() < 2e-5
    head.get_by_role("button", name="Show as table").click()
    shown = [row.locator("td").all_text_contents() for row in head.locator(".hf-numbers tbody tr").all()]
    head.get_by_role("button", name="Hide table").click()
    assert np.abs(numbers - np.array(shown, dtype=float)).max() < 6e-4
    every = np.load(io.BytesIO(saved(page, heads, "NPZ")))
    for kind in ("encoder", "decoder", "cross"):
        assert np.abs(every[kind] - getattr(weights, kind).numpy()).max() < 2e-5
    picture = saved(page, head, "SVG")
    head.get_by_role("group", name="Drawn as").get_by_role("button", name="Lines").click()
    lines = saved(page, head, "SVG")
    head.get_by_role("group", name="Drawn as").get_by_role("button", name="Map").click()
    assert {"query", "key", "known answer"} <= set(texts_of(picture))
    assert "no line below 0.02" in lines.decode()
    assert "no line below 0.02" not in picture.decode()
    table = page.locator(".hf-roles-table")
    columns = table.locator("thead th").all_text_contents()[1:]
    assert set(columns) <= set(texts_of(saved(page, table, "SVG")))


def open_the_saved_page(page, visit, tmp_path):
    path = tmp_path / "map.html"
    path.write_bytes(saved(page, page.locator("#explore-board .hf-one"), "HTML"))
    alone = visit(address=path.as_uri(), offline=True, color_scheme="dark")
    alone.wait_for_function("document.querySelector('canvas[tabindex]').width > 100")
    assert alone.evaluate("document.body.classList.contains('dark')")
    alone.locator("canvas[tabindex='0']").press("ArrowRight")
    expect(alone.locator("[aria-live]")).to_contain_text("weight")
    alone.get_by_role("button", name="Show as table").click()
    expect(alone.locator("tbody tr")).to_have_count(5)


def run_the_copied_lines(page, weights):
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    head = page.locator("#explore-board .hf-one")
    page.locator("#explore-board [data-kind=cross] .hf-grid button").nth(2).click()
    expect(head.locator("h2").first).to_contain_text("Head 1·3")
    choose_save(head, "Python")
    expect(head.get_by_role("status").get_by_text("Copied")).to_be_visible()
    pasted, scope = page.evaluate("navigator.clipboard.readText()"), {}
    assert pasted == head.locator(".hf-code:visible").text_content()
    with contextlib.redirect_stdout(io.StringIO()):
        exec(pasted, scope)
    assert np.abs(scope["weights"].numpy() - weights.cross[0, 2].numpy()).max() < 1e-5


def test_models_duel_a_position_encoding_is_read_and_tested_and_words_are_cut_and_placed(visit):
    page = visit("Duel")
    hold_a_duel(page)
    choose_tab(page, "Positions")
    read_a_position_encoding(page)
    choose_tab(page, "Language")
    cut_and_place_words(page)


def hold_a_duel(page):
    board, note = page.locator("#duel-board"), page.locator("#duel-note")
    steps = page.get_by_label("Steps each", exact=True)
    expect(board.locator(".hf-panel").first).to_be_hidden()
    page.locator("#duel-size input").click()
    page.get_by_role("option", name="5", exact=True).click()
    page.get_by_label("50 k", exact=True).check()
    page.get_by_label("LSTM, additive attention (Bahdanau)").uncheck()
    steps.fill("5000")
    page.locator("#duel-start").click()
    expect(page.locator("#duel-start")).to_have_text(re.compile(r"Learning, \d+"))
    expect(board.locator(".hf-map-cell")).to_have_count(2)
    taken = board.locator(".hf-standings tbody tr").last.locator("td").nth(3)
    expect(taken).not_to_have_text("0")  # what has not begun cannot be kept
    page.locator("#duel-stop").click()
    expect(note).to_contain_text("Stopped at")
    expect(board.get_by_role("button", name="Keep Transformer")).to_be_visible()
    steps.fill("8")
    page.locator("#duel-start").click()
    expect_duel_ended(page)
    expect(note).to_contain_text("Done. Keep one")
    board.get_by_role("button", name="Show as table").first.click()
    expect(board.locator(".hf-numbers tbody tr")).to_have_count(18)  # nine measurements of two models
    board.get_by_role("button", name="by second").click()
    board.get_by_role("button", name="loss", exact=True).click()
    expect(board.locator("canvas[aria-label='Loss by second, 2 models']")).to_be_visible()
    expect(board.locator("canvas[aria-label='Accuracy by length, 2 models']")).to_be_visible()
    board.locator(".hf-map-cell canvas[tabindex='0']").locator("visible=true").press("ArrowDown")
    expect(board.locator(".hf-map-cell [aria-live]").last).to_contain_text("reads")
    board.get_by_role("button", name="Keep Transformer").click()
    expect(board.get_by_role("button", name="Download Transformer")).to_be_visible()
    choose_tab(page, "Try")
    kept = "reverse transformer 2 (this session)"
    expect(page.get_by_label("Checkpoint").locator("visible=true")).to_have_value(kept)


def read_a_position_encoding(page):
    board, curves = page.locator("#positions-board"), page.locator("#growth-board")
    noticed = board.locator(".hf-order tbody tr")
    expect(noticed.nth(0)).to_contain_text("the same output")
    expect(noticed.nth(1)).to_contain_text("another output")
    board.locator(".hf-positions-map canvas[tabindex='0']").press("ArrowDown")
    expect(board.locator(".hf-positions-map [aria-live]")).to_have_text("position 1, dimension 0, 0.841")
    length = page.get_by_label("Positions", exact=True)
    length.fill(IMAGE)
    expect(page.locator("#positions-error-length [role=alert]")).to_contain_text(IMAGE[:10])
    length.fill("20")
    expect(page.locator("#positions-error-length [role=alert]")).to_have_count(0)
    page.locator("#positions-type input").click()
    page.get_by_role("option", name="ALiBi", exact=True).click()
    expect(noticed.nth(2)).to_contain_text("the same output")
    board.get_by_role("button", name="head 2").click()
    expect(board.locator("canvas[aria-label^='ALiBi, head 2, query by key: 20 rows']")).to_be_visible()
    page.locator("#positions-start").click()
    expect(page.locator("#positions-start")).to_have_text(re.compile(r"Learning, \d+"))
    expect(curves.locator("tbody tr").first).to_contain_text("of 200")
    page.locator("#positions-stop").click()
    expect(page.locator("#positions-note")).to_contain_text("Stopped at")


def cut_and_place_words(page):
    board = page.locator("#tokens-board")
    expect(board.locator(".hf-merge").first).to_have_text("Characters, before the first of 9 merges.")
    before = board.locator(".hf-cut button").count()
    board.get_by_role("button", name="Merge", exact=True).click()
    expect(board.locator(".hf-merge").first).to_have_text("Merge 1 of 9: p + e → pe, met 4 times.")
    expect(board.locator(".hf-cut button.fresh")).to_have_count(4)
    assert board.locator(".hf-cut button").count() == before - 4
    board.get_by_role("button", name="characters", exact=True).click()
    markup = f"\u202e{IMAGE}{VALUE}"
    input_of(page, "tokens").fill(markup)
    page.locator("#tokens-cut").click()
    expect(board.locator("h2").first).to_contain_text(f"{len(markup)} tokens")
    assert page.evaluate("window.bad") is None
    for part, shown in (("Order", "#bags-board tbody tr"), ("n-grams", "#ngrams-board .hf-follows")):
        page.get_by_role("radio", name=part, exact=True).check()
        expect(page.locator(shown).first).to_be_visible()
    page.get_by_role("radio", name="Neighbours", exact=True).check()
    page.locator("#vectors-train").click()
    follow(page, ["#vectors-train", "#vectors-note"], "Done in")
    expect(page.locator("#neighbours-board")).to_contain_text(re.compile(r"rome has rank 1 of \d+"))
    word = page.locator("#vectors-word input")
    word.fill("romme")
    word.press("Enter")
    expect(page.locator("#vectors-word-error [role=alert]")).to_be_visible()
    word.fill("kenya")
    word.press("Enter")
    expect(page.locator("#neighbours-board")).to_contain_text("nearest to kenya")


def test_a_wrong_token_is_told_a_checkpoint_is_pulled_and_explored_and_nothing_in_it_runs(visit, hub):
    page = visit("Share")
    page.on("dialog", lambda dialog: pytest.fail(dialog.message))
    page.get_by_label("Checkpoint", exact=True).last.click()
    page.get_by_role("option", name="attn-copy (bundled)").click()
    expect(page.locator("#share-name input")).to_have_value("attn-copy")
    token = page.locator("#share-token input")
    assert token.get_attribute("type") == "password"
    token.fill("hf_mistyped")
    page.locator("#share-push").click()
    expect(page.locator("#share-token-error [role=alert]")).to_contain_text("does not know this token")
    token.fill(hub.token)
    write_strange_repo(hub)
    page.locator("#share-id input").fill("ada/attn-strange")
    page.locator("#share-pull").click()
    expect(page.locator("#share-pulled .hf-share-facts")).to_contain_text("ada/attn-strange")
    page.get_by_role("button", name="Copy link").click()
    expect(page.locator(".hf-link-panel")).to_be_visible()
    assert hub.token not in page.content() + page.url
    page.get_by_role("button", name="Clear the token").click()
    expect(token).to_have_value("")
    choose_tab(page, "Explore")
    page.locator("#explore-model > button").click()
    page.locator("#explore-checkpoint input").click()
    page.get_by_role("option", name="ada/attn-strange (pulled)").click()
    expect(page.locator("#explore-origin")).to_contain_text("ada/attn-strange, step")
    expect_nothing_ran(page)


def write_strange_repo(hub):
    """Give the Hub a checkpoint whose card and file names are hostile."""
    card = f"# Read {IMAGE}\n\n<script>window.bad=1</script>\n\n[go](javascript:window.bad=1)"
    content = {path.name: path.read_bytes() for path in (BUNDLED / "attn-copy").iterdir()}
    content |= {"README.md": f"---\ntitle: '{IMAGE}'\n---\n{card}".encode(), f"{IMAGE}.txt": b""}
    repo = hub.store.create("model", "ada/attn-strange", "ada", private=False)
    changes = {name: hub.store.keep(data) for name, data in content.items()}
    repo.add_commit("refs/heads/main", repo.resolve("main"), "by a stranger", "ada", changes)


# ---------------------------------------------------------------- everywhere


def test_on_a_phone_in_the_dark_every_tab_can_be_used_and_read_and_the_keyboard_finds_the_map(
    visit, served_app
):
    page = visit(None, f"{served_app}?__theme=dark", WALK, viewport={"width": 390, "height": 900})
    complaints = []
    for tab in use(page):
        look(page, tab, complaints)
        if tab in ("Attention", "Explore"):
            page.get_by_text("Skip to the map").press("Enter")
            assert page.evaluate("document.activeElement.tagName") == "CANVAS"
    assert not complaints, "\n".join(complaints)


REFUSED = """async address => {
    const broken = [];
    document.addEventListener("securitypolicyviolation", told => broken.push(told.effectiveDirective));
    await fetch(address, { mode: "no-cors" }).catch(() => null);
    new Image().src = address;
    document.head.append(Object.assign(document.createElement("script"), { src: address }));
    while (broken.length < 3) await new Promise(done => setTimeout(done, 20));
    return broken;
}"""


def test_a_script_on_the_page_reaches_no_other_server_and_no_other_page_frames_it(
    chromium, served_app, tmp_path
):
    with chromium.new_context() as context, socket.create_server(("127.0.0.1", 0)) as elsewhere:
        page = context.new_page()  # the browser complains of what it refuses
        page.set_default_timeout(PATIENCE)
        page.goto(served_app)
        elsewhere.settimeout(0.1)
        refused = page.evaluate(REFUSED, f"http://127.0.0.1:{elsewhere.getsockname()[1]}/")
        assert sorted(refused) == ["connect-src", "img-src", "script-src-elem"]
        with pytest.raises(TimeoutError):
            elsewhere.accept()
        (tmp_path / "index.html").write_text(f"<iframe src='{served_app}'></iframe>")
        handler = functools.partial(http.server.SimpleHTTPRequestHandler, directory=tmp_path)
        with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as framing:
            threading.Thread(target=framing.serve_forever, daemon=True).start()
            with page.expect_console_message(lambda line: "frame-ancestors" in line.text):
                page.goto(f"http://127.0.0.1:{framing.server_port}/")
            framing.shutdown()


def test_a_notebooks_frame_shows_the_lens_of_any_model_apart_from_the_notebook(visit, tmp_path):
    model, tokenizer = build_native("t5")
    view = show_attention(model, tokenizer, "the cat sat on the mat", "the dog")
    path = tmp_path / "notebook.html"
    style = "<style>canvas, button { display: none !important } * { color: red !important }</style>"
    path.write_text(f"<!doctype html><meta charset=utf-8>{style}<body>{view._repr_html_()}</body>")
    page = visit(address=path.as_uri(), offline=True)
    frame = page.frame_locator("iframe")
    map_ = frame.locator("canvas[tabindex='0'][aria-label*='queries by']")
    for kind in ("encoder", "decoder", "cross"):
        frame.locator(f"[data-kind={kind}] button").first.click()
        rows, columns = getattr(view.maps, kind).shape[2:]
        expect(map_).to_have_attribute("aria-label", re.compile(f"{rows} queries by {columns} keys"))
    map_.press("Home")
    weight = view.maps.cross[0, 0, 0, 0]
    expect(frame.locator(".hf-big")).to_have_text(f"{weight:.3f}")
    map_.press("Escape")
    expect(frame.locator(".hf-cell h2")).to_have_text("No cell chosen")
    shown, weights = view.to_value()["kinds"]["cross"], view.maps.cross[0, 0]
    for column in (int(weights[1].argmax()), int(weights[1].argmin())):
        colour = colour_at(map_, (shown["rows"], shown["cols"]), 1, column)
        assert np.allclose(colour, scale_colour(float(weights[1, column])), atol=1.5)
    map_.press("Enter")
    expect(frame.locator(".hf-big")).to_have_text(f"{weights[0].max():.3f}")
