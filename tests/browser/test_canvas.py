"""The pictures of the app's boards in a real browser, on a page without a server."""

import contextlib

import numpy as np
import pytest
from playwright.sync_api import expect

from demos.ui import boards
from tests.support.board_page import cell_point, colour_at, mount, open_board_page, scale_colour

WORDS = ["the", "bank", "by", "the river"]
SOURCE, TARGET = [*"12+34", "end"], [*"46", "end"]
TRUTH = [[1, 2, 0, 1, 2, 0], [0, 1, 0, 0, 1, 0], [0, 0, 0, 0, 0, 1]]


def softmax(scores):
    """Return each row's weights; −inf is masked."""
    weights = np.exp(scores - scores.max(axis=-1, keepdims=True))
    return weights / weights.sum(axis=-1, keepdims=True)


def causal_maps(n, layers=2, heads=2):
    """Return weights [layers, heads, n, n] of random scores under a causal mask."""
    scores = np.random.default_rng(0).normal(size=(layers, heads, n, n))
    return softmax(np.where(np.tri(n, dtype=bool), 2 * scores, -np.inf))


def packed(maps, rows, cols, **more):
    """Return one kind of maps as the explore board takes it."""
    shape = list(maps.shape)
    return {"maps": boards.encode_maps(maps), "shape": shape, "rows": rows, "cols": cols, **more}


def explore_value(words=WORDS):
    """Return a decoder of two layers and two heads with the chosen cell "by reads bank"."""
    mask = np.tri(len(words), dtype=bool).tolist()
    kinds = {
        "encoder": packed(softmax(np.zeros((1, 1, 4, 4))), WORDS, WORDS, padding=[False, False, False, True]),
        "decoder": packed(causal_maps(len(words)), words, words, allowed=mask),
    }
    return {"kinds": kinds, "kind": "decoder", "layer": 1, "head": 0, "query": 2, "key": 1}


def cross_maps(step):
    """Return [2, 3, 6] weights that move onto the known answer with the steps."""
    noise = np.random.default_rng(1).normal(size=(2, 3, 6))
    return softmax(0.5 * noise + step / 25 * (np.array(TRUTH) > 0))


def message(run, steps, total=200, **more):
    """Return a train message whose points and frames stand at the given steps."""
    meta = {"task": "addition", "total_steps": total, "probe": "12+34", "metric": "every digit right"}
    meta |= {"rows": TARGET, "cols": SOURCE, "truth": TRUTH, "heads": 2, "predictions_title": "one sum"}
    meta |= {"layers": [1], "kind": "cross", "purpose": "add two numbers", "kind_of_task": "sequence"}
    points = [{"step": s, "loss": 2 / (1 + s / 20), "validation": s / 200} for s in steps]
    maps = {s: boards.encode_maps(cross_maps(s)) for s in steps}
    frames = [{"step": s, "maps": [maps[s]], "predictions": predictions(s)} for s in steps]
    stand = {"run": run, "status": "running", "meta": meta, "film_every": 1}
    return {**stand, "points": points, "frames": frames, **more}


def predictions(step):
    """Return one sum that is wrong in its last digit until step 100."""
    right = step >= 100
    return [{"source": "12+34", "written": ["4", "6" if right else "5"], "wrong": [False, not right],
             "right": right, "answer": "46"}]  # fmt: skip


def try_value(words=("ASSIGN", "x", "7")):
    """Return an answer of three symbols with the distribution of each step."""
    wide = softmax(np.array([[3.0, 1.0, 0.0], [4.0, 0.0, 0.0], [1.0, 0.5, 0.0]]))
    log_p = np.log(wide).tolist()
    chosen_from = [{"names": [word, "5", "y"], "log_p": row} for word, row in zip(words, log_p, strict=True)]
    written = [{"token": word, "probability": row[0]} for word, row in zip(words, wide, strict=True)]
    tree = {"label": words[0], "sign": "=", "children": [{"label": words[1]}, {"label": words[2]}]}
    said = {"correct": False, "answer": "ASSIGN x 8", "wrong": [False, False, True], "text": " ".join(words)}
    how = {"strategy": "greedy", "temperature": 1.0}
    steps = {"steps": [0, 1, 2], "distributions": chosen_from, "how": how}
    return {"written": written, "tree": tree, **steps, **said}


