"""The app's boards in a browser, each by itself on a page without a server: what they draw of a value."""

import pytest
from playwright.sync_api import expect

from demos.ui import boards
from tests.support.board_page import mount, open_board_page
from tests.support.browser import choose_save

TRUTH = [[1, 0], [0, 1]]
MAPS = {"rows": ["a", "b"], "cols": ["a", "b"], "heads": 1, "truth": TRUTH}
PACKED = boards.encode_maps([[[0.9, 0.1], [0.2, 0.8]]])


@pytest.fixture
def page(chromium):
    with open_board_page(chromium) as page:
        yield page


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


def hide_answers(page, on):
    page.evaluate("on => hfAttn.hideAnswers(on)", on)


# ---------------------------------------------------------------- a link that hides the answers


def contestant(right):
    """A model of a duel that has written its answer."""
    written = {"written": ["a", "c"], "wrong": [False, not right], "right": right}
    seen = {**MAPS, "maps": PACKED, "source": 2, "step": 10, "layer": ""}
    figures = {"parameters": 1, "step": 10, "seconds": 1.0, "spent": 0.5, "validation": 0.5}
    name = f"right is {right}"
    figures["held_out"] = {"share": 0.5, "interval": [0.1, 0.9], "examples": 2}
    drawn = {"points": [], "sizes": [], "written": written, "map": seen}
    return {"name": name, "model": "dot", **figures, **drawn}


def duel_of(contestants, **more):
    """A duel that is over."""
    said = {"probe": "a c", "answer": "a c", "status": "finished", "done": 1, "metric": "", "task": "copy"}
    return {"duel": 1, "budget": {"steps": 10}, **said, "contestants": contestants, **more}


def test_a_duel_whose_answers_are_hidden_says_what_was_written_and_not_that_it_is_wrong(page):
    board = mount(page, "duel_board", "duel_board", "hf-duel", duel_of([contestant(True), contestant(False)]))
    lines, heading = board.locator(".hf-writes-line"), board.locator(".hf-maps-panel h2")
    expect(heading).to_contain_text("example: a c → a c")
    expect(lines).to_contain_text(["writes, right:", "writes, wrong:"])
    hide_answers(page, True)
    expect(lines).to_have_text(["writes:ac", "writes:ac"])
    expect(lines.locator(".no, .wrong")).to_have_count(0)
    assert heading.inner_text().endswith("example: a c")
    hide_answers(page, False)
    expect(lines).to_contain_text(["writes, right:", "writes, wrong:"])


@pytest.mark.parametrize(("columns", "rows"), [(2, 1), (20, 2)])
def test_three_maps_of_a_duel_stand_in_one_row_unless_they_are_wide(page, columns, rows):
    page.evaluate("document.querySelector('main').style.width = '928px'")  # the board's, on a page of 1280
    labels = [f"{i}" for i in range(columns)]
    wide = {"rows": labels, "cols": labels, "truth": None, "source": columns}
    wide |= {"maps": boards.encode_maps([[[1 / columns] * columns] * columns])}
    three = [one | {"map": one["map"] | wide} for one in [contestant(True)] * 3]
    board = mount(page, "duel_board", "duel_board", "hf-duel", duel_of(three))
    tops = [cell.bounding_box()["y"] for cell in board.locator(".hf-map-cell").all()]
    assert len(set(tops)) == rows


