"""Seconds until the command line and the package answer, each a fresh process; what is not ours beside them.

    python -m benchmarks.startup [--repeats R] [--output DIR]

Processes take turns, each repeat in the other direction. What must import torch, or transformers too, is held
against a process that does no more than that.
"""

import argparse
import subprocess
import sys
import time
from pathlib import Path

from benchmarks.report import RESULTS, environment, record, show, summary, take_turns

COMMAND = ("-m", "hf_attn")
NEEDED = "AutoModelForSeq2SeqLM, GenerationMixin, PreTrainedModel"  # of transformers, by our models
TORCH, TRANSFORMERS = "import torch", "transformers' own"
# name → (words behind `python`, beyond which row, seconds wanted)
RUNS: dict[str, tuple[tuple[str, ...], str | None, float | None]] = {
    TORCH: (("-c", "import torch"), None, None),
    TRANSFORMERS: (("-c", f"from transformers import {NEEDED}"), None, None),
    "import hf_attn": (("-c", "import hf_attn"), TRANSFORMERS, 0.3),
    "hf-attn --help": ((*COMMAND, "--help"), None, 0.5),
    "hf-attn --version": ((*COMMAND, "--version"), None, 0.5),
    "hf-attn train --help": ((*COMMAND, "train", "--help"), None, 0.5),
    "hf-attn trian (no such command)": ((*COMMAND, "trian"), None, 0.5),
    "hf-attn train copy --steps x": ((*COMMAND, "train", "copy", "--steps", "x"), None, 0.5),
    "hf-attn train addtion (no such task)": ((*COMMAND, "train", "addtion"), None, 0.5),
    "hf-attn tasks": ((*COMMAND, "tasks"), TORCH, 0.5),
}


def measure(words: tuple[str, ...]) -> float:
    """Seconds of a process; what it prints is thrown away."""
    began = time.perf_counter()
    done = subprocess.run([sys.executable, *words], capture_output=True, text=True)
    if done.returncode not in (0, 2):  # 2: wrong use, which some rows are
        raise RuntimeError(f"{' '.join(words)} failed: {done.stderr}")
    return time.perf_counter() - began


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repeats", type=int, default=5, help="of each process (default: %(default)s)")
    parser.add_argument("--output", type=Path, default=RESULTS, help="folder of the lines")
    options = parser.parse_args()
    around = environment()
    times: dict[str, list[float]] = {name: [] for name in RUNS}
    for order in take_turns(list(RUNS), options.repeats):
        for name in order:
            times[name].append(measure(RUNS[name][0]))
    rows = []
    for name, (_, beyond, goal) in RUNS.items():
        more = [mine - other for mine, other in zip(times[name], times[beyond or name], strict=True)]
        row = {"measured": name, "seconds": summary(times[name]), "goal": goal, "beyond": beyond}
        rows.append(row | ({"seconds_beyond": summary(more)} if beyond else {}))
    cells = [
        (
            row["measured"],
            f"{row['seconds']['median']:.2f}",
            f"{row['seconds']['range'][0]:.2f} – {row['seconds']['range'][1]:.2f}",
            f"{row['seconds_beyond']['median']:+.2f} {row['beyond']}" if row["beyond"] else "",
            "" if row["goal"] is None else f"≤{'+' if row['beyond'] else ''}{row['goal']:g}",
        )
        for row in rows
    ]
    show("Seconds until it answers", ("what", "median s", "range", "beyond", "wanted"), cells, around)
    record(options.output / "startup.jsonl", rows, around)


if __name__ == "__main__":
    main()
