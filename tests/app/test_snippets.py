"""What "Copy as Python" gives runs as pasted, and gives what the board shows."""

import base64
import contextlib
import dataclasses
import io
import json
from types import SimpleNamespace

import numpy as np
import pytest

from demos.session.catalog import ModelCatalog, build_catalog
from demos.session.session import Session
from demos.snippets import views as python_lines
from demos.tabs.duel import tab as duel
from demos.tabs.duel.job import DuelJob
from demos.tabs.explore import ablation_panel, count_job
from demos.tabs.explore import tab as explore
from demos.tabs.explore.head_scores import ExploreState
from demos.tabs.language import ngrams as language_ngrams
from demos.tabs.language import tokens as language_tokens
from demos.tabs.language import word_order
from demos.tabs.language import word_vectors as word_vectors_tab
from demos.tabs.positions import tab as positions
from demos.tabs.positions.length_test import LengthTestJob
from demos.tabs.train import form
from demos.tabs.try_it import tab as trying
from hf_attn.analysis.ablation import Trial
from hf_attn.analysis.position_encodings import PositionSettings
from hf_attn.checkpoints.save_load import BUNDLED
from hf_attn.experiments.length_generalization import LengthTest
from hf_attn.experiments.word_order import WordOrderSizes
from hf_attn.experiments.words import word_vectors
from hf_attn.experiments.words.word_vectors import choose_word_vector_settings
from hf_attn.generation.strategies import list_parameters
from hf_attn.interpret.attention_maps import attention_maps
from hf_attn.interpret.interventions import Intervention
from hf_attn.tasks import Recipe, build_task
from hf_attn.training.duel import Budget
from tests.support.native_models import build_native
from tests.support.public_face import find_private_imports
from tests.support.sessions import ask_model, board_of, changed, finished, follow_job

CATALOG = build_catalog()
ADDITION, TOPICS = str(BUNDLED / "attn-addition"), str(BUNDLED / "attn-docstring-topics")


@pytest.fixture(autouse=True)
def in_the_root(monkeypatch):
    """Lines are pasted in the repository's root."""
    monkeypatch.chdir(BUNDLED.parent)


def run_lines(value):
    """What the lines leave behind, and what they print."""
    assert find_private_imports(value["python"]) == []
    scope, said = {}, io.StringIO()
    with contextlib.redirect_stdout(said):
        exec(value["python"], scope)
    assert said.getvalue().strip()
    return SimpleNamespace(**{name: kept for name, kept in scope.items() if name != "__builtins__"})


def unpacked(packed, shape):
    """Weights as a board has them."""
    return np.frombuffer(base64.b64decode(packed), "<u2").reshape(shape) / 65535


def explored(chosen, text, session=None, target=""):
    """The lens's value, and the session that shows it."""
    session = session or Session()
    session.catalog = CATALOG
    updates = explore.show_input(session, {"checkpoint": chosen, "text": text, "target": target})
    return json.loads(updates["board"]), session


def panels(session):
    """What the panels below the lens show."""
    return json.loads(session.state(ExploreState).to_value())


def tried(chosen, text, **settings):
    """What Try shows."""
    rows = list_parameters()
    named = {rows[name].short if name in rows else name: value for name, value in settings.items()}
    return json.loads(trying.write(Session(CATALOG), {"checkpoint": chosen, "text": text, **named})["board"])


# ---------------------------------------------------------------- a checkpoint


@pytest.mark.parametrize(
    ("chosen", "text", "target"),
    [
        (ADDITION, "153+391", "540"),
        (TOPICS, "open a 'socket' and \"read\"", ""),
        (str(BUNDLED / "bahdanau-reverse"), "7 2 5", ""),
    ],
)
def test_explore_s_lines_give_the_map_that_is_shown(chosen, text, target):
    value, _ = explored(chosen, text, target=target)
    left = run_lines(value)
    kind = value["kinds"][value["kind"]]
    shown = unpacked(kind["maps"], kind["shape"])[value["layer"], value.get("head", 0)]
    assert (left.kind, left.layer, left.head) == (value["kind"], value["layer"], value.get("head", 0))
    assert np.abs(left.weights.numpy() - shown).max() < 1e-4


def test_the_question_s_lines_give_the_changed_answer_and_the_held_out_accuracy():
    _, session = explored(ADDITION, "153+391")
    *_, last = ask_model(session, ablation_panel.AblationQuestion("head", layer=1, head=1))
    value = json.loads(last["checks"])
    left = run_lines(value)
    answer = value["answer"]
    assert left.left.exact_match == answer["held_out"]["left"]
    assert left.whole.exact_match == answer["held_out"]["whole"]
    assert list(left.change.total_variation) == [moved for _, moved, _ in answer["moved"]]


