"""The Share tab in a browser: a checkpoint is pushed, verified, pulled and offered."""

import pytest
from playwright.sync_api import expect

from hf_attn.checkpoints.save_load import BUNDLED
from tests.support.browser import open_tab, serve_app
from tests.support.hub_server import serve_hub


@pytest.fixture(scope="module")
def hub(tmp_path_factory):
    """(a Hub, the address of an app that uses it)."""
    root = tmp_path_factory.mktemp("hub")
    with serve_hub(root) as served, serve_app(served.environment(root)) as address:
        yield served, address


def test_in_the_browser_a_bundled_checkpoint_is_pushed_verified_pulled_and_offered(chromium, hub):
    served, address = hub
    with open_tab(chromium, address, "Share") as page:
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


def test_nothing_in_a_stranger_s_card_or_file_names_runs(chromium, hub):
    served, address = hub
    image, link = "<img src=x onerror=window.bad=1>", "[go](javascript:window.bad=1)"
    parts = (
        f"---\nlicense: mit\ntitle: '{image}'\n---\n# Read {image}",
        "<script>window.bad=1</script>",
        "<iframe srcdoc='<script>top.bad=1</script>'>",
        link,
    )
    content = {path.name: path.read_bytes() for path in (BUNDLED / "attn-copy").iterdir()}
    content |= {"README.md": "\n\n".join(parts).encode(), f"{image}.txt": b""}
    repo = served.store.create("model", "ada/attn-strange", "ada", private=False)
    changes = {name: served.store.keep(data) for name, data in content.items()}
    repo.add_commit("refs/heads/main", repo.resolve("main"), "by a stranger", "ada", changes)
    with open_tab(chromium, address, "Share") as page:
        page.on("dialog", lambda dialog: pytest.fail(dialog.message))
        page.locator("#share-id input").fill("ada/attn-strange")
        page.locator("#share-pull").click()
        expect(page.locator("#share-pulled .hf-share-facts")).to_be_visible()
        page.get_by_role("tab", name="Explore", exact=True).click()
        page.locator("#explore-model > button").click()
        page.locator("#explore-checkpoint input").click()
        page.get_by_role("option", name="ada/attn-strange (pulled)").click()
        expect(page.locator("#explore-origin")).to_contain_text("ada/attn-strange, step")
        assert page.evaluate("window.bad") is None
        assert page.locator("img[src=x], iframe[srcdoc], a[href^=javascript]").count() == 0
