"""The Train tab in a browser: its choices, and its runs after they were trained."""

import re

import pytest
from playwright.sync_api import expect

from tests.support.browser import PATIENCE, choose_tab, expect_trained, open_tab, serve_app, set_training


def test_runs_are_scrubbed_compared_and_there_after_a_reload(chromium, served_app):
    with open_tab(chromium, served_app, "Train") as page:
        board, runs, when = (
            page.locator("#train-board"),
            page.locator("#runs"),
            page.locator("#train-board .hf-when"),
        )
        set_training(page, Longest="5", Steps="20")
        page.get_by_role("button", name="Train", exact=True).click()
        expect(page.locator("#note")).to_contain_text("Done, step 20 of 20")
        expect_trained(page)
        scrubbed_by_keyboard_and_by_click(page, board, when)
        page.get_by_role("button", name="Other seed").click()
        expect(runs.locator("tbody tr")).to_have_count(2)
        expect(page.locator("#note")).to_contain_text("Done, step 20 of 20")
        expect_trained(page)
        compared_side_by_side(page, runs)
        page.get_by_role("tab", name="Try", exact=True).click()
        page.get_by_role("tab", name="Train", exact=True).click()
        expect(runs.locator("tbody tr.on")).to_contain_text("copy 2")
        page.reload()
        expect(page.get_by_role("tab", name="Train", exact=True)).to_have_attribute("aria-selected", "true")
        set_training(page)
        expect(page.get_by_label("Longest", exact=True)).to_have_value("5")
        expect(runs.locator("tbody tr")).to_have_count(2)
        runs.get_by_role("button", name="Open copy 1").click()
        expect(runs.locator("tbody tr.on")).to_contain_text("copy 1")
        expect(board.locator(".hf-film button:not(.blank)").first).to_be_visible()


def test_a_page_that_is_left_before_the_server_knows_it_keeps_its_settings(chromium, served_app):
    with chromium.new_context() as context:  # the browser complains of the requests that fail
        page = context.new_page()
        page.set_default_timeout(PATIENCE)
        page.goto(served_app)
        choose_tab(page, "Train")
        set_training(page, Steps="123")
        page.route("**/queue/join*", lambda route: route.abort())
        page.reload()
        page.wait_for_function("sessionStorage.getItem('hf-attn-visit') === null")  # taken out, and no answer
        page.unroute("**/queue/join*")
        page.reload()
        expect(page.get_by_role("tab", name="Train", exact=True)).to_have_attribute("aria-selected", "true")
        set_training(page)
        expect(page.get_by_label("Steps", exact=True)).to_have_value("123")
        page.get_by_role("button", name="Copy link").click()
        page.wait_for_url("**?view=*")
        linked = page.url
        set_training(page, Steps="77")
        page.evaluate("history.replaceState(null, '', '?')")
        page.route("**/queue/join*", lambda route: route.abort())
        for _ in range(2):  # the link is opened, and loaded again before the server answers
            page.goto(linked)
            page.wait_for_function("sessionStorage.getItem('hf-attn-visit') === null")
        page.unroute("**/queue/join*")
        page.reload()
        set_training(page)
        expect(page.get_by_label("Steps", exact=True)).to_have_value("123")


def scrubbed_by_keyboard_and_by_click(page, board, when):
    slider = page.get_by_label("Step of training shown")
    slider.focus()
    page.keyboard.press("Shift+ArrowLeft")
    expect(when).to_contain_text("step 18in the past")
    page.keyboard.press("ArrowLeft")  # 1 % is less than a step
    expect(when).to_contain_text("step 17in the past")
    page.keyboard.press("Home")
    expect(board.locator(".hf-looks")).to_contain_text("untrained")
    curve = board.locator("canvas[aria-label^='Validation accuracy']")
    curve.focus()
    page.keyboard.press("End")
    expect(when).to_contain_text("step 20the last step")
    page.keyboard.press("End")
    expect(when).to_contain_text("step 20the last step")
    box = curve.bounding_box()
    curve.click(position={"x": 44 + (box["width"] - 52) / 2, "y": box["height"] / 2})
    expect(when).to_contain_text("step 10in the past")
    figures = board.locator(".hf-stats dd")
    assert figures.first.inner_text().startswith("10 of 20")
    assert (
        figures.nth(2).inner_text().replace(".0", "") == board.locator(".hf-chart output").first.inner_text()
    )
    board.locator(".hf-which .hf-grid button").first.click()
    name = board.locator("canvas[aria-label*='queries by']")
    expect(name).to_have_attribute("aria-label", re.compile("head 1·1, step"))
    board.get_by_role("button", name="mean", exact=True).click()
    expect(name).to_have_attribute("aria-label", re.compile("mean of 2 heads, step"))


def compared_side_by_side(page, runs):
    compared = page.locator("#compared")
    expect(compared.locator("section")).to_be_hidden()
    runs.get_by_role("button", name="Lay copy 1 over the curves").press("Enter")
    expect(compared.locator("tbody tr").nth(1)).to_have_text("Seed10")
    expect(compared.locator("tbody tr").nth(0)).to_have_text("Settings that differ")
    maps = compared.locator("canvas[aria-label*='queries by']")
    expect(maps).to_have_count(2)
    expect(maps.nth(1)).to_have_attribute("aria-label", re.compile("^copy 1, .* at step 20"))
    page.get_by_label("Step of training shown").fill("0")
    expect(maps.nth(1)).to_have_attribute("aria-label", re.compile("^copy 1, .* at step 0"))
    keys = page.locator("#train-board .hf-keys").first
    expect(keys).to_contain_text("copy 1, Transformer")


def test_choosing_and_leaving_running_text_is_never_an_error(chromium, served_app):
    failed = []
    with open_tab(chromium, served_app, "Train") as page:
        page.on("response", lambda answer: failed.append(answer.url) if answer.status >= 400 else None)
        task = page.locator("#field-task input")
        for name, learner in (("Running text", "Decoder-only Transformer"), ("Copy", "Transformer")) * 2:
            task.click()
            page.get_by_role("option", name=name, exact=True).click()
            expect(page.get_by_role("radio", name=learner, exact=True)).to_be_checked()
            expect(page.locator("#note")).to_contain_text("parameters.")
        expect(page.get_by_text("Not taken")).to_have_count(0)
    assert failed == []


@pytest.mark.gpu
def test_where_there_is_a_gpu_visitors_train_on_it(chromium):
    with serve_app(options=("--device", "auto")) as address, open_tab(chromium, address, "Train") as page:
        set_training(page, Steps="120")
        page.get_by_role("button", name="Train", exact=True).click()
        expect_trained(page)
        expect(page.locator("#tab-train .hf-origin")).to_contain_text("GPU, float32")
