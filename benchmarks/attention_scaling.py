"""Full and efficient self-attention over n: time, memory, error against full attention, accuracy on a task.

    python -m benchmarks.attention_scaling [--tasks time memory error accuracy] [--repeats R] [--quick]

One head of 64, batch 1, the sizes in SIZES. Arms and lengths take turns; what is timed is processor time,
which with one thread is what an idle machine would take, with memory kept once it is fetched: page faults
otherwise cost as much as the arithmetic, and more the longer the row. Exponents are slopes of logarithms by
least squares over the lengths from LONG on.
"""

import concurrent.futures
import ctypes
import dataclasses
import itertools
import math
import multiprocessing
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import torch

from benchmarks.report import build_arguments, environment, fit_slope, record, show, summary, take_turns
from hf_attn.architectures.registry import build_model
from hf_attn.evaluation.metrics import evaluate
from hf_attn.models.attention import scaled_dot_product_attention
from hf_attn.models.configuration_attn_encoder import AttnEncoderConfig
from hf_attn.models.efficient_attention import EFFICIENT_ATTENTION
from hf_attn.tasks import build_task
from hf_attn.training.device import build_accelerator
from hf_attn.training.loop import train

LENGTHS = (256, 512, 1024, 2048, 4096, 8192, 16384)
LONG = 4096  # from here on the exponents are fitted
WIDTH = 64
SIZES = {
    "attention_window": 64,
    "linformer_size": 128,
    "performer_features": 128,
    "reformer_buckets": 64,
    "reformer_rounds": 2,
    "reformer_chunk": 64,
}
FULL, PLAIN = "full, sdpa", "full, eager"
ARMS = (FULL, PLAIN, *EFFICIENT_ATTENTION)
LONGEST_PLAIN = 8192  # at 16,384 one map takes 1 GiB, and a step holds several
GOALS = {
    FULL: "≈2",
    PLAIN: "≈2",
    "local": "≤1.1",
    "linformer": "≤1.1",
    "performer": "≤1.1",
    "reformer": "≤1.25",
}

ERROR_LENGTH, ERROR_SEEDS = 1024, 3
SMOOTHING = 16  # neighbours over which the sequence that errors are measured on is averaged
SHARPNESS = (0.25, 1.0)  # of its attention: the standard deviation of the scores
ERROR_SIZES: dict[str, tuple[str, tuple[int, ...]]] = {
    "local": ("attention_window", (8, 32, 128, 512, 1023)),
    "linformer": ("linformer_size", (16, 64, 256, 512, 1024)),
    "performer": ("performer_features", (16, 64, 256, 1024, 4096)),
    "reformer": ("reformer_rounds", (1, 2, 4, 8, 16)),
}

TASK, TASK_OPTIONS, TASK_STEPS = "sort", {"length": 20}, 300
TASK_SIZES = {"attention_window": 4, "linformer_size": 8, "performer_features": 32, "reformer_chunk": 4}

Attend = Callable[[torch.Tensor, torch.Tensor, torch.Tensor], torch.Tensor]


def build_arm(arm: str, length: int, **sizes: int) -> Attend:
    """What reads a row of one head: (Q, K, V), each [1, 1, n, 64] → [1, 1, n, 64]."""
    if arm == FULL:
        return torch.nn.functional.scaled_dot_product_attention
    if arm == PLAIN:
        return lambda query, key, value: scaled_dot_product_attention(query, key, value)[0]
    attention, sequences = build_efficient(arm, length, **sizes)
    attention.reset()
    return lambda query, key, value: attention.attend(query, key, value, sequences)


def build_efficient(arm: str, length: int, **sizes):
    """One head of an efficient kind, not yet drawn, and one sequence's numbers: (module, [1, length])."""
    config = AttnEncoderConfig(
        hidden_size=WIDTH,
        num_attention_heads=1,
        max_position_embeddings=length,
        attention_type=arm,
        **{**SIZES, **sizes},
    )
    return EFFICIENT_ATTENTION[arm](config, 0), torch.ones(1, length, dtype=torch.long)


