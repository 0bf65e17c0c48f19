"""The app as people meet it: `python app.py` in a process of its own, a real browser, what is seen there."""

import pytest
from playwright.sync_api import expect

from tests.support.browser import (
    PATIENCE,
    SETTLE,
    choose_tab,
    expect_trained,
    listen,
    set_training,
    settle,
)

NO_ATTENTION = "No attention: all of the source passes through one vector."


@pytest.fixture(scope="module")
def visit(chromium, served_app):
    """Open the page as a new visitor; afterwards no script has failed and nothing outside was asked for."""
    heard = []

    def open_page(width=1280):
        context = chromium.new_context(viewport={"width": width, "height": 900}, accept_downloads=True)
        context.set_default_timeout(PATIENCE)
        page = context.new_page()
        heard.append(listen(page, (served_app, "data:", "blob:")))
        page.add_init_script(path=SETTLE)
        page.goto(served_app)
        choose_tab(page, "Train")
        return page

    yield open_page
    assert not any(heard), heard


def fill(page, label, text):
    set_training(page, **{label: text})


def choose(page, label, option):
    page.get_by_label(label, exact=True).click()
    page.get_by_role("option", name=option, exact=True).click()


@pytest.mark.gpu
def test_where_there_is_a_gpu_visitors_train_on_it(visit):
    pages = [visit(), visit()]
    for page in pages:
        fill(page, "Steps", "120")
        page.get_by_role("button", name="Train", exact=True).click()
    for page in pages:
        expect_trained(page)
        expect(page.locator("#tab-train .hf-origin")).to_contain_text("GPU, float32")
        page.context.close()


def test_an_lstm_shows_its_alignment_form_and_one_without_says_that_it_has_none(visit):
    page = visit()
    for model, steps in (("LSTM, dot attention (Luong)", "12"), ("LSTM without attention", "2")):
        set_training(page)  # where the other models are
        page.get_by_role("radio", name=model.replace(" attention (", " (")).check()
        expect(page.get_by_label("Steps", exact=True)).to_have_value("600")
        expect(page.get_by_label("Heads", exact=True)).to_be_hidden()
        settle(page)  # Gradio tells of a choice twice, and each answer fills the fields in
        fill(page, "Steps", steps)
        page.get_by_role("button", name="Train", exact=True).click()
        expect(page.locator("#runs tbody tr.on")).to_contain_text(model)
        expect(page.locator("#note")).to_contain_text(f"step {steps} of {steps}. ")
        if steps == "12":
            expect(page.locator("#train-board .hf-film button:not(.blank)").first).to_be_visible()
        fill(page, "Steps", "1")
    expect(page.locator("#train-board")).to_contain_text(NO_ATTENTION)
    choose_tab(page, "Explore")
    expect(page.locator("#explore-board")).to_contain_text(NO_ATTENTION)
    choose_tab(page, "Train")
    page.locator("#runs tbody tr").nth(1).locator("td").nth(1).click()  # anywhere on the row
    expect(page.locator("#train-board .hf-keys").first).to_contain_text("copy 1, LSTM, dot attention (Luong)")
    page.context.close()


@pytest.mark.parametrize("name", ["Try", "Explore"])
def test_a_tab_with_a_model_asks_the_server_once_when_it_is_opened(visit, name):
    page, asked_by = visit(), []
    settle(page)
    page.on("request", lambda sent: asked_by.append((sent.post_data_json or {}).get("trigger_id")))
    choose_tab(page, name)
    page.locator(f"#{name.lower()}-origin").get_by_text("attn-").wait_for()
    settle(page)
    opened = next(filter(None, asked_by))  # the tab; what its board asks then is asked by the board
    assert asked_by.count(opened) == 1
