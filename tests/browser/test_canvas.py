"""The app's boards in a real browser, each by itself on a page without a server."""

import numpy as np
import pytest
from playwright.sync_api import expect

from demos.ui import boards
from tests.support.board_page import cell_point, colour_at, mount, open_board_page, scale_colour

WORDS = ["the", "bank", "by", "the river"]


@pytest.fixture
def page(chromium):
    with open_board_page(chromium) as page:
        yield page


def softmax(scores):
    """Return each row's weights; −inf is masked."""
    weights = np.exp(scores - scores.max(axis=-1, keepdims=True))
    return weights / weights.sum(axis=-1, keepdims=True)


def causal_maps(n, layers=2, heads=2):
    """Return weights [layers, heads, n, n] of random scores under a causal mask."""
    scores = np.random.default_rng(0).normal(size=(layers, heads, n, n))
    return softmax(np.where(np.tri(n, dtype=bool), 2 * scores, -np.inf))


def draw_map(page):
    """Draw a decoder of two layers and two heads with the chosen cell "by reads bank"; return its map."""
    maps = causal_maps(4)
    shown = {"maps": boards.encode_maps(maps), "shape": list(maps.shape), "rows": WORDS, "cols": WORDS}
    kinds = {"decoder": shown | {"allowed": np.tri(4, dtype=bool).tolist()}}
    value = {"kinds": kinds, "kind": "decoder", "layer": 1, "head": 0, "query": 2, "key": 1}
    board = mount(page, "explore", "explore_board", "hf-explore", value)
    return board.locator("canvas[role=img][tabindex='0'][aria-label*='queries by']")


def test_a_cell_has_the_colour_of_its_weight_and_a_theme_switch_draws_it_again(page):
    canvas, weights = draw_map(page), causal_maps(4)[1, 0]
    expect(canvas).to_be_visible()
    for theme in ("light", "dark"):
        page.evaluate("theme => document.body.classList.toggle('dark', theme === 'dark')", theme)
        page.evaluate("() => new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))")
        colour = colour_at(canvas, (WORDS, WORDS), 3, 0)
        assert np.allclose(colour, scale_colour(weights[3, 0], theme), atol=1.5)


def test_hovering_names_the_two_tokens_and_the_weight_and_says_what_is_masked(page):
    canvas, weights = draw_map(page), causal_maps(4)[1, 0]
    canvas.hover(position=cell_point(canvas, (WORDS, WORDS), 3, 1))
    expect(page.locator(".hf-tip")).to_have_text(f"the␣river reads bankweight {weights[3, 1]:.3f}")
    canvas.hover(position=cell_point(canvas, (WORDS, WORDS), 1, 2))
    expect(page.locator(".hf-tip")).to_have_text("bank may not read bymasked")


def test_a_wide_first_or_last_label_reaches_out_and_thins_no_other(page):
    narrow = [*"x=(1+2)*3-y"]
    script = """labels => hfAttn.heatmapPaint.layout(document.createElement("canvas").getContext("2d"), 420,
        hfAttn.themeOf(document.body), {rows: labels, cols: labels, maxCell: 60})"""
    for labels in (narrow, [*narrow, "end"], ["start", *narrow, "end"], ["river", "bank", "tree"] * 6):
        plan = page.evaluate(script, labels)
        assert plan["width"] <= 420
        assert (plan["slanted"], plan["everyC"] > 1) == (labels[0] == "river",) * 2, labels


def test_where_labels_have_no_room_every_tenth_place_has_its_number_and_the_chosen_one_its_label(page):
    labels = [*"7+3" * 15, "end"]
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


def test_the_figures_of_a_row_are_its_entropy_and_its_weight_on_the_first_key(page):
    row = causal_maps(4)[1, 0][2][:3]
    draw_map(page)
    facts = page.locator("#explore .hf-facts tbody tr td:nth-child(2)").all_text_contents()
    assert facts == [f"{100 * row[0]:.1f}\u202f%", f"{-(row * np.log2(row)).sum():.2f}", f"{np.log2(3):.2f}"]