def test_runs_that_are_laid_over_show_no_rings_while_answers_are_hidden(page):
    page.evaluate("""() => {
      const { arc } = CanvasRenderingContext2D.prototype; // only a ring is round
      CanvasRenderingContext2D.prototype.arc = function (...round) {
        window.ringed.add(this.canvas.getAttribute("aria-label"));
        arc.apply(this, round);
      };
      window.ringed = new Set();
    }""")
    frame = {"step": 5, "maps": [PACKED]}
    messages = [{"run": run, "meta": MAPS | {"layers": [1]}, "points": [], "frames": [frame]} for run in "ab"]
    mount(page, "train_board", "train_board", "hf-train", messages[0])
    compared = mount(page, "compare_board", "compare_board", "hf-compare", {"runs": messages[1:]})
    page.evaluate("""() => {
      const [current, other] = ["a", "b"].map(id => ({ id, name: id, settings: [], results: [] }));
      const detail = { current, others: [{ ...other, colour: "series-2", dash: 1 }] };
      document.dispatchEvent(new CustomEvent("hf-overlays", { detail }));
    }""")
    expect(compared.locator("canvas[aria-label*='queries by']")).to_have_count(2)
    maps = [canvas.get_attribute("aria-label") for canvas in compared.locator("canvas").all()]
    for hidden in (True, False):
        page.evaluate("window.ringed.clear()")
        hide_answers(page, hidden)
        page.evaluate("() => new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))")
        ringed = page.evaluate("[...window.ringed]")
        assert (set(maps) & set(ringed) == set()) == hidden


# ---------------------------------------------------------------- numbers below and above zero


def test_a_word_has_the_signed_colour_of_what_the_class_loses_without_it(page):
    drops = [0.2, 0.0, -0.1]
    words = [{"word": f"w{i}", "drop": drop, "left": 0.6 - drop} for i, drop in enumerate(drops)]
    page.evaluate(
        "removal => hfAttn.removalPanel(document.querySelector('main')).update({ removal })",
        {"class": "like", "before": 0.6, "words": words},
    )
    colours = """drops => {
      const theme = hfAttn.themeOf(document.body);
      return drops.map(drop => hfAttn.css(hfAttn.signedColour(theme, drop, 0.2)).replaceAll(",", ", "));
    }"""
    seen = page.locator(".hf-words > span").evaluate_all("all => all.map(one => one.style.background)")
    assert seen == page.evaluate(colours, drops)
    assert len(set(seen)) == 3
    page.get_by_role("button", name="Show as table").click()
    region = page.get_by_role(
        "region", name="What like loses without each word, as a table that scrolls sideways"
    )
    rows = region.locator("tbody tr").all_text_contents()
    assert rows == ["w00.400−0.200like", "w10.6000.000like", "w20.700+0.100like"]


# ---------------------------------------------------------------- the clipboard

FAILED = {
    "run": "a",
    "meta": MAPS,
    "points": [],
    "frames": [],
    "status": "error",
    "message": "It went wrong.",
}
PUSHED = {
    "steps": [],
    "status": "done",
    "message": "",
    "code": [{"title": "Lines", "text": "import hf_attn"}],
}
COPIED = """goes => {
  Object.defineProperty(navigator, "clipboard", { value: undefined }); // as over plain http
  window.copied = [];
  addEventListener("copy", () => copied.push(String(getSelection())));
  if (!goes) document.execCommand = () => false;
}"""


@pytest.mark.parametrize(
    ("name", "css", "value", "press", "text"),
    [
        ("train_board", "hf-train", FAILED, ".hf-error button", FAILED["message"]),
        ("share_board", "hf-share", PUSHED, ".hf-lines button", "import hf_attn"),
        (
            "duel_board",
            "hf-duel",
            duel_of([contestant(True)], python="import torch"),
            None,  # in the Save menu
            "import torch",
        ),
    ],
)
@pytest.mark.parametrize("goes", [True, False])
def test_a_text_is_copied_over_plain_http_or_left_selected(page, name, css, value, press, text, goes):
    page.evaluate(COPIED, goes)
    board = mount(page, name, name, css, value)
    if press:
        board.locator(press).first.click()
    else:
        choose_save(board, "Python")
    expect(board.get_by_text("Copied" if goes else "Press Ctrl+C", exact=True)).to_be_visible()
    assert page.evaluate("copied") == [text] * goes
    assert page.evaluate("String(getSelection())") == ("" if goes else text)
