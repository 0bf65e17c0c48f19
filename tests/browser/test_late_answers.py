"""What the page asks is answered whole, in whatever order messages and the ends of streams come."""

from playwright.sync_api import expect

from tests.support.browser import LATE_END, LATE_REPLY, choose_tab, open_tab, run_long


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


def test_a_question_asked_before_the_page_knows_that_the_last_answers_stream_ends_is_answered(
    chromium, served_app
):
    with open_tab(chromium, served_app, "Try") as page:
        page.add_init_script(path=LATE_END)
        page.reload()
        answer = page.locator("#try-board .hf-answer")
        expect(answer).to_be_visible()
        text = page.locator("#try-text input, #try-text textarea")
        for written, total in (("153+391", "0544"), ("1+2", "0003"), ("20+30", "0050")):
            text.fill(written)
            text.press("Enter")
            expect(answer).to_contain_text(total)