def draw_states(length: int) -> list[torch.Tensor]:
    return [torch.randn(1, 1, length, WIDTH).requires_grad_() for _ in range(3)]


def take_step(attend: Attend, states: Sequence[torch.Tensor]) -> None:
    output = attend(*states)
    torch.autograd.grad(output, states, torch.ones_like(output), allow_unused=True)


def lengths_of(arm: str, lengths: Sequence[int]) -> list[int]:
    return [length for length in lengths if arm != PLAIN or length <= LONGEST_PLAIN]


def fit_exponent(figures: Mapping[int, float]) -> float:
    """The slope over lengths from LONG on, the last two at least."""
    lengths = sorted(figures)
    return fit_slope({n: figures[n] for n in lengths if n >= min(LONG, lengths[-2])})


def find_crossing(full: Mapping[int, float], other: Mapping[int, float]) -> int | None:
    """The n from which on another kind takes less than full attention, between lengths by logarithms.

    >>> find_crossing({256: 1.0, 512: 4.0, 1024: 16.0}, {256: 4.0, 512: 8.0, 1024: 16.0})
    1024
    """
    ahead = {n: math.log(other[n] / full[n]) for n in full}  # above 0: slower
    slower = [n for n in sorted(full) if ahead[n] > 0]
    if not slower:
        return min(full)
    faster = [n for n in sorted(full) if n > slower[-1]]
    if not faster:
        return None
    low, high = slower[-1], faster[0]
    share = ahead[low] / (ahead[low] - ahead[high])
    return round(low * (high / low) ** share)


def keep_memory() -> None:
    """Tell glibc to give nothing back to the system; elsewhere times hold page faults too."""
    trim_threshold, mmap_max = -1, -4  # from malloc.h
    if hasattr(allocator := ctypes.CDLL(None), "mallopt"):
        allocator.mallopt(trim_threshold, 2**31 - 1)
        allocator.mallopt(mmap_max, 0)


def measure_times(lengths: Sequence[int], repeats: int) -> list[dict]:
    """Milliseconds of reading, and of reading and sending a gradient back; arms and lengths take turns."""
    keep_memory()
    arms = {(arm, n): build_arm(arm, n) for arm in ARMS for n in lengths_of(arm, lengths)}
    taken: dict[str, dict] = {"forward": {key: [] for key in arms}, "step": {key: [] for key in arms}}
    for repeat, order in enumerate(take_turns(list(arms), repeats + 1)):
        for key in order:  # the first repeat is not kept: memory is fetched in it
            states = draw_states(key[1])
            started = time.process_time()
            with torch.no_grad():
                arms[key](*states)
            between = time.process_time()
            take_step(arms[key], states)
            if repeat:
                taken["forward"][key].append(1e3 * (between - started))
                taken["step"][key].append(1e3 * (time.process_time() - between))
    rows = []
    for what, times in taken.items():
        medians = {
            arm: {n: statistics.median(times[arm, n]) for n in lengths_of(arm, lengths)} for arm in ARMS
        }
        rows += [
            {
                "task": "time",
                "arm": arm,
                "what": what,
                "milliseconds": {n: summary(times[arm, n]) for n in medians[arm]},
                "exponent": fit_exponent(medians[arm]),
                "goal": GOALS[arm],
                "faster_than_full_from": find_crossing(medians[FULL], medians[arm])
                if arm in EFFICIENT_ATTENTION
                else None,
            }
            for arm in ARMS
        ]
    return rows


