"""What a larger model costs: a training step's time, memory and operations against each of its sizes.

    python -m benchmarks.scaling [--tasks sizes models] [--repeats R] [--quick]

A decoder-only Transformer with AdamW; one size at a time is changed from BASE. Sizes take turns, and what is
timed is processor time. Exponents are slopes of logarithms by least squares over each size's last three
values. What larger models need is computed: their operations are counted, and divided by the rate that the
largest model measured here reaches; their memory is the estimate by which training is refused, without the
maps that the fast kernel never writes down.
"""

import concurrent.futures
import multiprocessing
import time
from collections.abc import Mapping, Sequence

import torch
from torch.utils.flop_counter import FlopCounterMode

from benchmarks.attention_scaling import keep_memory, read_memory
from benchmarks.report import build_arguments, environment, fit_slope, record, show, summary, take_turns
from hf_attn.architectures.memory import FLOAT, count_activations, count_planned_weights
from hf_attn.architectures.optimizers import find_optimizer
from hf_attn.models.configuration_attn_decoder import AttnDecoderConfig
from hf_attn.models.modeling_attn_decoder import AttnDecoderForCausalLM

HEAD = 32  # numbers of a head, however wide the model
BASE = {"hidden_size": 128, "num_hidden_layers": 4, "length": 128, "batch_size": 8, "vocab_size": 256}
SIZES: Mapping[str, Sequence[int]] = {
    "hidden_size": (64, 128, 256, 512, 1024),
    "num_hidden_layers": (1, 2, 4, 8, 16),
    "length": (32, 128, 512, 1024, 2048),
    "batch_size": (1, 2, 8, 32, 128),
    "vocab_size": (256, 1024, 4096, 16384, 65536),
}
FITTED = 3  # of a size's values, the largest
WARMING = {"hidden_size": 64, "num_hidden_layers": 1, "length": 32, "batch_size": 1, "vocab_size": 256}
MODELS: Mapping[str, Mapping[str, int]] = {
    "one of this app": BASE,
    "a small one": {**BASE, "hidden_size": 512, "num_hidden_layers": 8, "length": 512, "vocab_size": 8192},
    "as GPT-2": {"hidden_size": 768, "num_hidden_layers": 12, "length": 1024, "vocab_size": 50257},
    "1.3 billion": {"hidden_size": 2048, "num_hidden_layers": 24, "length": 2048, "vocab_size": 50257},
    "7 billion": {"hidden_size": 4096, "num_hidden_layers": 32, "length": 4096, "vocab_size": 50257},
}
GPU_RATE = 300e12  # operations a second that an H100 is taken to reach in bfloat16: 30 % of what it could
PLACES = {"laptop": (16e9, 1), "GPU": (80e9, 1), "eight GPUs": (80e9, 8)}  # (bytes each, how many share)


def build_config(sizes: Mapping[str, int]) -> AttnDecoderConfig:
    width = sizes["hidden_size"]
    return AttnDecoderConfig(
        hidden_size=width,
        intermediate_size=4 * width,
        num_attention_heads=width // HEAD,
        num_hidden_layers=sizes["num_hidden_layers"],
        max_position_embeddings=sizes["length"],
        vocab_size=sizes["vocab_size"],
    )


def estimate_memory(sizes: Mapping[str, int]) -> tuple[int, int, int]:
    """(parameters; bytes of weights, gradients and moments; bytes that a row leaves for going back)."""
    config = build_config(sizes)
    weights = count_planned_weights(AttnDecoderForCausalLM, config)
    config.num_attention_heads = 0  # maps are counted by the head
    fixed = FLOAT * (2 + find_optimizer("adamw").moments) * weights.parameters
    return weights.parameters, fixed, FLOAT * count_activations(config, sizes["length"] - 1, 1)


class Step:
    """A training step of a model with random weights on random ids."""

    def __init__(self, sizes: Mapping[str, int]):
        torch.manual_seed(0)
        self.model = AttnDecoderForCausalLM(build_config(sizes)).train()
        self.optimizer = torch.optim.AdamW(self.model.parameters())
        self.ids = torch.randint(sizes["vocab_size"], (sizes["batch_size"], sizes["length"]))

    def take(self) -> float:
        """Seconds of the processor."""
        started = time.process_time()
        self.model(input_ids=self.ids, labels=self.ids).loss.backward()
        self.optimizer.step()
        self.optimizer.zero_grad()
        return time.process_time() - started


def count_operations(sizes: Mapping[str, int]) -> int:
    """Of a step's matrix products, two a multiply-add; nothing is computed, and all pairs count."""
    config = build_config(sizes)
    config._attn_implementation = "eager"  # whose products are counted as what they are
    with torch.device("meta"):
        model = AttnDecoderForCausalLM(config).train()
        ids = torch.zeros(sizes["batch_size"], sizes["length"], dtype=torch.long)
    with FlopCounterMode(display=False) as counter:
        model(input_ids=ids, labels=ids).loss.backward()
    return counter.get_total_flops()


