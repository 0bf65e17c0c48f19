"""The benchmark of efficient attention runs and fits what it says; what documents say of cost is measured."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))  # benchmarks are run from the checkout, not installed

from benchmarks.attention_scaling import (  # noqa: E402
    ARMS,
    ERROR_SIZES,
    find_crossing,
    fit_exponent,
    measure_errors,
)
from hf_attn.models.efficient_attention import EFFICIENT_ATTENTION  # noqa: E402


@pytest.mark.nightly
def test_a_quick_run_prints_a_table_a_task_and_keeps_a_json_line_a_row(tmp_path):
    run = subprocess.run(
        [sys.executable, "-m", "benchmarks.attention_scaling", "--quick", "--output", tmp_path],
        cwd=ROOT,
        env={**os.environ, "OMP_NUM_THREADS": "1", "PYTHONUTF8": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 0, run.stderr
    rows = [json.loads(line) for line in (tmp_path / "attention_scaling.jsonl").read_text().splitlines()]
    assert {row["task"] for row in rows} == {"time", "memory", "error", "accuracy"}
    assert {row["arm"] for row in rows if row["task"] in ("time", "memory")} == set(ARMS)
    assert {row["arm"] for row in rows if row["task"] == "accuracy"} == {"full", *EFFICIENT_ATTENTION}
    for row in rows:
        assert row["script"] == "attention_scaling"
        assert row["quick"] is True
        assert {"cpu", "cores", "threads", "load_average"} <= row["hardware"].keys()
        assert row["task"] in run.stdout
        assert row["arm"] in run.stdout


@pytest.mark.parametrize("power", [0.5, 1, 2])
def test_the_exponent_is_that_of_the_long_end(power):
    figures = {n: 100.0 if n < 4096 else n**power for n in (256, 1024, 4096, 8192, 16384)}
    assert fit_exponent(figures) == pytest.approx(power)


def test_the_crossing_lies_where_the_later_one_stays_ahead():
    full = {256: 1.0, 512: 4.0, 1024: 16.0, 2048: 64.0}
    assert find_crossing(full, dict.fromkeys(full, 0.5)) == 256
    assert find_crossing(full, dict.fromkeys(full, 100.0)) is None
    assert 512 < find_crossing(full, {256: 0.5, 512: 6.0, 1024: 12.0, 2048: 24.0}) < 1024


def test_the_error_falls_to_nothing_at_a_size_that_leaves_nothing_out():
    for row in measure_errors(64, seeds=1):
        errors = [found["median"] for found in row["error"].values()]
        assert row["what"] == ERROR_SIZES[row["arm"]][0]
        assert errors[-1] < (0.6 * errors[0] if row["arm"] == "performer" else 1e-4)