def same_figures(figures, shown):
    """Whether tensors [L, H] are the lists of a board, which has null for NaN."""
    return {
        kind: {
            name: [[None if x != x else x for x in row] for row in each.tolist()] for name, each in of.items()
        }
        for kind, of in figures.items()
    } == shown


def test_the_lines_of_roles_on_held_out_examples_give_trained_and_untrained_figures(learned, monkeypatch):
    monkeypatch.setattr(ablation_panel, "ROLE_EXAMPLES", 5)
    session, _ = learned
    explored(next(iter(session.runs)), "7 2 5", session)
    *_, last = ablation_panel.compare_roles(session)
    compared = json.loads(last["checks"])["compared"]
    left = run_lines(compared)
    assert same_figures(left.roles.trained, compared["trained"])
    assert same_figures(left.roles.untrained, compared["untrained"])


def test_the_lines_without_each_head_give_what_is_left(learned):
    session, _ = learned
    explored(next(iter(session.runs)), "7 2 5", session)
    count_job.press_count(session)
    *_, last = follow_job(session, count_job.CountJob, count_job.show_checks)
    each = json.loads(last["checks"])["each"]
    left = run_lines(each)
    assert left.whole.exact_match == each["whole"]
    assert [(one.exact_match, one.drop) for one in left.outcomes] == [
        (row["left"], row["drop"]) for row in each["rows"]
    ]


def test_the_lines_of_theory_views_give_the_head_s_figures_and_bars():
    measured = panels(explored(ADDITION, "153+391")[1])["measured"]
    chosen = measured["theory"].replace('"cross", 0, 0', '"decoder", 1, 2')
    left = run_lines({"python": chosen})
    figures = {name: rows[1][2] for name, rows in measured["trained"]["decoder"].items()}
    assert {name: figure.item() for name, figure in left.views.items()} == pytest.approx(
        {name: figures[name] for name in left.views}
    )
    assert left.sigma.tolist() == pytest.approx(measured["spectrum"]["decoder"][1][2])
    assert left.offsets.tolist() == measured["offsets"]["decoder"]
    assert left.profile.nan_to_num(-1).tolist() == pytest.approx(
        [-1 if x is None else x for x in measured["profile"]["decoder"][1][2]]
    )


def test_the_lines_of_a_cell_give_its_query_key_value_and_weight():
    value, session = explored(ADDITION, "153+391")
    cell = {"kind": "cross", "layer": 1, "head": 2, "query": 0, "key": 4}
    told = json.loads(explore.unfold_cell(session, SimpleNamespace(id=value["id"], **cell))["board"])["cell"]
    left = run_lines(told)
    assert list(left.cell.query) == pytest.approx(told["q"])
    assert list(left.cell.key) == pytest.approx(told["k"])
    assert list(left.cell.chosen.value) == pytest.approx(told["v"])
    assert left.cell.chosen.weight == pytest.approx(told["weight"])


@pytest.mark.parametrize(
    ("chosen", "text", "settings"),
    [
        (ADDITION, "153+391", {}),
        (ADDITION, "153+391", {"strategy": "beam", "num_beams": 3}),
        (ADDITION, "153+391", {"strategy": "nucleus", "top_p": 0.8, "temperature": 1.3, "seed": 7}),
        (TOPICS, "open a 'socket' and \"read\"", {}),
    ],
)
def test_try_s_lines_write_the_answer_that_is_shown(chosen, text, settings):
    value = tried(chosen, text, **settings)
    left = run_lines(value)
    assert left.answer.score == pytest.approx(value["log_probability"], abs=1e-5)


# ---------------------------------------------------------------- what is trained


@pytest.fixture(scope="module")
def learned():
    """A short run, and everything its page was sent."""
    return finished(steps="4", hidden_size=16)


def test_train_s_lines_give_the_run_and_its_probe_s_map_again(learned):
    session, said = learned
    value = board_of(said[-1])
    left = run_lines(value)
    frame, meta = value["frames"][-1], value["meta"]
    shape = (meta["heads"], len(meta["rows"]), len(meta["cols"]))
    shown = np.stack([unpacked(layer, shape) for layer in frame["maps"]])
    assert left.report.step == 4
    assert np.abs(left.found.weights.numpy() - shown).max() < 1e-4
    assert session.run.points[-1][1]["loss"] == pytest.approx(left.report.loss, abs=1e-5)


