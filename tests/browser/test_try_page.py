"""The Try tab in a browser: steps, beams and draws, chosen by click and redrawn by slider."""

import itertools
import random

import pytest
import torch
from playwright.sync_api import expect

from hf_attn.generation.generate import temper
from hf_attn.generation.strategies import STRATEGIES
from tests.support.browser import LATE_END, choose_save, open_tab, settle

SUM = "999+999"


@pytest.fixture(scope="module")
def page(chromium, served_app):
    """The tab with the answer of four beams to a sum."""
    with open_tab(chromium, served_app, "Try") as page:
        page.locator("#try-checkpoint input").click()
        page.get_by_role("option", name="attn-addition (bundled)", exact=True).click()
        page.locator("#try-origin").get_by_text("attn-addition").wait_for()
        fill(page, SUM)
        page.locator("#try-strategy label", has_text="beam").click()
        page.locator("#try-board .hf-beams canvas").wait_for()
        yield page


def fill(page, text):
    field = page.locator("#try-text input, #try-text textarea")
    field.fill(text)
    field.press("Enter")


def hold_next(page, address):
    """Keep the next request of such an address back; return the list that it comes into."""
    held = []
    page.route(address, lambda route: held.append(route), times=1)
    return held


def chosen_row(page):
    """Return the symbol whose row of the map is chosen, by what is read aloud."""
    live = page.locator("#try-board .hf-panel", has_text="Cross-attention").locator("[aria-live=polite]")
    return live.text_content().split(" reads ")[0]


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_what_the_page_draws_while_a_slider_moves_is_what_python_draws_from(page, strategy):
    logits = torch.randn(30, generator=torch.Generator().manual_seed(3))
    log_p, order = logits.log_softmax(-1).sort(descending=True)
    sent = {"names": [str(index) for index in order.tolist()], "log_p": log_p.tolist()}
    row = STRATEGIES[strategy]
    ends = [(one.name, one.slider) for one in row.parameters if one.slider]
    settings = [{}, *({name: value} for name, at in ends for value in (at.low, at.start, at.high))]
    for temperature, setting in itertools.product((0, 0.3, 1, 2), settings):
        own = {name: at.start for name, at in ends} | setting
        tempered = temper(logits, temperature)
        expected = row.cut(tempered, **own) if row.cut else temper(logits, 0) if row.keeps else tempered
        how = {"strategy": strategy, "temperature": temperature, **own}
        drawn = page.evaluate("([sent, how]) => hfAttn.weigh(sent, how)", [sent, how])
        assert [one["warm"] for one in drawn["entries"]] == pytest.approx(tempered[order].tolist(), abs=1e-5)
        assert [one["after"] for one in drawn["entries"]] == pytest.approx(expected[order].tolist(), abs=1e-5)
        assert (strategy in drawn["words"]) == bool(row.keeps)


def random_beams(generator, num_beams=4, steps=9):
    """Return a tree as a search leaves it: of each step some are gone on with."""
    nodes, live = [], [0]
    for _ in range(steps):
        offered = [live[generator.randrange(len(live))] for _ in range(num_beams + 2)]
        places = range(len(nodes) + 1, len(nodes) + 1 + len(offered))
        fates = ["kept"] * num_beams + ["dropped"] * 2
        nodes += [
            {"token": "x", "parent": parent, "p": 0.5, "score": -float(place), "fate": fate}
            for place, parent, fate in zip(places, offered, fates, strict=True)
        ]
        live = list(places)[:num_beams]
    return {"nodes": nodes, "ends": live}


def test_no_two_lines_of_a_beam_tree_cross_and_the_best_answer_is_straight(page):
    generator = random.Random(0)
    for _ in range(30):
        value = random_beams(generator)
        script = "value => hfAttn.layBeams(value).all.map(n => [n.depth, n.row])"
        places = [tuple(place) for place in page.evaluate(script, value)]
        assert len(set(places)) == len(places), "no two symbols stand in one place"
        assert places[value["ends"][0]][1] == 0
        steps = {}
        for node, (depth, row) in zip(value["nodes"], places[1:], strict=True):
            steps.setdefault(depth, []).append((places[node["parent"]][1], row))
        for lines in steps.values():
            for (parent, row), (other_parent, other_row) in itertools.combinations(sorted(lines), 2):
                assert row >= parent
                assert parent == other_parent or row < other_row