def measure_peak(sizes: Mapping[str, int]) -> float:
    """Megabytes beyond what a process holds that has taken a small step, at most, of two steps."""
    torch.set_num_threads(1)
    Step(WARMING).take()
    before = read_memory("VmRSS")
    step = Step(sizes)
    step.take()
    step.take()  # the first one's moments are there now
    return (read_memory("VmHWM") - before) / 1e6


def fit_exponent(figures: Mapping[int, float]) -> float:
    """The slope over the FITTED largest sizes."""
    return fit_slope({size: figures[size] for size in sorted(figures)[-FITTED:]})


def measure_sizes(repeats: int, most: int | None) -> list[dict]:
    """A row for each size: milliseconds, operations and megabytes of each of its values."""
    keep_memory()
    points = {
        (name, value): {**BASE, name: value} for name, values in SIZES.items() for value in values[:most]
    }
    taken: dict[tuple, list[float]] = {point: [] for point in points}
    for order in take_turns(list(points), repeats):
        for point in order:
            step = Step(points[point])
            step.take()
            taken[point].append(1e3 * step.take())
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["hf_attn.models.modeling_attn_decoder", "torch.utils.flop_counter"])
    with concurrent.futures.ProcessPoolExecutor(1, mp_context=context, max_tasks_per_child=1) as fresh:
        peaks = {point: fresh.submit(measure_peak, sizes).result() for point, sizes in points.items()}
    rows = []
    for name in SIZES:
        changed = {value: sizes for (size, value), sizes in points.items() if size == name}
        times = {value: summary(taken[name, value]) for value in changed}
        medians = {value: repeats["median"] for value, repeats in times.items()}
        operations = {value: count_operations(sizes) for value, sizes in changed.items()}
        megabytes = {value: peaks[name, value] for value in changed}
        estimates = {value: estimate_memory(sizes) for value, sizes in changed.items()}
        largest = max(medians)
        rows.append(
            {
                "task": "sizes",
                "arm": name,
                "base": BASE,
                "milliseconds": times,
                "operations": operations,
                "megabytes": megabytes,
                "megabytes_estimated": {
                    value: (fixed + changed[value]["batch_size"] * row) / 1e6
                    for value, (_, fixed, row) in estimates.items()
                },
                "exponents": {
                    "time": fit_exponent(medians),
                    "operations": fit_exponent(operations),
                    "memory": fit_exponent(megabytes),
                },
                "operations_a_second": operations[largest] / medians[largest] * 1e3,
            }
        )
    return rows


def compute_models(rate: float) -> list[dict]:
    """A row for each model: what a step on one row needs, and where it fits."""
    rows = []
    for name, sizes in MODELS.items():
        sizes = {**sizes, "batch_size": 1}
        parameters, fixed, row_bytes = estimate_memory(sizes)
        operations = count_operations(sizes)
        rows.append(
            {
                "task": "models",
                "arm": name,
                "sizes": sizes,
                "parameters": parameters,
                "bytes_of_weights": fixed,
                "bytes_of_a_row": row_bytes,
                "rows_that_fit": {
                    place: max(0, int((room - fixed / sharers) // row_bytes)) * sharers
                    for place, (room, sharers) in PLACES.items()
                },
                "operations": operations,
                "seconds_here": operations / rate,
                "seconds_of_a_gpu": operations / GPU_RATE,
            }
        )
    return rows


def main() -> None:
    parser = build_arguments(__doc__.splitlines()[0], ("sizes", "models"))
    parser.add_argument("--repeats", type=int, default=5, help="of each step (default: %(default)s)")
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    around = {"script": "scaling", "quick": arguments.quick, **environment()}
    rows = measure_sizes(1 if arguments.quick else arguments.repeats, 2 if arguments.quick else None)
    rate = next(row for row in rows if row["arm"] == "hidden_size")["operations_a_second"]
    if "models" in arguments.tasks:
        rows += compute_models(rate)
    rows = [row for row in rows if row["task"] in arguments.tasks]
    show("Exponents of a training step", ["task", "size", "time", "operations", "memory"], [
        (row["task"], row["arm"], *(f"{value:.2f}" for value in row["exponents"].values()))
        for row in rows if row["task"] == "sizes"
    ], around)  # fmt: skip
    show("One row", ["task", "model", "parameters", "GB of weights", "GB of a row", "s here"], [
        (row["task"], row["arm"], f"{row['parameters']:,}", f"{row['bytes_of_weights'] / 1e9:.2f}",
         f"{row['bytes_of_a_row'] / 1e9:.2f}", f"{row['seconds_here']:.2f}")
        for row in rows if row["task"] == "models"
    ], around)  # fmt: skip
    record(arguments.output / "scaling.jsonl", rows, around)


if __name__ == "__main__":
    main()
