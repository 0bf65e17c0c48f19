"""The Share tab in a browser: a checkpoint is pushed, verified, pulled and offered."""

from playwright.sync_api import expect

from tests.support.browser import open_tab, serve_app
from tests.support.hub_server import serve_hub


def test_in_the_browser_a_bundled_checkpoint_is_pushed_verified_pulled_and_offered(chromium, tmp_path):
    with (
        serve_hub(tmp_path) as served,
        serve_app(served.environment(tmp_path)) as address,
        open_tab(chromium, address, "Share") as page,
    ):
        page.get_by_label("Checkpoint", exact=True).last.click()
        page.get_by_role("option", name="attn-copy (bundled)").click()
        expect(page.locator("#share-name input")).to_have_value("attn-copy")
        token, push = page.locator("#share-token input"), page.locator("#share-push")
        assert token.get_attribute("type") == "password"
        token.fill("hf_mistyped")
        push.click()
        expect(page.locator("#share-token-error [role=alert]")).to_be_visible()
        token.fill(served.token)
        push.click()
        expect(page.locator("#share-pushed")).to_contain_text("Pushed and verified")
        expect(page.locator("#share-pushed a")).to_have_attribute("href", f"{served.endpoint}/ada/attn-copy")
        page.locator("#share-id input").fill("ada/attn-copy")
        page.locator("#share-pull").click()
        expect(page.locator("#share-pulled .hf-share-facts")).to_be_visible()
        page.locator("#share-card > button").click()
        expect(page.locator(".hf-card h1")).to_have_text("attn-copy")
        page.get_by_role("button", name="Copy link").click()
        expect(page.locator(".hf-link-panel")).to_be_visible()
        assert served.token not in page.content() + page.url
        page.get_by_role("button", name="Clear the token").click()
        expect(token).to_have_value("")
        for width in (360, 768, 1280):
            page.set_viewport_size({"width": width, "height": 900})
            assert page.evaluate("document.documentElement.scrollWidth") <= width
        page.get_by_role("tab", name="Explore", exact=True).click()
        page.locator("#explore-model > button").click()
        page.locator("#explore-checkpoint input").click()
        page.get_by_role("option", name="ada/attn-copy (pulled)").click()
        expect(page.locator("#explore-origin")).to_contain_text("ada/attn-copy, step")
