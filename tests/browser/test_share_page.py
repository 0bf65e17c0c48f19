"""The Share tab in a browser: a checkpoint is pushed, and verified in a fresh process."""

from playwright.sync_api import expect

from tests.support.browser import open_tab


def test_a_bundled_checkpoint_is_pushed_verified_pulled_and_offered(chromium, served_app, hub):
    with open_tab(chromium, served_app, "Share") as page:
        page.get_by_label("Checkpoint", exact=True).last.click()
        page.get_by_role("option", name="attn-copy (bundled)").click()
        expect(page.locator("#share-name input")).to_have_value("attn-copy")
        page.locator("#share-token input").fill(hub.token)
        page.locator("#share-push").click()
        pushed = page.locator("#share-pushed")
        expect(pushed).to_contain_text(
            "in a fresh process"
        )  # which imports torch, and says nothing till its end
        expect(pushed).to_contain_text("Pushed and verified", timeout=60_000)
        expect(pushed.locator("a")).to_have_attribute("href", f"{hub.endpoint}/ada/attn-copy")
        page.locator("#share-id input").fill("ada/attn-copy")
        page.locator("#share-pull").click()
        expect(page.locator("#share-pulled .hf-share-facts")).to_be_visible()
        page.get_by_role("tab", name="Explore", exact=True).click()
        page.locator("#explore-model > button").click()
        page.locator("#explore-checkpoint input").click()
        page.get_by_role("option", name="ada/attn-copy (pulled)").click()
        expect(page.locator("#explore-origin")).to_contain_text("ada/attn-copy, step")