def read_memory(field: str) -> int:
    """Bytes that this process holds: "VmRSS" now, "VmHWM" at most so far (Linux)."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(1024 * int(line.split()[1]) for line in lines if line.startswith(field))


def measure_peak(arm: str, length: int) -> float:
    """Megabytes beyond what a fresh process holds, at most, of a step with its inputs."""
    torch.set_num_threads(1)
    take_step(build_arm(arm, 64), draw_states(64))
    before = read_memory("VmRSS")
    take_step(build_arm(arm, length), draw_states(length))
    return (read_memory("VmHWM") - before) / 1e6


def measure_memory(lengths: Sequence[int]) -> list[dict]:
    """A process for each figure, forked from one that only imports: none finds what another has fetched."""
    context, rows = multiprocessing.get_context("forkserver"), []
    context.set_forkserver_preload(["hf_attn.training.loop", "hf_attn.models.efficient_attention"])
    with concurrent.futures.ProcessPoolExecutor(1, mp_context=context, max_tasks_per_child=1) as fresh:
        for arm in ARMS:
            peaks = {n: fresh.submit(measure_peak, arm, n).result() for n in lengths_of(arm, lengths)}
            row = {"task": "memory", "arm": arm, "what": "peak", "megabytes": peaks}
            rows.append(row | {"exponent": fit_exponent(peaks)})
    return rows


def draw_sequence(length: int, sharpness: float, generator: torch.Generator) -> list[torch.Tensor]:
    """Q, K, V of a sequence in which neighbours resemble each other, and a key its own query.

    Each is normal and averaged over SMOOTHING neighbours; K is half Q's.
    """
    noise = torch.randn(3 * WIDTH, 1, length + SMOOTHING - 1, generator=generator)
    smooth = noise.unfold(2, SMOOTHING, 1).mean(dim=3) * math.sqrt(SMOOTHING)  # [3 · 64, 1, n]
    query, key, value = smooth.view(3, 1, 1, WIDTH, length).transpose(3, 4)
    key, size = query / 2 + key * math.sqrt(0.75), math.sqrt(sharpness)
    return [size * query, size * key, value]


def build_for_error(arm: str, size: int, length: int, generator: torch.Generator) -> tuple[Attend, Attend]:
    """What is measured, and the full attention that it comes near to.

    Linformer's mixtures, which are learned, are here means over neighbouring places. Reformer's full
    attention is its own with one chunk: of shared keys, and of no token to itself.
    """
    field = ERROR_SIZES[arm][0]
    attention, sequences = build_efficient(arm, length, **{field: size})
    if arm == "linformer":
        places = torch.arange(length) * size // length
        means = torch.nn.functional.one_hot(places, size).T.float()
        means /= means.sum(dim=1, keepdim=True)
        attention.load_state_dict({"key_mixture": means, "value_mixture": means}, strict=False)
    elif arm != "local":
        attention.redraw(generator)
    full: Attend = torch.nn.functional.scaled_dot_product_attention
    if arm == "reformer":
        full = build_arm(arm, length, reformer_chunk=length, reformer_rounds=1)
    return lambda query, key, value: attention.attend(query, key, value, sequences), full


@torch.no_grad()
def measure_errors(length: int, seeds: int) -> list[dict]:
    """‖Y − Y_full‖ / ‖Y_full‖ by the size that a kind is given, medians over seeds."""
    rows = []
    for (arm, (field, sizes)), sharpness in itertools.product(ERROR_SIZES.items(), SHARPNESS):
        errors: dict[int, list[float]] = {}
        for size, seed in itertools.product(sizes, range(seeds)):
            size = size if arm == "performer" else min(size, length)
            generator = torch.Generator().manual_seed(seed)
            states = draw_sequence(length, sharpness, generator)
            attend, full = build_for_error(arm, size, length, generator)
            expected = full(*states)
            errors.setdefault(size, []).append(float((attend(*states) - expected).norm() / expected.norm()))
        row = {"task": "error", "arm": arm, "what": field, "length": length, "sharpness": sharpness}
        rows.append(row | {"error": {size: summary(found) for size, found in errors.items()}})
    return rows


def measure_accuracy(steps: int, seeds: int, examples: int) -> list[dict]:
    """Share of held-out rows sorted right after so many steps of one recipe, by kind of self-attention."""
    task = build_task(TASK, **TASK_OPTIONS)
    rows = []
    for kind in ("full", *EFFICIENT_ATTENTION):
        shares, seconds = [], []
        for seed in range(seeds):
            model = {**task.recipe.model, **TASK_SIZES, "attention_type": kind}
            recipe = dataclasses.replace(
                task.recipe, model=model, steps=steps, report_every=steps, evaluate_every=steps
            )
            learner, generator = build_model(task, recipe, seed), torch.Generator().manual_seed(seed)
            *_, last = train(task, learner, recipe, generator=generator, accelerator=build_accelerator("cpu"))
            shares.append(evaluate(learner, task, n=examples).overall.exact_match)
            seconds.append(last.seconds)
        row = {"task": "accuracy", "arm": kind, "what": f"{TASK}, {steps} steps"}
        rows.append(
            row
            | {
                "exact_match": summary(shares),
                "seconds": summary(seconds),
                "options": TASK_OPTIONS,
                "sizes": TASK_SIZES,
            }
        )
    return rows


def print_scaling(rows: Sequence[dict], field: str, write: Callable, around: Mapping) -> None:
    lengths = sorted({n for row in rows for n in row[field]})
    cells = [
        [
            row["arm"],
            row["what"],
            *(write(row[field][n]) if n in row[field] else "–" for n in lengths),
            f"{row['exponent']:.2f}",
            row.get("goal", ""),
            f"{row['faster_than_full_from']:,}" if row.get("faster_than_full_from") else "",
        ]
        for row in rows
    ]
    columns = ["arm", "what", *(f"{n:,}" for n in lengths), "n^", "wanted", "wins from"]
    show(f"{rows[0]['task']}: {field} of one head of {WIDTH}, by n", columns, cells, around)


def print_rows(rows: Sequence[dict], around: Mapping) -> None:
    task = rows[0]["task"]
    if task == "time":
        print_scaling(rows, "milliseconds", lambda taken: f"{taken['median']:.3g}", around)
    elif task == "memory":
        print_scaling(rows, "megabytes", lambda held: f"{held:.3g}", around)
    elif task == "error":
        cells = [
            [
                row["arm"],
                row["what"],
                str(row["sharpness"]),
                *(f"{size:,}: {error['median']:.3f}" for size, error in row["error"].items()),
            ]
            for row in rows
        ]
        title = f"error: relative L2 against full attention, n = {rows[0]['length']:,}, by size"
        show(title, ["arm", "size", "std of scores", *([""] * len(rows[0]["error"]))], cells, around)
    else:
        cells = [
            [
                row["arm"],
                row["what"],
                f"{row['exact_match']['median']:.1%}",
                " – ".join(f"{share:.1%}" for share in row["exact_match"]["range"]),
                f"{row['seconds']['median']:.1f}",
            ]
            for row in rows
        ]
        show("accuracy", ["arm", "what", "right", "range over seeds", "seconds"], cells, around)


def main() -> None:
    parser = build_arguments(__doc__.splitlines()[0], list(TASKS))
    parser.add_argument("--repeats", type=int, default=7, help="of each time (default: %(default)s)")
    parser.add_argument("--seeds", type=int, default=3, help="of errors and accuracy (default: %(default)s)")
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    torch.manual_seed(0)
    around = {"script": "attention_scaling", "quick": arguments.quick, **environment()}
    for task in arguments.tasks:
        rows = TASKS[task](arguments)
        record(arguments.output / "attention_scaling.jsonl", rows, around)
        print_rows(rows, around)


# What is measured, from the arguments; --quick only shows that it runs.
TASKS: dict[str, Callable] = {
    "memory": lambda given: measure_memory(LENGTHS[:2] if given.quick else LENGTHS),
    "time": lambda given: measure_times(*((LENGTHS[:2], 1) if given.quick else (LENGTHS, given.repeats))),
    "error": lambda given: measure_errors(*((64, 1) if given.quick else (ERROR_LENGTH, given.seeds))),
    "accuracy": lambda given: measure_accuracy(
        *((1, 1, 8) if given.quick else (TASK_STEPS, given.seeds, 1000))
    ),
}


if __name__ == "__main__":
    main()
