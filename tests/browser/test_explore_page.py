"""The Explore tab in a browser: what is taken away, folders that are refused, and waiting."""

import re

from playwright.sync_api import expect

from demos.tabs.explore import ablation_panel
from hf_attn.analysis.ablation import measure_outcomes
from tests.support.addition_head import SUM, find_needed_head, load_addition, symbols_of
from tests.support.browser import open_tab, settle
from tests.support.native_models import build_native


def test_a_removed_head_changes_the_answer_shown(chromium, served_app):
    pick, change = find_needed_head()
    place = f"layer {pick.layer + 1}, head {pick.head + 1}"
    found = load_addition()
    whole, left = (
        f"{100 * outcome.exact_match:.1f}"
        for outcome in measure_outcomes(found.model, found.task, [change.trial], ablation_panel.EXAMPLES)
    )
    with open_tab(chromium, served_app, "Explore") as page:
        lens, checks = page.locator("#explore-board"), page.locator("#checks-board")
        answers = checks.locator(".hf-said .hf-symbols")
        roles = checks.locator(".hf-roles-table tbody tr")
        expect(lens).to_contain_text(f"{SUM} → 544")
        lens.get_by_role("button", name=place).click()
        expect(checks.locator(".hf-meant")).to_have_text(f"This asks about {place} of cross-attention.")
        expect(roles).to_have_count(9)  # eight heads and even attention
        scroll = checks.locator(".hf-roles-table .hf-scroll")
        page.set_viewport_size({"width": 1280, "height": 300})  # as low as for a model of many heads
        assert scroll.evaluate(
            "e => e.clientHeight < e.scrollHeight && e.clientHeight <= 0.6 * innerHeight + 1"
        )
        page.set_viewport_size({"width": 1280, "height": 900})
        expect(checks.locator(".hf-roles-table tr.on")).to_contain_text(f"{pick.layer + 1}·{pick.head + 1}")
        expect(checks.locator(".hf-theory-facts")).to_contain_text("after one update")
        expect(checks).to_contain_text(f"is measured on {ablation_panel.EXAMPLES} held-out examples")
        counted = f"{ablation_panel.ROLE_EXAMPLES} held-out examples"
        expect(checks.get_by_role("button", name=counted, exact=True)).to_be_visible()

        checks.get_by_role("button", name="Ask", exact=True).click()
        expect(answers).to_have_text(["".join(symbols_of(ids)) for ids in (change.before, change.after)])
        expect(answers.nth(1).locator(".wrong").first).to_be_visible()
        expect(checks.locator(".hf-verdict")).to_have_text(["right", "wrong"])
        expect(checks.locator(".hf-fall")).to_have_text(re.compile(rf"{whole}\s%→{left}\s%± [\d.]+"))

        checks.get_by_role("button", name="Without each head").click()
        expect(checks.get_by_role("button", name="Run on all heads again")).to_be_visible()
        cells = checks.locator(".hf-left button")
        expect(cells).to_have_count(8)
        expect(cells.nth(4 * pick.layer + pick.head)).to_have_text(f"{float(left):.0f}")
        cells.nth(0).click()  # the grid chooses in the lens
        expect(lens).to_contain_text("Layer 1, head 1")
        checks.get_by_role("button", name="this edge").click()
        lens.locator("canvas[tabindex='0']").first.press("Escape")
        expect(checks.get_by_role("button", name="Ask", exact=True)).to_be_disabled()
        for width in (360, 768, 1280):
            page.set_viewport_size({"width": width, "height": 900})
            assert page.evaluate("document.documentElement.scrollWidth") <= width


def test_a_folder_that_is_refused_leaves_target_and_lens_and_another_changes_them(
    chromium, served_app, tmp_path
):
    for part in build_native("bart"):
        part.save_pretrained(tmp_path / "bart")
    with open_tab(chromium, served_app, "Explore") as page:
        lens, target = page.locator("#explore-board"), page.locator("#explore-target input")
        name, error = page.locator("#explore-other input"), page.locator("#explore-other-error")
        expect(lens).to_contain_text("153+391 → 544")
        target.fill("643")
        target.press("Enter")
        expect(lens).to_contain_text("153+391 → 643")
        name.fill(str(tmp_path / "missing"))
        page.locator("#explore-open").click()
        expect(error.get_by_role("alert")).to_be_visible()
        settle(page)
        expect(target).to_have_value("643")
        expect(lens).to_contain_text("153+391 → 643")
        name.fill(str(tmp_path / "bart"))
        name.press("Enter")
        expect(page.locator("#explore-origin")).to_contain_text("Bart")
        expect(target).to_have_value("")
        expect(error).to_have_text("")


def test_explore_says_that_it_works_however_it_was_asked(chromium, served_app):
    with open_tab(chromium, served_app, "Explore") as page:
        page.wait_for_function("hfAttn.lens.now?.map")
        page.evaluate("""() => { window.waits = [];
            hfAttn.lens.listen(document.body, view => waits.push(view.waiting)); }""")
        text = page.locator("#explore-text input, #explore-text textarea")
        for ask in (lambda: text.press("Enter"), page.locator("button.chip:visible").nth(1).click):
            page.evaluate("waits.length = 0")
            ask()
            page.wait_for_function("waits.includes(true) && !waits.at(-1)")


def test_a_sentence_is_read_by_the_english_model_and_one_word_decides_another(chromium, served_app):
    with open_tab(chromium, served_app, "Explore") as page:
        text = page.locator("#explore-text input, #explore-text textarea")
        expect(text).not_to_have_value("")
        text.fill("The cat sat on the mat because it was tired.")
        text.press("Enter")
        page.get_by_role("button", name="Read it with the English model").locator("visible=true").click()
        expect(page.locator("#explore-origin")).to_contain_text("attn-sentences")
        expect(page.locator("#explore-target")).to_be_hidden()
        page.get_by_role("button", name=". the tired", exact=True).locator("visible=true").click()
        panel = page.locator(".hf-predictions")
        bars = panel.locator("canvas[aria-label^='The likeliest tokens behind “tired']")
        expect(bars).to_have_attribute("aria-label", re.compile(r": cat 0\.9"))
        expect(panel).to_contain_text("Decided by cat, ringed in the map")
        page.get_by_role("button", name="tired → soft", exact=True).locator("visible=true").click()
        expect(panel).to_contain_text("Decided by mat, ringed in the map")
        panel.get_by_role("button", name=re.compile("Is it needed")).click()
        rows = panel.locator(".hf-shares tbody tr")
        expect(rows).to_have_count(4)
        expect(rows.nth(2)).to_contain_text("where no head may read the deciding word")
        read_aloud = page.locator("#checks-board .hf-sr[aria-live]")
        expect(read_aloud.filter(has_text="Without layer")).not_to_have_count(0)
        expect(panel.locator(".hf-bar-key")).to_contain_text("whole model")
        layers = page.locator(".hf-layers")
        layers.get_by_role("button", name="Logit lens").click()
        expect(layers.locator("tbody tr").nth(2)).to_contain_text("after layer 2")
        expect(layers.get_by_label("Patch into this changed text")).to_have_value(
            re.compile("tired . the tired")
        )
        layers.get_by_role("button", name="Patch", exact=True).click()
        expect(layers.locator("tbody tr").nth(3)).to_contain_text("into layer 1")
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
        page.locator("#explore-text input, #explore-text textarea").fill("the cat sat")
        page.locator("#explore-text input, #explore-text textarea").press("Enter")
        expect(page.locator("#explore-board")).to_contain_text("the cat sat")
        expect(read_aloud.filter(has_text=re.compile("."))).to_have_count(0)  # it was of another text
