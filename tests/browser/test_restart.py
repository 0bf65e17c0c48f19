"""A page whose server is started anew says so, keeps settings and drawings; it comes back from sleep too."""

import sys
from pathlib import Path

from playwright.sync_api import expect

from tests.support.browser import (
    PATIENCE,
    choose_tab,
    expect_trained,
    find_free_port,
    listen,
    running,
    set_training,
)


def test_a_page_whose_server_was_started_anew_says_so_and_keeps_settings_and_drawings(chromium):
    port = find_free_port()
    command = [sys.executable, "app.py", "--port", str(port), "--device", "cpu"]
    root = Path(__file__).parents[2]
    with chromium.new_context() as context:
        page = context.new_page()
        page.set_default_timeout(PATIENCE)
        complaints = listen(page)  # before any page: each says first that it is left
        with running(command, cwd=root) as server:
            page.goto(f"http://127.0.0.1:{port}/")
            choose_tab(page, "Train")
            set_training(page, Steps="60", Seed="7")
            page.get_by_role("button", name="Train", exact=True).click()
            expect_trained(page)
            learned = page.locator("#train-board")
            expect(learned).to_contain_text("right after 60 steps")
            page.get_by_role("button", name="Copy link").click()
            page.wait_for_url("**?view=*")
            set_training(page, Seed="8")  # since the link
            page.evaluate("scrollTo(0, document.body.scrollHeight)")
            server.kill()
            expect(
                page.get_by_role("alert").filter(has_text="The server does not answer")
            ).to_be_in_viewport()
        with running(command, cwd=root):
            told = page.get_by_role("status").filter(has_text="The server was started anew")
            expect(told).to_be_visible()
            complaints.clear()  # of requests to a server that was gone
            expect(page.get_by_role("tab", name="Train", exact=True)).to_have_attribute(
                "aria-selected", "true"
            )
            expect(learned).to_contain_text("right after 60 steps")
            set_training(page)
            for label, value in (("Steps", "60"), ("Seed", "8")):
                expect(page.get_by_label(label, exact=True)).to_have_value(value)
            page.get_by_role("button", name="Train", exact=True).click()
            expect(page.locator("#train")).to_have_text("Train again")
            expect_trained(page)
            page.evaluate("window.isOld = true, now = Date.now, Date.now = () => now() + 200_000")  # it slept
            page.wait_for_function("window.isOld === undefined")
            expect(page.locator("#runs tbody tr")).to_have_count(1)
            expect(learned).to_contain_text("right after 60 steps")
            assert complaints == []