def test_packed_maps_are_read_to_a_part_in_65535(page):
    maps = causal_maps(5)
    sent = [boards.encode_maps(maps), list(maps.shape)]
    read = page.evaluate("([packed, shape]) => hfAttn.unpack(packed, shape)", sent)
    assert np.abs(np.array(read) - maps).max() <= 0.5 / 65535 + 1e-9


def run_message(run, steps):
    """Return a training message whose points and frames stand at the given steps."""
    meta = {"task": "addition", "total_steps": 200, "probe": "1", "rows": ["1"], "cols": ["1"], "heads": 1}
    meta |= {"layers": [1], "kind": "cross", "purpose": "add", "kind_of_task": "sequence", "truth": [[1]]}
    maps = [boards.encode_maps(np.ones((1, 1, 1)))]
    points = [{"step": step, "loss": 1.0, "validation": 0.5} for step in steps]
    frames = [{"step": step, "maps": maps} for step in steps]
    return {
        "run": run,
        "status": "running",
        "meta": meta,
        "film_every": 1,
        "points": points,
        "frames": frames,
    }


def test_messages_are_merged_within_a_run_and_a_new_run_starts_afresh(page):
    board = mount(page, "train", "train_board", "hf-train", run_message("a", range(0, 101, 10)))
    film, when = board.locator(".hf-film button"), board.locator(".hf-when")

    def send(value):
        board.evaluate("(board, value) => board.send(value)", value)

    send(run_message("a", [120]))
    expect(when).to_contain_text("step 120")
    assert page.locator("button.train").evaluate("one => one.style.getPropertyValue('--hf-done')") == "60%"
    expect(film.first).to_have_text("0")
    film.nth(4).click()
    expect(when).to_contain_text("step 60in the past")
    send(run_message("b", [0]))
    expect(when).to_contain_text("step 0untrained")
    expect(board.locator(".hf-film button:not(.blank)")).to_have_count(1)


def test_a_value_that_comes_behind_a_later_one_of_the_same_visit_is_not_shown(page):
    shown = page.evaluate("""() => {
      const shown = [];
      hfAttn.any_board = () => ({ update: value => shown.push(value && value.says) });
      const props = { value: "null" };
      let take;
      const given = { id: "any", element: document.querySelector("main"), props, trigger: () => {} };
      hfAttn.mount("any_board", { ...given, watch: (_, changed) => { take = changed; } });
      const send = value => {
        props.value = JSON.stringify(value);
        take();
      };
      send({ turn: ["a", 1], says: "first" });
      send({ turn: ["a", 3], says: "third" });
      send({ turn: ["a", 2], says: "late" });
      send({ turn: ["b", 0], says: "another visit" });
      send({ says: "of a board without turns" });
      send(null);
      return shown;
    }""")
    assert shown == [None, "first", "third", "another visit", "of a board without turns", None]


COPIED = """goes => {
  Object.defineProperty(navigator, "clipboard", { value: undefined }); // as over plain http
  window.copied = [];
  addEventListener("copy", () => copied.push(String(getSelection())));
  if (!goes) document.execCommand = () => false;
}"""


@pytest.mark.parametrize("goes", [True, False])
def test_a_text_is_copied_over_plain_http_or_left_selected(page, goes):
    page.evaluate(COPIED, goes)
    failed = {**run_message("a", []), "status": "error", "message": "It went wrong."}
    board = mount(page, "train_board", "train_board", "hf-train", failed)
    board.locator(".hf-error button").click()
    expect(board.get_by_text("Copied" if goes else "Press Ctrl+C", exact=True)).to_be_visible()
    assert page.evaluate("copied") == ["It went wrong."] * goes
    assert page.evaluate("String(getSelection())") == ("" if goes else "It went wrong.")
