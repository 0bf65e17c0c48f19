"""The Explore tab in a browser: what is taken away, folders that are refused, and waiting."""

import re

from playwright.sync_api import expect

from demos.tabs.explore import ablation_panel, head_counts
from hf_attn.analysis.ablation import measure_outcomes
from tests.support.addition_head import SUM, find_needed_head, load_addition, symbols_of
from tests.support.browser import LATE_REPLY, choose_tab, open_tab, run_long, settle
from tests.support.native_models import build_native


def test_a_removed_head_changes_the_answer_shown_and_every_head_is_counted_behind(chromium, served_app):
    pick, change = find_needed_head()
    place, head = f"layer {pick.layer + 1}, head {pick.head + 1}", f"{pick.layer + 1}·{pick.head + 1}"
    found = load_addition()
    whole, left = (
        f"{100 * outcome.exact_match:.0f}\u202f%"
        for outcome in measure_outcomes(found.model, found.task, [change.trial], head_counts.EXAMPLES)
    )
    with open_tab(chromium, served_app, "Explore") as page:
        lens, checks = page.locator("#explore-board"), page.locator("#checks-board")
        strips = lens.locator(".hf-said-strips > *")
        expect(lens).to_contain_text(f"{SUM} → 544")
        cell = lens.locator("[data-kind=cross]").get_by_role("button", name=place)
        cell.click()
        expect(lens.locator(".hf-said-labels")).to_have_text(f"whole modelwithout {head}")
        both = [*symbols_of(change.before), *symbols_of(change.after)]
        expect(strips).to_have_text(both)
        expect(lens.locator(".hf-said-strips .wrong").first).to_be_visible()
        expect(lens.locator(".hf-said-shares > *")).to_have_text([whole, left])
        expect(lens.locator(".hf-verdict-line")).to_contain_text(f"unseen inputs {left} are right")
        expect(lens.locator(".hf-counting")).to_contain_text("20 of 20 heads")
        expect(cell.locator("span")).to_have_text(left.split("\u202f")[0])
        expect(page.locator("#explore-headline")).to_contain_text(f"Without head {head}, {SUM} becomes")
        expect(page.locator("#explore-headline").get_by_role("button", name="Show it")).to_be_hidden()
        lens.locator("[data-kind=encoder]").get_by_role("button", name="layer 1, head 4").click()
        expect(lens.locator(".hf-verdict-line")).to_contain_text("Same answer without head 1·4.")
        page.locator("#explore-headline").get_by_role("button", name="Show it").click()
        expect(lens.locator(".hf-one > header h2")).to_contain_text(f"Head {head}")
        lens.get_by_role("button", name="edge", exact=True).click()
        expect(lens.locator(".hf-said-labels")).to_contain_text("without the edge")
        lens.locator("canvas[tabindex='0']").first.press("Escape")
        expect(lens.locator(".hf-meant")).to_have_text("No cell is chosen: choose one in the map above.")
        expect(lens.locator(".hf-said-labels")).to_be_hidden()  # of the edge before
        lens.get_by_role("button", name="nothing", exact=True).click()
        expect(strips).to_have_text(symbols_of(change.before))
        expect(lens.locator(".hf-said-labels")).to_be_visible()

        roles = checks.locator(".hf-roles-table tbody tr")
        expect(roles.first).to_be_hidden()
        lens.get_by_text("For researchers").click()
        expect(roles).to_have_count(9)  # eight heads and even attention
        scroll = checks.locator(".hf-roles-table .hf-scroll")
        page.set_viewport_size({"width": 1280, "height": 300})  # as low as for a model of many heads
        assert scroll.evaluate(
            "e => e.clientHeight < e.scrollHeight && e.clientHeight <= 0.6 * innerHeight + 1"
        )
        page.set_viewport_size({"width": 1280, "height": 900})
        expect(checks.locator(".hf-roles-table tr.on")).to_contain_text(head)
        expect(checks.locator(".hf-theory-facts")).to_contain_text("after one update")
        counted = f"{ablation_panel.ROLE_EXAMPLES} held-out examples"
        expect(checks.get_by_role("button", name=counted, exact=True)).to_be_visible()
        for width in (360, 768, 1280):
            page.set_viewport_size({"width": width, "height": 900})
            assert page.evaluate("document.documentElement.scrollWidth") <= width