def test_a_symbol_of_the_beam_tree_leads_to_its_step_and_its_map_row(page):
    board = page.locator("#try-board")
    canvas = board.locator(".hf-beams canvas")
    canvas.scroll_into_view_if_needed()
    box = canvas.bounding_box()
    page.mouse.click(box["x"] + box["width"] - 1, box["y"] + 1)  # beside all symbols: nothing is chosen
    canvas.focus()
    page.keyboard.press("ArrowLeft")
    page.keyboard.press("ArrowRight")
    said = board.locator(".hf-panel", has_text="Beam tree").locator("[aria-live=polite]")
    expect(said).to_contain_text("sum of log p")
    page.keyboard.press("End")  # the lowest of its step: another beam, or one that was dropped
    expect(board.locator("h2").first).to_contain_text("branch of the beam tree")
    expect(board.locator(".hf-verdict")).to_be_hidden()
    symbol = said.text_content().split(" after ")[0]
    expect(board.locator(".hf-steps [aria-pressed=true]")).to_contain_text(symbol)
    expect(board.locator(".hf-dist [aria-current] .hf-mono")).to_have_text(symbol)
    page.keyboard.press("Home")
    expect(board.locator(".hf-verdict")).to_contain_text("right: 999+999 = 1998")


def test_another_answer_shows_its_own_steps_and_map_and_the_map_leads_back(page):
    board = page.locator("#try-board")
    board.get_by_role("button", name="Show answer 2", exact=True).click()
    expect(board.locator("h2").first).to_contain_text("answer 2 of 4")
    expect(board.locator(".hf-verdict")).to_contain_text("wrong, is 1998")
    maps = board.locator(".hf-panel", has_text="Cross-attention").locator("canvas").first
    maps.focus()
    for _ in (1, 2):
        page.keyboard.press("ArrowDown")
    pressed = board.locator(".hf-steps [aria-pressed=true]")
    place = board.locator(".hf-steps button").evaluate_all(
        "all => all.findIndex(one => one.ariaPressed === 'true')"
    )
    expect(board.locator("h2").nth(1)).to_contain_text(f"Step {place + 1}:")
    assert pressed.text_content().startswith(chosen_row(page).split(" ")[0])
    board.get_by_role("button", name="Show answer 1", exact=True).click()
    expect(board.locator(".hf-verdict")).to_contain_text("right")


def test_the_beam_tree_is_there_as_a_table_and_to_take_away(page):
    panel = page.locator("#try-board .hf-panel", has_text="Beam tree")
    panel.get_by_role("button", name="Show as table").click()
    rows = panel.locator(".hf-numbers tbody tr")
    assert rows.count() > 12
    assert rows.first.text_content().startswith("11the beginning")
    panel.get_by_role("button", name="Hide table").click()
    with page.expect_download() as download:
        choose_save(panel, "SVG")
    svg = download.value.path().read_text()
    assert svg.count("1998") == 0
    assert svg.count("stroke-dasharray") > 4
    assert ">end</text>" in svg


def test_the_number_beside_a_slider_is_refused_under_it_and_nothing_else_moves(chromium, served_app):
    with open_tab(chromium, served_app, "Try") as page:
        page.locator("#try-board .hf-dist .line").first.wait_for()
        field, line = (page.locator(f"#try-temperature {part}") for part in ("[type=number]", "[role=alert]"))
        before = page.locator("#try-board").inner_text()
        for typed in ("9", "-5"):
            field.fill(typed)
            expect(line).to_have_text("Give a number from 0 to 2.")
            field.press("Tab")
            expect(line).to_have_text("Give a number from 0 to 2. 1 stays.")
            expect(field).to_have_value("1")
        field.fill("")
        expect(line).to_be_hidden()  # another number is begun
        field.press("Tab")
        expect(line).to_contain_text("1 stays.")
        settle(page)
        assert page.get_by_test_id("toast-body").count() == 0
        assert page.locator("#try-board").inner_text() == before
        field.fill("0.5")
        expect(page.locator("#try-board")).to_contain_text("at temperature 0.5")
        expect(line).to_be_hidden()
        page.get_by_role("radio", name="top-k").check()
        kept = page.locator("#try-top-k [type=number]")
        kept.fill("2.5")
        expect(page.locator("#try-top-k [role=alert]")).to_have_text("Give a whole number from 1 to 20.")
        page.locator("#try-top-k [type=range]").press("ArrowRight")
        expect(page.locator("#try-top-k [role=alert]")).to_be_hidden()


