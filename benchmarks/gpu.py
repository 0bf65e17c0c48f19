"""Training on a GPU beside the processor: seconds to 99 % of validation examples, and steps a second.

    python -m benchmarks.gpu [--tasks copy parser addition] [--seeds 3] [--device cuda] [--quick]

The recipes that the app runs by default, seed by seed in turn: on the processor, on the GPU in float32, and
with products in bfloat16 where the GPU has those. Measuring is not counted. `--device cpu` shows that the
script runs where there is no GPU: the processor then races against itself.
"""

import dataclasses
import statistics
import sys

import torch
from accelerate import Accelerator
from accelerate.state import AcceleratorState

from benchmarks.report import build_arguments, environment, record, show, take_turns
from benchmarks.time_to_accuracy import Outcome, arm_row, measure_ours, race, tell, warm_up
from hf_attn.tasks import build_task
from hf_attn.training.device import build_accelerator, describe_device

WANTED = {"copy": 1.0, "parser": 1.0, "addition": 1.0}  # seconds on a GPU
QUICK_STEPS = 4


def list_arms(device: str) -> dict[str, tuple[str, str]]:
    """Name → (device, precision): the processor, the device, and that in bfloat16 where it is a GPU's own."""
    arms = {"processor": ("cpu", "no"), f"{device}, float32": (device, "no")}
    if device == "cuda" and torch.cuda.is_bf16_supported(including_emulation=False):
        arms[f"{device}, bfloat16"] = (device, "bf16")
    return arms


def open_device(device: str, precision: str) -> Accelerator:
    """Accelerate keeps one device and one precision a process: it is made to forget both."""
    build_accelerator(device)  # refuses what is not here
    AcceleratorState._reset_state(reset_partial_state=True)
    return Accelerator(cpu=device == "cpu", mixed_precision=precision)


def compare(name: str, seeds: int, arms: dict[str, tuple[str, str]], *, quick: bool) -> list[dict]:
    """One task's recipe on each device, seed by seed in turn: a row each."""
    task = build_task(name)
    recipe = dataclasses.replace(task.recipe, steps=QUICK_STEPS) if quick else task.recipe
    every = min(recipe.evaluate_every, recipe.steps)
    outcomes: dict[str, list[Outcome]] = {arm: [] for arm in arms}
    for seed, order in enumerate(take_turns(list(arms), seeds)):
        for arm in order:
            accelerator = open_device(*arms[arm])
            warm_up(task, recipe, accelerator=accelerator)
            outcomes[arm].append(race(measure_ours(task, recipe, seed, every, accelerator)))
            tell(name, arm, seed, outcomes[arm][-1])
    rows = [arm_row(name, arm, ran) for arm, ran in outcomes.items()]
    for row, ran in zip(rows, outcomes.values(), strict=True):
        row["steps_per_second"] = statistics.median(one.last.step / one.last.seconds for one in ran)
        row["ratio_to_processor"] = rows[0]["median_seconds"] / row["median_seconds"]
    return [rows[0], *({**row, "goal": WANTED[name]} for row in rows[1:])]


def cells(row: dict) -> list[str]:
    return [
        row["task"],
        row["arm"],
        f"{'>' if row['is_lower_bound'] else ''}{row['median_seconds']:.2f}",
        f"{statistics.median(row['steps']):g}",
        f"{row['steps_per_second']:,.0f}",
        f"{row['ratio_to_processor']:.3g}×",
        f"≤{row['goal']:g} s" if "goal" in row else "",
    ]


def main() -> None:
    parser = build_arguments(__doc__.splitlines()[0].replace("%", "%%"), list(WANTED))
    parser.add_argument("--seeds", type=int, default=3, help="runs of each arm (default: %(default)s)")
    parser.add_argument("--device", default="cuda", help="beside the processor (default: %(default)s)")
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    try:
        device = describe_device(open_device(arguments.device, "no"))
    except ValueError as error:
        sys.exit(f"benchmarks.gpu: {error}")
    around = {"script": "gpu", "quick": arguments.quick, "device": device, **environment()}
    arms, rows = list_arms(arguments.device), []
    for name in arguments.tasks:
        measured = compare(name, 1 if arguments.quick else arguments.seeds, arms, quick=arguments.quick)
        record(arguments.output / "gpu.jsonl", measured, around)
        rows += measured
    columns = ["task", "arm", "median s to 99 %", "steps", "steps/s", "of the processor", "wanted"]
    show(f"Training on {device}", columns, [cells(row) for row in rows], around)


if __name__ == "__main__":
    main()
