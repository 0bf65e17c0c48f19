"""The checkpoints in model_cards: their cards say what is so, and they answer without hf_attn installed."""

import json
import re
from pathlib import Path

import pytest
from huggingface_hub import ModelCard
from scipy.stats import fisher_exact

from hf_attn.checkpoints.model_card import build_card
from hf_attn.checkpoints.remeasure import build_collection
from hf_attn.checkpoints.save_load import list_checkpoints, load_checkpoint
from hf_attn.evaluation.metrics import evaluate, predict
from hf_attn.tasks import build_task
from hf_attn.viz.example_map import find_worked_map
from tests.support.interpreters import run_without_hf_attn
from tests.support.matrix import rows

CARDS = Path(__file__).parents[2] / "model_cards"
NAMES = [path.name for path in list_checkpoints(CARDS)]
RECORDS = {name: json.loads((CARDS / name / "training.json").read_text()) for name in NAMES}
QUICK, OTHER_SEED = 200, 1
UNLIKELY = 0.01  # p below which two figures are not of the same model; examples are the same in every run
FAR_OFF = 0.15  # a figure that is so far off is noticed with QUICK examples

every_checkpoint = pytest.mark.parametrize("name", rows(NAMES, ["attn-copy"]))
# of text nothing is searched: many words are right
SEARCHED = [name for name in NAMES if RECORDS[name]["task"]["name"] != "sentences"]
every_searched = pytest.mark.parametrize("name", rows(SEARCHED, ["attn-copy", "lstm-reverse"]))


@pytest.fixture(scope="module")
def loaded():
    return {name: load_checkpoint(CARDS / name) for name in NAMES}


def agree(share: float, n: int, other_share: float, other_n: int) -> bool:
    """Whether two shares may be of the same model (Fisher's exact test, 1922)."""
    counts = [[round(p * size), size - round(p * size)] for p, size in ((share, n), (other_share, other_n))]
    return fisher_exact(counts).pvalue >= UNLIKELY


@every_checkpoint
def test_the_stored_figure_agrees_with_a_fresh_evaluation_and_one_far_off_would_not(name, loaded):
    """On other held-out examples than those of the stored figures."""
    stored, checkpoint = RECORDS[name]["results"], loaded[name]
    measured = evaluate(checkpoint.model, checkpoint.task, n=QUICK, seed=OTHER_SEED).overall
    assert measured.examples >= QUICK  # of text, the words that count in so many passages
    for off in (0, -FAR_OFF, FAR_OFF):
        if (share := stored["exact_match"] + off) <= 1:
            found = agree(share, stored["examples"], measured.exact_match, measured.examples)
            assert found == (off == 0), share


def test_every_card_is_what_its_record_says_with_a_whole_search_and_figures_that_the_hub_s_parser_reads(
    loaded,
):
    for name in NAMES:
        record, card = RECORDS[name], (CARDS / name / "README.md").read_text()
        assert build_card(name, loaded[name].task, record) == card, "run `make cards`"
        results, search = record["results"], record["search"]
        if search:
            tried = search["held_out"]["examples"]
            assert tried == sum(score["examples"] for score in search["by_size"].values())
            assert tried >= min(results["examples"], 800)
            assert set(results["by_size"]) <= set(search["by_size"])
            assert search["patterns"]
        best = max([results, *([search["held_out"]] if search else [])], key=lambda score: score["examples"])
        data = ModelCard(card).data
        exact = next(result for result in data.eval_results if result.metric_type == "exact_match")
        assert (data.model_name, exact.metric_args["examples"]) == (name, best["examples"])
        found = [exact.metric_value, exact.metric_args["low"], exact.metric_args["high"]]
        assert found == pytest.approx([best["exact_match"], *best["interval"]], abs=1e-6)


@every_searched
def test_the_failures_that_a_card_shows_still_happen(name, loaded):
    model, task, search = loaded[name].model, loaded[name].task, RECORDS[name]["search"]
    failed = [*search["failures"], *(f for tried in search["patterns"].values() for f in tried["failures"])]
    if not failed:
        assert all(tried["exact_match"] == 1 for tried in search["patterns"].values())
        return
    sources, answers = [row["source"] for row in failed], [row["answer"] for row in failed]
    written = [task.decode(ids) for ids in predict(model, task, task.batch_of(sources, answers)).tolist()]
    assert written == [row["prediction"] for row in failed]


def test_the_collection_page_lists_every_checkpoint_as_measured():
    page = (CARDS / "README.md").read_text()
    assert page == build_collection(CARDS, RECORDS), "run `make cards`"
    assert all(f"[`{name}`]({name})" in page for name in NAMES)
    for path in re.findall(r'src="([^"]+)"', page):
        assert (CARDS / path).is_file()


@every_checkpoint
def test_the_map_of_a_card_is_there_and_shows_the_head_that_it_names(name, loaded):
    worked_map = find_worked_map(loaded[name].model, loaded[name].task)
    stored, picture = RECORDS[name]["map"], CARDS / name / "map.png"
    if stored is None:
        assert worked_map is None
        assert not picture.exists()
        return
    found = worked_map.describe()
    assert found == {key: pytest.approx(value, abs=1e-3) for key, value in stored.items()}
    assert found["weight"] > 1.5 * max(found["even"], found["untrained"]), "it was learned"
    assert picture.read_bytes().startswith(b"\x89PNG")
    assert "](map.png)" in (CARDS / name / "README.md").read_text()


SNIPPETS = """
import contextlib, io
found = {}
for name, snippet in given["snippets"].items():
    names = {}
    with contextlib.redirect_stdout(io.StringIO()) as output:
        exec(compile(snippet, name, "exec"), names)
    found[name] = {"answer": output.getvalue().strip(), "module": type(names["model"]).__module__}
print(json.dumps(found))
"""


def test_each_card_s_snippet_answers_the_worked_example_where_hf_attn_is_not_installed(tmp_path):
    cards = {name: (CARDS / name / "README.md").read_text() for name in NAMES}
    snippets = {name: re.search(r"```python\n(.*?)```", card, re.DOTALL)[1] for name, card in cards.items()}
    for name, snippet in snippets.items():
        assert f'checkpoint = "{name}"' in snippet, "run in model_cards, the repository's id is its folder"
    long = snippets["attn-addition-long"].replace("391+153", "7" * 90 + "+" + "8" * 90)
    found = run_without_hf_attn(SNIPPETS, tmp_path, cwd=CARDS, snippets={**snippets, "long": long})
    assert found["long"]["answer"] == str(int("7" * 90) + int("8" * 90)), "it learned at most 10 digits"
    example = build_task("sentences").worked_example  # a model of text repeats how it begins
    decided = f"{example.source} {example.target.split()[0]} "
    for name in NAMES:
        answer = found[name]["answer"]
        if name in SEARCHED:
            assert answer == RECORDS[name]["worked_example"]["prediction"]
        else:
            assert answer.startswith(decided)
        assert found[name]["module"].startswith("transformers_modules.")