def test_a_long_answer_is_named_by_its_ends_and_stands_below_in_full_and_its_chips_scroll(
    chromium, served_app
):
    first, second = "9" * 60 + "12", "8" * 61
    with open_tab(chromium, served_app, "Try") as page:
        page.locator("#try-checkpoint input").click()
        page.get_by_role("option", name="attn-addition-long (bundled)", exact=True).click()
        page.locator("#try-origin").get_by_text("attn-addition-long").wait_for()
        fill(page, f"{first}+{second}")
        total = str(int(first) + int(second))
        board = page.locator("#try-board")
        expect(page.locator("h1:visible")).to_contain_text(f"63 digits: {total[:4]}…{total[-4:]}")
        expect(board.locator(".hf-astext:visible")).to_have_text(f"As text: {total}")
        chips = board.locator(".hf-steps")
        assert chips.bounding_box()["height"] <= 180
        chips.locator("button").last.focus()
        assert chips.evaluate("chips => chips.scrollTop") > 0
        expect(board.locator(".hf-answer")).to_have_attribute("tabindex", "0")


def test_the_old_answer_fades_until_the_one_asked_for_last_stands_and_after_every_error(chromium, served_app):
    with open_tab(chromium, served_app, "Try") as page:
        page.locator("#try-board .hf-dist .line").first.wait_for()
        settle(page)
        board, faded = page.locator("#try-board"), page.locator(".hf-waiting:visible")
        expect(faded).to_have_count(0)
        page.locator("#try-strategy label", has_text="nucleus").click()
        page.locator("#try-board .hf-ends tbody button").first.wait_for()
        settle(page)
        for asked_by in ("#try-text", "#try-seed"):
            held = hold_next(page, "**/queue/join*")
            page.locator(asked_by).locator("textarea, input").press("Enter")
            expect(faded).to_have_count(2)
            expect(board.locator(".hf-try > *").first).to_have_css("opacity", "0.5")
            held[0].continue_()
            expect(faded).to_have_count(0)
        held = hold_next(page, "**/queue/join*")
        page.locator("#try-write").click()
        expect(faded).to_have_count(2)
        fill(page, SUM)
        expect(board).to_contain_text("999+999 = 1998")
        expect(faded).to_have_count(0)
        held[0].continue_()
        settle(page)
        expect(board).to_contain_text("999+999 = 1998")
        fill(page, "12x")
        expect(page.locator("#try-error [role=alert]")).to_be_visible()
        expect(faded).to_have_count(0)


def test_the_old_answer_stands_again_where_the_server_fails(chromium, served_app):
    with chromium.new_context() as context:
        page = context.new_page()
        page.goto(served_app)
        page.get_by_role("tab", name="Try", exact=True).click()
        page.locator("#try-board .hf-dist .line").first.wait_for()
        held = hold_next(page, "**/queue/join*")
        page.locator("#try-write").click()
        expect(page.locator(".hf-waiting:visible")).to_have_count(2)
        held[0].fulfill(status=503, json={"detail": "The queue is full."})
        expect(page.locator(".hf-waiting")).to_have_count(0)
        expect(page.locator("#try-board .hf-dist .line").first).to_be_visible()


def test_a_question_asked_before_the_page_knows_that_the_last_answers_stream_ends_is_answered(
    chromium, served_app
):
    with open_tab(chromium, served_app, "Try") as page:
        page.add_init_script(path=LATE_END)
        page.reload()
        answer = page.locator("#try-board .hf-answer")
        expect(answer).to_be_visible()
        for text, total in (("153+391", "0544"), ("1+2", "0003"), ("20+30", "0050")):
            fill(page, text)
            expect(answer).to_contain_text(total)


def test_a_strategy_and_a_draw_that_are_chosen_before_the_last_is_set_up_are_answered(chromium, served_app):
    with open_tab(chromium, served_app, "Try") as page:
        page.locator("#try-board .hf-dist .line").first.wait_for()
        settle(page)
        for presses, shown in ((("beam", "nucleus"), "01234"), (("Another draw", "Another draw"), "23456")):
            held = hold_next(page, "**/run/predict*")
            for press in presses:
                page.locator("#try-strategy label, #try-again", has_text=press).click()
            page.wait_for_function("!isSettled()")
            held[0].continue_()
            expect(page.locator("#try-board .hf-ends tbody button")).to_have_text(list(shown))
        expect(page.locator("#try-top-p")).to_be_visible()
