"""The benchmarks run, and the peers that ours is measured against are what they say they are."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))  # benchmarks are run from the checkout, not installed

from benchmarks.peers import (  # noqa: E402
    DOCUMENT,
    DocumentSettings,
    DocumentTransformer,
    build_bart,
    build_document_learner,
)
from benchmarks.time_to_accuracy import (  # noqa: E402
    Measurement,
    Outcome,
    median_seconds,
    race,
)
from benchmarks.train_speed import count_step_flops  # noqa: E402
from hf_attn.architectures.registry import build_model  # noqa: E402
from hf_attn.tasks import build_task  # noqa: E402

SMALL = DocumentSettings(hidden_size=32, intermediate_size=64, layers=1, heads=2, batch_size=32)


@pytest.fixture(autouse=True)
def one_thread():
    """Two threads beside another busy process wait for each other: a test of seconds then takes a minute."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.fixture
def parser():
    return build_task("parser", **DOCUMENT["parser"].task_options)


@pytest.fixture
def small_peer(parser) -> DocumentTransformer:
    torch.manual_seed(0)
    return DocumentTransformer(SMALL, len(parser.vocabulary), parser.max_position_embeddings).eval()


# The scripts


@pytest.mark.nightly
@pytest.mark.parametrize(("script", "options", "arms"), [
    ("train_speed", ["--tasks", "copy"], {"ours", "nn.Transformer", "Bart", "floor"}),
    ("time_to_accuracy", [], {"ours", "document's recipe"}),
    ("trainer_race", [], {"ours", "Bart, Seq2SeqTrainer", "Bart, search"}),
    ("accuracy", [], {"transformer", "lstm", "baseline"}),
    ("scaling", [], {"hidden_size", "as GPT-2"}),
    ("gpu", ["--device", "cpu", "--tasks", "copy"], {"processor", "cpu, float32"}),
    ("generation", [], {"lean", "plain twin", "our generate", "Bart", "Bart, static cache"}),
    ("recurrent_speed", [], {"additive: ours", "additive: nn.LSTM, step by step", "none: ours"}),
])  # fmt: skip
def test_a_quick_run_prints_a_table_and_keeps_a_json_line_a_row(tmp_path, script, options, arms):
    command = [sys.executable, "-m", f"benchmarks.{script}", "--quick", "--threads", "1", *options]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONUTF8": "1"}
    run = subprocess.run(
        [*command, "--output", tmp_path],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 0, run.stderr
    rows = [json.loads(line) for line in (tmp_path / f"{script}.jsonl").read_text().splitlines()]
    named = [row.get("arm", row.get("model")) for row in rows]
    assert arms <= set(named)
    for row, name in zip(rows, named, strict=True):
        assert row["script"] == script
        assert row["quick"] is True
        assert {"cpu", "cores", "threads"} <= row["hardware"].keys()
        assert {"torch", "transformers", "python"} <= row["versions"].keys()
        assert row["date"]
        assert row["task"] in run.stdout
        assert name in run.stdout + run.stderr


def test_a_peer_stopped_at_the_limit_is_told_as_a_lower_bound():
    def write(batch):
        return batch.labels

    crawl = (Measurement(step, step * 1.0, 0.4, write) for step in range(1, 100))
    stopped = race(crawl, limit=5.0)
    assert stopped == Outcome(False, Measurement(5, 5.0, 0.4, write))
    quick, slow = (Outcome(True, Measurement(1, seconds, 1.0, write)) for seconds in (2.0, 3.0))
    assert median_seconds([stopped, slow, quick]) == (3.0, False)
    assert median_seconds([stopped, quick]) == (3.5, True)
    assert median_seconds([stopped]) == (5.0, True)


@pytest.mark.parametrize("name", DOCUMENT)
def test_the_floor_counts_what_torch_counts(name):
    settings = DOCUMENT[name]
    task = build_task(name, **settings.task_options)
    model = build_model(task, task.recipes["document"])
    model.set_attn_implementation("eager")
    batch = task.held_out(4)
    with FlopCounterMode(display=False) as counter:
        model(**batch.inputs()).loss.backward()
    sizes = (4, batch.input_ids.shape[1], batch.labels.shape[1], len(task.vocabulary))
    assert count_step_flops(settings, *sizes) == counter.get_total_flops()


# The peers


@pytest.mark.parametrize(
    ("name", "source", "target"), [("copy", 20, 20), ("addition", 7, 3), ("parser", 5, 5)]
)
def test_the_tasks_have_the_documents_lengths(name, source, target):
    batch = build_task(name, **DOCUMENT[name].task_options).held_out(8)
    assert batch.input_ids.shape[1] == source + 1  # </s>
    assert batch.labels.shape[1] == target + 1
    assert batch.attention_mask is None


@pytest.mark.parametrize("name", DOCUMENT)
def test_all_arms_have_the_same_size(name):
    settings = DOCUMENT[name]
    task = build_task(name, **settings.task_options)
    recipe = task.recipes["document"]
    models = [
        build_model(task, recipe),
        build_document_learner(task, settings).model,
        build_bart(task, settings),
    ]
    counts = [sum(weight.numel() for weight in model.parameters()) for model in models]
    assert max(counts) / min(counts) < 1.02


def test_greedy_writing_is_the_likeliest_symbol_after_each_prefix(parser, small_peer):
    batch = parser.held_out(8)
    written = small_peer.write_greedily(batch, parser.max_target_tokens)
    twin = small_peer(type(batch)(batch.input_ids, written)).argmax(-1)
    assert torch.equal(written, twin)