def test_the_lines_of_compared_runs_train_each_of_them_again():
    session, _ = finished(steps="2", hidden_size=16)
    session.add(*form.read_form(changed(steps="3", hidden_size=16, seed="1")))
    for _ in session.run.follow():
        pass
    left = run_lines({"python": python_lines.comparison_snippet(list(session.runs.values()))})
    for run in session.runs.values():
        report, maps = left.reports[run.name], attention_maps(run.model, run.probe.batch).answering
        assert (report.step, report.loss) == (run.step, pytest.approx(run.points[-1][1]["loss"], abs=1e-5))
        assert np.abs(left.maps[run.name].weights.numpy() - maps.weights.numpy()).max() < 1e-5


def test_duel_s_lines_give_the_figures_of_the_standings():
    session = Session(device="cpu")
    rivals = {"task": "Reversal", "size": 5, "models": ["none", "transformer"], "parameters": "50 k"}
    duel.press_start(session, {**rivals, "budget": "steps", "steps": "3", "seconds": "", "seed": "0"})
    *_, last = follow_job(session, DuelJob, duel.show_duel)
    value = json.loads(last["board"])
    left = run_lines(value)
    assert left.scores == {one["model"]: one["held_out"]["share"] for one in value["contestants"]}


# ---------------------------------------------------------------- beside the map, positions and language


def test_positions_lines_give_the_pictures_and_the_order_test():
    values = {"type": "rotary", "length": "12", "width": "16", "trained": "50", "heads": "2"}
    values |= {"theta": "10000", "clip": "8", "seed": "0", "sentence": "the cat sat"}
    value = json.loads(positions.show_view(Session(), values)["board"])
    left = run_lines(value)
    shown = np.array(value["pictures"][0]["values"])
    assert np.allclose(left.pictures[0].values.numpy(), shown, rtol=1e-4, atol=1e-5)
    assert left.order.shift == value["order"]["shift"]


def test_the_lines_of_what_was_trained_beyond_its_length_give_its_figures():
    session = Session(device="cpu")
    job = session.state(LengthTestJob)
    job.configure({}, LengthTest("copy", 3, (2, 4), steps=4), ("sinusoidal",), 0, "cpu")
    *_, last = follow_job(session, LengthTestJob, positions.show_test)
    value = json.loads(last["curves"])
    scores = run_lines(value).scores["sinusoidal"]
    shown = {one["size"]: one["right"] for one in value["encodings"][0]["scores"]}
    assert {size: score.exact_match for size, score in scores.items()} == shown


def test_the_lines_of_language_give_its_numbers():
    tokens = language_tokens.cut('it\'s "low", lower, lowest\\n')
    assert [len(step.vocabulary) for step in run_lines(tokens).steps] == [
        one["size"] for one in tokens["steps"]
    ]
    sentences = dict(zip(("first", "second"), word_order.FIRST, strict=True))
    order = json.loads(word_order.compare(Session(), sentences)["bags"])
    assert [row.distance for row in run_lines(order).found.rows] == [row["distance"] for row in order["rows"]]
    session, source = Session(), language_ngrams.OWN
    given = {"source": source, "counted": language_ngrams.FIRST, "prompt": language_ngrams.PROMPTS[source]}
    language_ngrams.press_count(session, given)
    *_, last = follow_job(session, language_ngrams.CountingJob, language_ngrams.show_job)
    grams = json.loads(last["board"])
    shown = [table["perplexity"] for table in grams["tables"]]
    assert [table.perplexity for table in run_lines(grams).tables] == shown


def test_the_lines_of_word_vectors_give_the_same_neighbours(monkeypatch):
    def choose_short(sentences, kind):
        return dataclasses.replace(choose_word_vector_settings(sentences, kind), steps=40)

    monkeypatch.setattr(word_vectors, "choose_word_vector_settings", choose_short)
    monkeypatch.setattr(word_vectors_tab, "choose_word_vector_settings", choose_short)
    session, words = Session(), ("cat", "cat", "dog", "mat")
    text = (
        "the cat's on the mat. the dog is on the mat. a cat and a dog run. the mat is old. a dog's old. " * 4
    )
    given = (word_vectors_tab.OWN, word_vectors.KINDS[0], text, *words)
    word_vectors_tab.press_train(session, dict(zip(word_vectors_tab.KEPT, given, strict=True)))
    *_, last = follow_job(session, word_vectors_tab.WordVectorsJob, word_vectors_tab.show_followed)
    value = json.loads(last["board"])
    found = run_lines(value).vectors.neighbours(value["near"]["word"], 8)
    assert [near.word for near in found] == [near["word"] for near in value["near"]["found"]]


