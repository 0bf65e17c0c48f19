"""What models get right, seed by seed: reversal with and without attention, topics and languages of texts.

    python -m benchmarks.accuracy [--tasks reverse topics phrases] [--seeds 3] [--threads N]

Each figure is that of a user's command (`hf-attn duel`, `hf-attn train`), on held-out examples, once.
"""

import json
import subprocess
import sys
from collections.abc import Iterator

from benchmarks.report import build_arguments, environment, record, show

LENGTHS = {"40": ("max_length=40", "min_length=40"), "1 to 40": ("max_length=40",)}
MODELS = "none,additive,general,transformer"
TEXTS = {"topics": ("transformer", "lstm"), "phrases": ("transformer", "lstm")}
BASELINE = "baseline"
KEPT = ("task", "model", "seconds", "examples", "held_out_exact_match", "interval", "interval_over")


def run(*command: str) -> Iterator[dict]:
    """The results that a command prints, its model's and its baseline's."""
    words = [sys.executable, "-m", "hf_attn", *command, "--json"]
    printed = subprocess.run(words, stdout=subprocess.PIPE, text=True, check=True).stdout
    for line in map(json.loads, printed.splitlines()):
        if line["event"] in ("result", BASELINE):
            yield keep(line)


def keep(line: dict) -> dict:
    """What a line of a result says, under one name whichever command printed it."""
    line = {"model": BASELINE, **line, "examples": line.get("examples", line.get("held_out_examples"))}
    return {name: line[name] for name in KEPT if name in line}


def measure(task: str, seed: int, threads: int) -> Iterator[dict]:
    """A row for each model on a task, with one seed."""
    common = ("--seed", str(seed), "--threads", str(threads))
    if task in TEXTS:
        for model in TEXTS[task]:
            for line in run("train", task, "--model", model, *common):
                if line["model"] != BASELINE or model == TEXTS[task][0]:
                    yield {"setting": "", **line, "seed": seed}
        return
    for setting, options in LENGTHS.items():
        chosen = [word for option in options for word in ("--set", option)]
        for line in run("duel", task, *chosen, "--models", MODELS, *common):
            yield {"setting": f"lengths {setting}", **line, "seed": seed}


def cells(line: dict) -> list[str]:
    low, high = line["interval"]
    return [
        f"{line['task']} {line['setting']}".strip(),
        line["model"],
        str(line["seed"]),
        f"{line['seconds']:.1f}",
        f"{line['held_out_exact_match']:.1%}",
        f"{low:.1%} – {high:.1%}",
    ]


def main() -> None:
    names = ["reverse", *TEXTS]
    parser = build_arguments(__doc__.splitlines()[0], names)
    parser.add_argument("--seeds", type=int, default=3, help="runs of each model (default: %(default)s)")
    arguments = parser.parse_args()
    around = {"script": "accuracy", "quick": arguments.quick, **environment()}
    lines = []
    for seed in range(1 if arguments.quick else arguments.seeds):
        for task in ["phrases"] if arguments.quick else arguments.tasks:
            measured = list(measure(task, seed, arguments.threads))
            record(arguments.output / "accuracy.jsonl", measured, around)
            lines += measured
    columns = ["task", "model", "seed", "seconds", "held out", "95 % interval"]
    show("Held-out examples right", columns, [cells(line) for line in lines], around)


if __name__ == "__main__":
    main()
