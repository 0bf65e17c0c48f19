"""Milliseconds to write answers: the lean decoder, its plain twin, our `generate`, Bart's of the same size.

    python -m benchmarks.generation [--tasks T …] [--threads N] [--repeats R] [--quick]

Untrained models at the sizes of “The Birth of Transformers” write the task's longest answers; no answer ends
early. Beam search and sampling are of one source: ours writes one at a time. The arms take turns, each
repeat in the other direction, and ratios are medians over repeats of the ratio within a repeat.
"""

import functools
import time
from collections.abc import Callable, Mapping

import torch
from transformers import GenerationConfig

from benchmarks.peers import DOCUMENT, build_bart
from benchmarks.report import build_arguments, environment, record, show, summary, take_turns
from hf_attn.architectures.registry import build_model
from hf_attn.generation.decoders import IncrementalDecoder
from hf_attn.generation.generate import generate_answer, greedy_ids
from hf_attn.tasks import build_task
from hf_attn.tasks.batch import PAD, START

LEAN, PLAIN, OWN, BART, STATIC = "lean", "plain twin", "our generate", "Bart", "Bart, static cache"
SETTINGS: Mapping[str, Mapping[str, object]] = {  # strategy → as transformers' generate takes it
    "greedy": {},
    "beam": {"num_beams": 4},
    "top-k": {"do_sample": True, "top_k": 10},
}
BATCHES = {"greedy": (64, 1), "beam": (1,), "top-k": (1,)}
GOALS = {  # wanted of greedy writing: Bart's time over ours, at batch 64 and 1
    "copy": {64: 2.5, 1: 7},
    "parser": {64: 1.5, 1: 4},
    "addition": {64: 1.2, 1: 2.5},
}


def build_arms(name: str, strategy: str, batch: int) -> dict[str, Callable[[], object]]:
    """Who writes the answers to a task's held-out sources."""
    settings = DOCUMENT[name]
    task = build_task(name, **settings.task_options)
    own = build_model(task, task.recipes["document"]).eval()
    torch.manual_seed(0)
    bart = build_bart(task, settings).eval()
    for model in (own, bart):
        model.config.eos_token_id = model.generation_config.eos_token_id = None
    sources, length = task.held_out(batch).input_ids[:batch], task.max_target_tokens

    def generate(model, **more) -> torch.Tensor:
        config = GenerationConfig(
            max_new_tokens=length, pad_token_id=PAD, bos_token_id=START, decoder_start_token_id=START,
            **SETTINGS[strategy], **more,
        )  # fmt: skip
        with torch.inference_mode():
            return model.generate(sources, generation_config=config)

    arms: dict[str, Callable[[], object]] = {
        OWN: functools.partial(generate, own),
        BART: functools.partial(generate, bart),
        STATIC: functools.partial(generate, bart, cache_implementation="static"),
    }
    if strategy != "greedy":
        more = {"num_beams": 4} if strategy == "beam" else {"top_k": 10}
        return {LEAN: lambda: generate_answer(own, sources, strategy, max_new_tokens=length, **more), **arms}
    lean = functools.partial(greedy_ids, own, sources, None, length)
    return {LEAN: lean, PLAIN: functools.partial(lean, build_decoder=IncrementalDecoder), **arms}


def measure(name: str, strategy: str, batch: int, repeats: int) -> list[dict]:
    """A row for each arm."""
    arms = build_arms(name, strategy, batch)
    for write in arms.values():  # once apart: memory is fetched and kernels are chosen
        write()
    times: dict[str, list[float]] = {arm: [] for arm in arms}
    for order in take_turns(list(arms), repeats):
        for arm in order:
            started = time.perf_counter()
            arms[arm]()
            times[arm].append(1000 * (time.perf_counter() - started))
    return [arm_row(name, strategy, batch, arm, times) for arm in arms]


def arm_row(name: str, strategy: str, batch: int, arm: str, times: dict[str, list[float]]) -> dict:
    """One arm's figures, with its ratio to the lean decoder's repeat by repeat."""
    ratios = [mine / lean for mine, lean in zip(times[arm], times[LEAN], strict=True)]
    line = {"task": name, "strategy": strategy, "batch": batch, "arm": arm}
    line |= {"milliseconds": summary(times[arm]), "ratio_to_lean": summary(ratios)}
    if strategy == "greedy" and arm == BART:
        line["goal"] = GOALS[name][batch]
    return line


def cells(line: dict) -> list[str]:
    low, high = line["milliseconds"]["quartiles"]
    return [
        f"{line['task']}, {line['strategy']}",
        line["arm"],
        f"{line['batch']}",
        f"{line['milliseconds']['median']:.2f}",
        f"{low:.2f} – {high:.2f}",
        f"{line['ratio_to_lean']['median']:.3g}×",
        f"≥{line['goal']:g}×" if "goal" in line else "",
    ]


def main() -> None:
    parser = build_arguments(__doc__.splitlines()[0], list(DOCUMENT))
    parser.add_argument("--repeats", type=int, default=15, help="of each arm (default: %(default)s)")
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    around = {"script": "generation", "quick": arguments.quick, **environment()}
    lines = []
    for name in arguments.tasks[:1] if arguments.quick else arguments.tasks:
        for strategy, batches in BATCHES.items():
            for batch in batches:
                measured = measure(name, strategy, batch, 1 if arguments.quick else arguments.repeats)
                record(arguments.output / "generation.jsonl", measured, around)
                lines += measured
    columns = ["task", "arm", "batch", "ms", "quartiles", "of lean", "wanted"]
    show("Writing answers", columns, [cells(line) for line in lines], around)


if __name__ == "__main__":
    main()
