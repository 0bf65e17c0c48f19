"""Time of one training step: ours, `nn.Transformer`, Bart of the same size, and the floor of matrix products.

    python -m benchmarks.train_speed [--threads N] [--repeats R] [--quick]

A repeat is a block of steps of each arm, one arm after another; the order turns round every repeat. Ratios
are medians over repeats of the ratio within a repeat, so that a slower minute falls on both sides.
"""

import dataclasses
import statistics
import time
from collections.abc import Callable

import torch

from benchmarks.peers import DOCUMENT, DocumentSettings, Learner, build_bart_learner, build_document_learner
from benchmarks.report import build_arguments, environment, record, show, summary, take_turns
from hf_attn.architectures.registry import build_model
from hf_attn.tasks import Recipe, Task, build_task
from hf_attn.training.device import build_accelerator
from hf_attn.training.loop import train

OURS, DOCUMENT_ARM, BART_ARM, SAMPLING = "ours", "nn.Transformer", "Bart", "our sampling alone"
ENDLESS = 10**6  # steps of the recipe: more than any benchmark takes, so that its learning rate never falls
FLOOR_GOALS = {"copy": 2.2, "parser": 1.7, "addition": 1.35}  # wanted of ours, in multiples of the floor
SAMPLING_GOAL = 0.03  # wanted: share of a step
PRODUCT_SIZE = 1024  # the matrix product that the machine's rate is measured with: large enough to fill it
PRODUCTS = 10


def count_step_flops(
    settings: DocumentSettings, batch: int, source: int, target: int, vocabulary: int
) -> int:
    """Floating-point operations of the matrix products of one step; two for each multiply-add.

        encoder layer:  B·S·(4D² + 2DF) + 2B·S²·D
        decoder layer:  B·T·(6D² + 2DF) + 2B·S·D² + 2B·T²·D + 2B·T·S·D
        head:           B·T·D·V

    multiply-adds forward; backward takes twice as many. The causal half that a kernel may skip is counted.
    """
    d, f = settings.hidden_size, settings.intermediate_size
    encoder = batch * source * (4 * d * d + 2 * d * f) + 2 * batch * source**2 * d
    own = batch * target * (6 * d * d + 2 * d * f) + 2 * batch * target**2 * d
    memory = 2 * batch * source * d * d + 2 * batch * target * source * d
    forward = settings.layers * (encoder + own + memory) + batch * target * d * vocabulary
    return 2 * 3 * forward


def measure_product_rate() -> float:
    """Operations a second in fp32 matrix products."""
    left, right = torch.ones(2, PRODUCT_SIZE, PRODUCT_SIZE)
    started = time.perf_counter()
    for _ in range(PRODUCTS):
        left @ right
    return PRODUCTS * 2 * PRODUCT_SIZE**3 / (time.perf_counter() - started)


def our_block(task: Task, recipe: Recipe, steps: int) -> Callable[[], float]:
    """Our loop itself, reporting every `steps`: a call returns those steps' seconds."""
    recipe = dataclasses.replace(recipe, steps=ENDLESS, report_every=steps, evaluate_every=ENDLESS)
    run = train(task, build_model(task, recipe), recipe, accelerator=build_accelerator("cpu"))
    next(run)  # the report before the first step
    seconds = 0.0

    def take() -> float:
        nonlocal seconds
        before, seconds = seconds, next(run).seconds
        return seconds - before

    return take


def peer_block(learner: Learner, steps: int) -> Callable[[], float]:
    """A peer's steps: a call takes them and returns the seconds."""

    def take() -> float:
        started = time.perf_counter()
        for _ in range(steps):
            learner.step()
        return time.perf_counter() - started

    return take


def sampling_block(task: Task, batch_size: int, steps: int) -> Callable[[], float]:
    """Draw the examples of as many steps and do nothing with them."""
    generator = torch.Generator().manual_seed(0)

    def take() -> float:
        started = time.perf_counter()
        for _ in range(steps):
            task.sample(generator, batch_size)
        return time.perf_counter() - started

    return take