FAILED = message("a", [0, 10], status="error", message="The loss became NaN at step 10.")
CASES = {
    "empty": (None, None, None),
    "run": (message("a", range(0, 101, 10)), try_value(), explore_value()),
    "untrained": (message("a", [0]), None, {**explore_value(), "untrained": True}),
    "failed": (FAILED, None, None),
}


@pytest.fixture
def visit(chromium):
    """Open a page with the boards in a case."""
    with contextlib.ExitStack() as stack:

        def open_page(case):
            page = stack.enter_context(open_board_page(chromium))
            for name, value in zip(("train", "try", "explore"), CASES[case], strict=True):
                mount(page, name, f"{name}_board", f"hf-{name}", value)
            return page

        yield open_page


def map_canvas(page, board):
    """Return the large map of a board."""
    return page.locator(f"#{board} canvas[role=img][tabindex='0'][aria-label*='queries by']")


def test_a_cell_has_the_colour_of_its_weight_and_a_theme_switch_draws_it_again(visit):
    page, weights = visit("run"), causal_maps(4)[1, 0]
    expect(map_canvas(page, "explore")).to_be_visible()
    for theme in ("light", "dark"):
        page.evaluate("theme => document.body.classList.toggle('dark', theme === 'dark')", theme)
        page.evaluate("() => new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))")
        assert np.allclose(
            colour_at(map_canvas(page, "explore"), (WORDS, WORDS), 3, 0),
            scale_colour(weights[3, 0], theme),
            atol=1.5,
        )


def test_hovering_names_the_two_tokens_and_the_weight_and_says_what_is_masked(visit):
    page, weights = visit("run"), causal_maps(4)[1, 0]
    canvas = map_canvas(page, "explore")
    canvas.hover(position=cell_point(canvas, (WORDS, WORDS), 3, 1))
    expect(page.locator(".hf-tip")).to_have_text(f"the␣river reads bankweight {weights[3, 1]:.3f}")
    canvas.hover(position=cell_point(canvas, (WORDS, WORDS), 1, 2))
    expect(page.locator(".hf-tip")).to_have_text("bank may not read bymasked")


def test_a_wide_first_or_last_label_reaches_out_and_thins_no_other(visit):
    page, narrow = visit("empty"), [*"x=(1+2)*3-y"]
    script = """labels => hfAttn.heatmapPaint.layout(document.createElement("canvas").getContext("2d"), 420,
        hfAttn.themeOf(document.body), {rows: labels, cols: labels, maxCell: 60})"""
    for labels in (narrow, [*narrow, "end"], ["start", *narrow, "end"], ["river", "bank", "tree"] * 6):
        plan = page.evaluate(script, labels)
        assert plan["width"] <= 420
        assert (plan["slanted"], plan["everyC"] > 1) == (labels[0] == "river",) * 2, labels


def test_where_labels_have_no_room_every_tenth_place_has_its_number_and_the_chosen_one_its_label(visit):
    page, labels = visit("empty"), [*"7+3" * 15, "end"]
    script = """([labels, names]) => {
        const ctx = document.createElement("canvas").getContext("2d"), told = [];
        const [theme, paint] = [hfAttn.themeOf(document.body), hfAttn.heatmapPaint];
        const values = labels.map(() => labels.map(() => 0));
        const o = {rows: labels, cols: labels, rowNames: names, colNames: names, values, most: 1, maxCell: 60,
            selected: {r: 3, c: 1}};
        ctx.fillText = text => told.push(text);
        paint.paint(ctx, theme, paint.layout(ctx, 260, theme, o), o, values, null);
        return told;
    }"""
    names = [f"{label} {96 + place}" for place, label in enumerate(labels)]
    for given, places in ((names, ["110", "120", "130", "140"]), (None, ["10", "20", "30", "40"])):
        told = page.evaluate(script, [labels, given])
        assert [text for text in told if text.isdecimal()] == [*places, "7", *places], "rows begin with the 7"
        assert told.count("+") == 1


def test_the_figures_of_a_row_are_its_entropy_and_its_weight_on_the_first_key(visit):
    page, row = visit("run"), causal_maps(4)[1, 0][2][:3]
    facts = page.locator("#explore .hf-facts tbody tr td:nth-child(2)").all_text_contents()
    assert facts == [f"{100 * row[0]:.1f}\u202f%", f"{-(row * np.log2(row)).sum():.2f}", f"{np.log2(3):.2f}"]