def test_the_lens_stays_while_heads_are_counted_and_show_is_grey_while_it_shows_the_input(
    chromium, served_app
):
    with open_tab(chromium, served_app, "Explore") as page:
        lens, show = page.locator("#explore-board"), page.locator("#explore-show")
        expect(lens).to_contain_text(f"{SUM} → 544")
        expect(show).to_be_disabled()
        first = lens.locator(".hf-one > header h2").inner_text()
        expect(lens.locator(".hf-counting")).to_contain_text("20 of 20 heads")
        expect(lens.locator(".hf-one > header h2")).to_have_text(first, use_inner_text=True)
        text = page.locator("#explore-text input, #explore-text textarea")
        text.fill("7+8")
        expect(show).to_be_enabled()
        text.fill(SUM)
        expect(show).to_be_disabled()
        expect(page.locator("#explore-target")).to_be_hidden()
        page.get_by_role("button", name="Force an answer").click()
        target = page.locator("#explore-target input, #explore-target textarea")
        expect(target).to_be_focused()
        target.fill("643")
        show.click()
        expect(lens).to_contain_text(f"{SUM} → 643")
        expect(show).to_be_disabled()


def test_of_heads_clicked_one_after_the_other_the_last_is_answered(chromium, served_app):
    with open_tab(chromium, served_app, "Explore") as page:
        expect(page.locator("#explore-board")).to_contain_text(f"{SUM} → 544")
        for place in ("layer 1, head 1", "layer 1, head 2", "layer 2, head 3"):
            page.locator("#explore-board [data-kind=decoder]").get_by_role("button", name=place).click()
            page.wait_for_timeout(200)  # longer than the page waits for another click, shorter than an answer
        expect(page.locator("#explore-board .hf-said-labels")).to_have_text("whole modelwithout 2·3")


def test_with_the_keyboard_the_map_is_a_few_stops_away_and_the_heads_are_one(chromium, served_app):
    with open_tab(chromium, served_app, "Explore") as page:
        expect(page.locator("#explore-board .hf-counting")).to_contain_text("20 of 20 heads")
        page.locator("#explore-model > button").focus()
        stops = []
        while "canvas" not in stops and len(stops) < 20:
            page.keyboard.press("Tab")
            stops.append(
                page.evaluate("document.activeElement.closest('#explore-board canvas') ? 'canvas' : 'stop'")
            )
        assert len(stops) <= 8  # input, Force, four examples, Save, the map; skip, tabs and link come before
        heads = page.locator("#explore-board .hf-grid button:not([tabindex='-1'])")
        expect(heads).to_have_count(1)
        page.locator(".hf-skip").press("Enter")
        assert page.evaluate("Boolean(document.activeElement.closest('#explore-board .hf-one canvas'))")


def test_a_folder_that_is_refused_leaves_target_and_lens_and_another_changes_them(
    chromium, served_app, tmp_path
):
    for part in build_native("bart"):
        part.save_pretrained(tmp_path / "bart")
    with open_tab(chromium, served_app, "Explore") as page:
        lens, target = page.locator("#explore-board"), page.locator("#explore-target input")
        name, error = page.locator("#explore-other input"), page.locator("#explore-other-error")
        expect(lens).to_contain_text("153+391 → 544")
        page.get_by_role("button", name="Force an answer").click()
        target.fill("643")
        target.press("Enter")
        expect(lens).to_contain_text("153+391 → 643")
        page.locator("#explore-model > button").click()
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


def test_an_answer_in_parts_that_is_there_before_its_question_was_taken_is_whole(chromium, served_app):
    with open_tab(chromium, served_app, "Train") as page:
        page.add_init_script(path=LATE_REPLY)
        page.reload()
        run_long(page)  # so that there is a stream of answers all the time
        choose_tab(page, "Explore")
        text = page.locator("#explore-text input, #explore-text textarea")
        expect(text).not_to_have_value("")
        for written in ("The cat sat", "12+34", "The dog sat"):
            text.fill(written)
            text.press("Enter")
            offer = page.get_by_role("button", name="Read it with the English model").locator("visible=true")
            expect(offer).to_have_count(0 if "+" in written else 1)


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
        panel.get_by_role("button", name="Count held-out words by kind").click()
        rows = panel.locator(".hf-shares tbody tr")
        expect(rows).to_have_count(4)
        expect(rows.nth(2)).to_contain_text("where no head may read the deciding word")
        read_aloud = page.locator("#explore-board .hf-slot .hf-sr[aria-live]")
        expect(read_aloud.filter(has_text="Without layer")).not_to_have_count(0)
        expect(panel.locator(".hf-bar-key")).to_contain_text("whole model")
        page.get_by_text("For researchers").locator("visible=true").click()
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
        expect(page.locator("#explore-headline")).not_to_contain_text("tired")