def measure(name: str, repeats: int, steps: int) -> list[dict]:
    settings = DOCUMENT[name]
    task = build_task(name, **settings.task_options)
    at_their_batch = dataclasses.replace(task.recipes["document"], batch_size=settings.batch_size)
    arms = {
        OURS: our_block(task, at_their_batch, steps),
        DOCUMENT_ARM: peer_block(build_document_learner(task, settings), steps),
        BART_ARM: peer_block(build_bart_learner(task, settings), steps),
        SAMPLING: sampling_block(task, settings.batch_size, steps),
    }
    for take in arms.values():  # a first block apart: memory is fetched and kernels are chosen in it
        take()
    measure_product_rate()
    times: dict[str, list[float]] = {arm: [] for arm in arms}
    rates = []
    for order in take_turns(list(arms), repeats):
        for arm in order:
            times[arm].append(arms[arm]() / steps * 1000)
        rates.append(measure_product_rate())
    batch = task.held_out(settings.batch_size)
    sizes = (settings.batch_size, batch.input_ids.shape[1], batch.labels.shape[1], len(task.vocabulary))
    flops = count_step_flops(settings, *sizes)
    shape = dict(zip(("batch", "source", "target", "vocabulary"), sizes, strict=True))
    floor = {"task": name, "arm": "floor", "milliseconds": summary([flops / rate * 1000 for rate in rates])}
    floor |= {"flops": flops, "gigaflops_per_second": statistics.median(rates) / 1e9}
    rows = [arm_row(name, arm, times, floor["milliseconds"]["median"]) for arm in arms] + [floor]
    return [line | {"repeats": repeats, "steps_a_repeat": steps, "shape": shape} for line in rows]


def arm_row(name: str, arm: str, times: dict[str, list[float]], floor: float) -> dict:
    """One arm's figures, with its ratio to ours, repeat by repeat, and to the floor."""
    ratios = [mine / ours for mine, ours in zip(times[arm], times[OURS], strict=True)]
    figures = {"task": name, "arm": arm, "milliseconds": summary(times[arm])}
    figures["ratio_to_ours"] = summary(ratios)
    if arm == SAMPLING:
        return figures | {"goal": SAMPLING_GOAL}
    figures["over_floor"] = figures["milliseconds"]["median"] / floor
    return figures | ({"goal": FLOOR_GOALS[name]} if arm == OURS else {})


def cells(line: dict) -> list[str]:
    times, ratio = line["milliseconds"], line.get("ratio_to_ours")
    low, high = times["quartiles"]
    goal = f"≤{line['goal']:.0%} of ours" if line["arm"] == SAMPLING else f"≤{line.get('goal')}× floor"
    return [
        line["task"],
        line["arm"],
        f"{times['median']:.2f}",
        f"{low:.2f} – {high:.2f}",
        f"{ratio['median']:.3g}×" if ratio else "",
        f"{line['over_floor']:.2f}×" if "over_floor" in line else "",
        goal if "goal" in line else "",
    ]


def main() -> None:
    parser = build_arguments(__doc__.splitlines()[0], list(DOCUMENT))
    parser.add_argument("--repeats", type=int, default=21, help="blocks of each arm (default: %(default)s)")
    parser.add_argument("--steps", type=int, default=10, help="steps a block (default: %(default)s)")
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    repeats, steps = (2, 1) if arguments.quick else (arguments.repeats, arguments.steps)
    around = {"script": "train_speed", "quick": arguments.quick, **environment()}
    lines = []
    for name in arguments.tasks:
        measured = measure(name, repeats, steps)
        record(arguments.output / "train_speed.jsonl", measured, around)
        lines += measured
    columns = ["task", "arm", "ms a step", "quartiles", "of ours", "over floor", "wanted"]
    show("One training step", columns, [cells(line) for line in lines], around)


if __name__ == "__main__":
    main()
