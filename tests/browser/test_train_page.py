"""The Train tab in a browser: its choices, and its runs after they were trained."""

import pytest
from playwright.sync_api import expect

from tests.support.browser import PATIENCE, choose_tab, expect_trained, open_tab, serve_app, set_training


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
