"""Classes of texts, from the standard library, Babel or a table of one's own; and what a checkpoint keeps."""

import json
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from transformers import pipeline

from hf_attn.architectures.registry import build_model
from hf_attn.checkpoints.save_load import load_checkpoint, save_checkpoint
from hf_attn.checkpoints.training_record import build_training_record
from hf_attn.evaluation.metrics import evaluate, predict
from hf_attn.interpret.attention_maps import attention_maps
from hf_attn.tasks import build_task
from hf_attn.tasks.batch import Batch
from hf_attn.tasks.splits import HELD_OUT, SPLITS, TRAINING
from hf_attn.tasks.text.topics import TOPICS, docstrings_of

FRUIT, TOOLS = ("apple", "pear", "plum", "cherry"), ("hammer", "saw", "plane", "drill")
SMALL = {"hidden_size": 32, "num_attention_heads": 2, "intermediate_size": 64, "dropout": 0.0}


@pytest.fixture(scope="module", autouse=True)
def cache(tmp_path_factory):
    """The standard library is read once for these tests, and not into the user's own cache."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HF_ATTN_CACHE", str(tmp_path_factory.mktemp("cache")))
        yield


@pytest.fixture(scope="module")
def corpora(cache):
    """Each corpus is read, and its tokenizer learned, once for these tests: a task never changes."""
    return {name: build_task(name) for name in ("topics", "phrases")}


def write_table(path, rows=None):
    if rows is None:
        names = [(name, label) for label, group in (("fruit", FRUIT), ("tool", TOOLS)) for name in group]
        rows = [(f"{size} {name} {place}", label) for name, label in names for size in ("big", "small")
                for place in ("here", "there", "anywhere", "nowhere, I think")]  # fmt: skip
    lines = ["text,label", *(f'"{text}",{label}' for text, label in rows)]
    Path(path).write_text("\n".join(lines), encoding="utf-8")
    return str(path)


@pytest.fixture
def table(tmp_path):
    return build_task("csv", path=write_table(tmp_path / "table.csv"))


def texts(task, split):
    return {row.source for row in task.texts_of(split)}


@pytest.mark.parametrize("name", ["topics", "phrases"])
def test_nothing_of_a_group_is_in_two_splits_and_every_class_is_in_each(corpora, name):
    task = corpora[name]
    groups, classes = {}, {split: set() for split in SPLITS}
    for row, split in zip(task.rows, task.splits, strict=True):
        assert groups.setdefault(row.group, split) == split
        classes[split].add(row.target)
    assert set(task.classes) == classes[TRAINING] == classes[HELD_OUT]
    assert len({row.source for row in task.rows}) == len(task.rows), "no text twice, whatever its class"


@pytest.mark.parametrize(("name", "groups"), [("topics", "modules"), ("phrases", "meanings")])
def test_the_group_of_a_text_is_known_by_its_ids_in_any_batch(corpora, name, groups):
    task = corpora[name]
    rows = task.texts_of(HELD_OUT)[::-7]
    own = [row.group for row in rows]
    batch = task.batch_of([row.source for row in rows])
    assert task.groups_of(batch) == own
    wide = Batch(torch.nn.functional.pad(batch.input_ids, (0, 9)), batch.labels)
    assert task.groups_of(wide) == own
    assert [task.groups_of(batch[slice(place, place + 1)]) for place in range(9)] == [[g] for g in own[:9]]
    held_out = task.groups_of(task.held_out(100_000))
    assert Counter(held_out) == Counter(row.group for row in task.texts_of(HELD_OUT))
    assert len(set(held_out)) < len(held_out)
    assert task.groups_name == groups


def test_a_text_that_is_not_in_the_data_is_a_group_of_its_own(table):
    known = table.rows[0]
    found = table.groups_of(table.batch_of([known.source, "saw saw apple", "apple saw", "saw saw apple"]))
    assert found[0] == known.group
    assert found[1] == found[3] != found[2]
    assert not {row.group for row in table.rows} & {found[1], found[2]}


def test_docstrings_are_read_for_ten_topics_without_importing_anything(corpora):
    task = corpora["topics"]
    assert task.classes == tuple(sorted(TOPICS))
    assert len(task.classes) == 10
    assert len(task.rows) > 5000
    function = b'import nowhere\nclass A:\n    """Too short."""\n    def f(): "a b c  d"'
    code = b'"""About four words here."""\n' + function
    assert list(docstrings_of(code)) == ["About four words here.", "a b c d"]
    assert list(docstrings_of(b"def")) == []


def test_a_word_is_blanked_in_training_and_never_elsewhere(table):
    drawn = table.sample(torch.Generator().manual_seed(0), 500)
    words = (drawn.input_ids > 2).sum()
    assert 0.05 < float((drawn.input_ids == 3).sum() / words) < 0.15 + table.unknown_share
    held_out = table.held_out(500)
    assert (held_out.input_ids == 3).float().mean() < 0.02
    assert torch.equal((drawn.input_ids != 0).long(), drawn.attention_mask)


def test_labels_are_classes_and_decode_to_their_names(table):
    assert table.classes == ("fruit", "tool")
    example = table.worked_example
    assert table.answer(example.source) == example.target
    assert example.source in texts(table, HELD_OUT)
    assert "64 texts, none twice" in example.story
    batch = table.batch_of(["big apple here", "what is this?"])
    assert batch.labels.tolist() == [0, -100], "nobody knows the class of a text that is not in the data"
    assert table.batch_of(["what is this?"], ["tool"]).labels.tolist() == [1]
    assert table.decode([1]) == "tool"
    assert table.answer("big apple here") == "fruit"
    assert table.answer("what is this?") is None
    assert not table.verify("big apple here", "tool").correct
    assert table.verify("what is this?", "tool").correct is None
    assert table.alignment("big apple here", "fruit") is None


@pytest.fixture
def checkpoint(table, tmp_path):
    recipe = replace(table.recipe, model={**table.recipe.model, **SMALL})
    model = build_model(table, recipe)
    record = build_training_record(
        table, recipe, evaluate(model, table), seed=0, reports=[], device="cpu", threads=1
    )
    return save_checkpoint(tmp_path / "attn-csv", model, table, record)


def test_the_pipeline_of_transformers_names_classes_as_the_task_does(table, checkpoint):
    classify = pipeline("text-classification", model=str(checkpoint), tokenizer=str(checkpoint), device="cpu")
    sources = ["big apple here", "small drill there, or anywhere"]
    loaded = load_checkpoint(checkpoint)
    predicted = predict(loaded.model, table, table.batch_of(sources))
    assert [found["label"] for found in classify(sources, batch_size=2)] == [
        table.decode(row) for row in predicted.tolist()
    ]
    assert json.loads((checkpoint / "config.json").read_text())["id2label"] == {"0": "fruit", "1": "tool"}


def test_a_checkpoint_is_read_and_used_where_the_table_is_not(table, checkpoint):
    Path(table.path).unlink()
    loaded = load_checkpoint(checkpoint)
    task = loaded.task
    assert task.classes == ("fruit", "tool")
    assert task.options == {**table.options, "path": "table.csv"}, "the folder keeps no path of the user's"
    assert task.encode("big apple here") == table.encode("big apple here")
    assert task.answer("big apple here") is None
    assert task.decode(predict(loaded.model, task, task.batch_of(["a big saw"]))[0].tolist()) in task.classes
    assert task.worked_example.target == "fruit"
    assert attention_maps(loaded.model, task.batch_of(["a big saw"])).encoder.dim() == 4
    with pytest.raises(ValueError, match="There is no file"):
        evaluate(loaded.model, task)


def test_a_checkpoint_refuses_data_with_a_class_that_it_does_not_know(table, checkpoint, monkeypatch):
    monkeypatch.chdir(Path(table.path).parent)
    rows = [(f"text number {i}", "fruit" if i % 2 else "animal") for i in range(40)]
    write_table(table.path, rows)
    with pytest.raises(
        ValueError, match=r"class 'animal' that this model does not know; it knows fruit, tool"
    ):
        load_checkpoint(checkpoint).task.held_out(5)


MANY = [(f"text number {i}", "ab"[i % 2]) for i in range(40)]


@pytest.mark.parametrize(("rows", "named", "remedy"), [
    (MANY[:9] * 5, "has 9 different texts; at least 30", "add some"),
    ([(text, "a") for text, _ in MANY], "one class only, 'a'", "another column"),
    ([*MANY, ("Text", "a"), ("Text", "b")], "line 43 has class 'b', and 'a' on line 42", "decide for one"),
    ([*MANY, ("rare", "c")], "class 'c' has 1 different texts; at least 3", "add some"),
    ([(f"t{i}", str(i)) for i in range(300)], "has 300 classes; 100 at most", "right one"),
])  # fmt: skip
def test_a_table_that_teaches_nothing_is_refused_in_words(tmp_path, rows, named, remedy):
    task = build_task("csv", path=write_table(tmp_path / "table.csv", rows))
    with pytest.raises(ValueError) as refusal:  # noqa: PT011 - what it says is looked at below
        task.held_out(5)
    assert named in str(refusal.value)
    assert remedy in str(refusal.value)


@pytest.mark.parametrize(("options", "named"), [
    ({}, "path=table.csv"),
    ({"path": "a.csv", "dataset": "b"}, "give one of them"),
    ({"path": "a.csv", "text": "x", "label": "x"}, "two columns"),
    ({"path": "nowhere.csv"}, "There is no file 'nowhere.csv'"),
])  # fmt: skip
def test_impossible_options_are_refused_in_words(options, named):
    with pytest.raises(ValueError, match=named):
        build_task("csv", **options).held_out(1)