def test_packed_maps_are_read_to_a_part_in_65535(visit):
    page, maps = visit("empty"), causal_maps(5)
    sent = [boards.encode_maps(maps), list(maps.shape)]
    read = page.evaluate("([packed, shape]) => hfAttn.unpack(packed, shape)", sent)
    assert np.abs(np.array(read) - maps).max() <= 0.5 / 65535 + 1e-9


def test_one_cursor_moves_curves_map_and_predictions_and_follow_returns_to_the_run(visit):
    page = visit("run")
    train, when = page.locator("#train"), page.locator("#train .hf-when")
    expect(when).to_contain_text("step 100following the run")
    expect(train.locator(".hf-says .wrong")).to_have_count(0)
    train.get_by_label("Step of training shown").fill("40")
    expect(when).to_contain_text("step 40in the past")
    expect(train.locator(".hf-says .wrong")).to_have_text("5")
    expect(train.locator(".hf-says")).to_contain_text("wrong, is 46")
    expect(train.locator("output").nth(1)).to_have_text(f"{2 / 3:.3f}")
    expect(train.locator(".hf-film [aria-pressed=true]")).to_have_text("40")
    truth, weights = np.array(TRUTH), cross_maps(40).mean(axis=0)
    needed, directly = ((weights * rings).sum(axis=1).mean() for rings in (truth > 0, truth == 1))
    expect(train.locator("output").last).to_have_text(f"{needed:.2f} · {directly:.2f}")
    expect(train.locator(".hf-known .hf-keys")).to_contain_text("needed directly")
    train.get_by_role("button", name="Follow the run").click()
    expect(when).to_contain_text("step 100following the run")


def test_messages_are_merged_within_a_run_and_a_new_run_starts_afresh(visit):
    page = visit("run")

    def send(value):
        page.locator("#train").evaluate("(board, value) => board.send(value)", value)

    send(message("a", [120]))
    expect(page.locator("#train .hf-when")).to_contain_text("step 120")
    assert page.locator("button.train").evaluate("one => one.style.getPropertyValue('--hf-done')") == "60%"
    expect(page.locator("#train .hf-film button").first).to_have_text("0")
    page.locator("#train .hf-film button").nth(4).click()
    expect(page.locator("#train .hf-when")).to_contain_text("step 60in the past")
    send(message("b", [0]))
    expect(page.locator("#train .hf-when")).to_contain_text("step 0untrained")
    expect(page.locator("#train .hf-film button:not(.blank)")).to_have_count(1)


def test_untrained_and_failed_runs_and_the_empty_state_say_so_in_words(visit):
    untrained = "Untrained weights: this map means nothing yet."
    page = visit("untrained")
    expect(page.locator("#train .hf-headline")).to_contain_text(
        "This model should add two numbers. Untrained, 0"
    )
    expect(page.locator("#train .hf-looks")).to_contain_text("untrained")
    expect(page.locator("#explore .hf-notice")).to_have_text(untrained)
    expect(visit("failed").locator("#train [role=alert]")).to_contain_text("The loss became NaN at step 10.")
    page = visit("empty")
    expect(page.locator("#train .hf-stats dd").first).to_have_text("–")
    expect(page.locator("#train .hf-film .blank")).to_have_count(9)
    expect(page.locator("#explore")).to_contain_text("the map of one head will be drawn here")


def test_a_click_on_a_written_symbol_shows_that_steps_distribution(visit):
    page = visit("run")
    steps = page.locator("#try .hf-steps button")
    expect(steps.nth(2)).to_have_attribute("aria-pressed", "true")  # begins where it went wrong
    expect(page.locator("#try .hf-verdict")).to_have_text("wrong, is ASSIGN x 8")
    steps.nth(1).click()
    expect(page.locator("#try h2").nth(1)).to_contain_text("Step 2: what could come next after ASSIGN")
    p = softmax(np.array([4.0, 0.0, 0.0]))[0]
    expect(page.locator("#try .hf-dist .line").nth(1)).to_contain_text(f"x{p:.3f}{p:.3f}1.000")
    expect(page.locator("#try .hf-dist .cut")).to_have_text("greedy takes the likeliest of 3 symbols")