# ---------------------------------------------------------------- how they are written


def write_all(session, external):
    """Every function's lines for real inputs, by its name; `external` is a model's folder."""
    run, budget, words = session.run, Budget(steps=3), ("cat", "cat", "dog", "mat")
    asked = Trial((Intervention("uniform", "cross"),))
    with CATALOG.open(session, ADDITION) as opened:
        source, text = opened.encode("153+391"), "153+391"
        looked = explore.compute_maps(opened, text, "")
        written = looked.written
        yield "trial_snippet", python_lines.trial_snippet(opened, source, written, asked, 5)
        yield "expected_snippet", python_lines.expected_snippet(opened, source, written)
        yield "lens_snippet", python_lines.lens_snippet(opened, source, written)
        yield "patching_snippet", python_lines.patching_snippet(opened, source, source, written, -1)
        yield "each_head_snippet", python_lines.each_head_snippet(opened, 5)
        yield "roles_snippet", python_lines.roles_snippet(opened, source, written, text)
        yield "held_out_roles_snippet", python_lines.held_out_roles_snippet(opened, 5)
        yield "theory_snippet", python_lines.theory_snippet(opened, source, written, "cross")
        yield "cell_snippet", python_lines.cell_snippet(opened, source, written, ("cross", 0, 0, 0, 0))
        yield "maps_snippet", python_lines.maps_snippet(opened, looked, 0, 0, "cross")
        yield "answer_snippet", python_lines.answer_snippet(opened, text, {})
    catalog = ModelCatalog()
    chosen = catalog.take(session, external)
    with catalog.open(session, chosen) as opened:
        cell = ("encoder", 0, 0, 0, 0)
        yield "cell_snippet", python_lines.cell_snippet(opened, opened.encode("the cat"), [], cell)
    yield "run_snippet", python_lines.run_snippet(run)
    yield "comparison_snippet", python_lines.comparison_snippet([run])
    yield "duel_snippet", python_lines.duel_snippet([run], budget)
    yield "exercise_snippet", python_lines.exercise_snippet({"scores": [["1", "", "x"]]})
    yield "qkv_steps_snippet", python_lines.qkv_steps_snippet()
    yield "positions_snippet", python_lines.positions_snippet("rotary", PositionSettings(), words)
    yield (
        "length_test_snippet",
        python_lines.length_test_snippet(LengthTest("copy", 3, (2,)), ("none",), 0, 1, 4),
    )
    yield "tokens_snippet", python_lines.tokens_snippet("low lower", 3)
    yield "bags_snippet", python_lines.bags_snippet(words, words[::-1])
    yield "word_order_snippet", python_lines.word_order_snippet(WordOrderSizes(), 0)
    for reading in ("read_docstring_passages()", "read_passages('A text.')"):
        yield "ngrams_snippet", python_lines.ngrams_snippet(reading, "the")
    for text, is_composed in ((None, True), (None, False), ("A text.", False)):
        vectors = python_lines.word_vectors_snippet(text, "CBOW", words, is_composed=is_composed)
        yield "word_vectors_snippet", vectors


def test_every_function_that_writes_lines_imports_from_the_public_face(learned, tmp_path):
    for part in build_native("bert"):
        part.save_pretrained(tmp_path / "bert")
    lines = list(write_all(learned[0], str(tmp_path / "bert")))
    functions = vars(python_lines)
    assert {name for name, _ in lines} == {name for name in functions if name.endswith("_snippet")}
    for name, code in lines:
        assert "from hf_attn import " in code, name
        assert find_private_imports(code) == [], name


def test_a_recipe_and_a_task_read_back_as_they_were():
    recipe = Recipe({"hidden_size": 32, "position_type": "it's"}, "additive", steps=7, betas=(0.9, 0.999))
    assert eval(python_lines.recipe_call(recipe), {"Recipe": Recipe}) == recipe
    for task in (build_task("copy"), build_task("addition", digits=2), build_task("text", window=64)):
        assert eval(python_lines.task_call(task), {"build_task": build_task}) == task


def test_a_file_of_the_visitor_s_is_named_without_its_folder(tmp_path):
    table = tmp_path / "mine.csv"
    table.write_text("text,label\ngood,a\nbad,b\n")
    task = build_task("csv", path=str(table), text="text", label="label")
    said = python_lines.task_call(task)
    assert "path='mine.csv'" in said
    assert str(tmp_path) not in said
