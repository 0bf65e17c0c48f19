"""Every position encoding, on the same tasks with the same budget: inside the trained length and beyond it.

“The Birth of Transformers” prints five accuracies on GLUE by position encoding, without a model, a task of
GLUE, a training or a seed; this is measured in their place.
"""

import dataclasses
import itertools
import statistics
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import torch

from hf_attn.architectures.registry import build_model
from hf_attn.evaluation.metrics import evaluate
from hf_attn.experiments.base import Experiment, Finding, Row, learn, mean_of, settings_of, values_of
from hf_attn.experiments.length_generalization import ADDITION, CANNOT, LengthTest, measure_size
from hf_attn.models.configuration_attn_encoder import AttnEncoderConfig
from hf_attn.models.position_base import Positions
from hf_attn.models.positions import POSITION_TYPES
from hf_attn.tasks.base import Task
from hf_attn.tasks.recipes import Recipe
from hf_attn.training.loop import build_optimizer, learning_inputs
from hf_attn.viz.draw_chart import Chart

SURE = 0.95  # an accuracy that says: learned
FEW = 0.05  # an accuracy below this says: not learned
DEAR = 1.5  # times as long a step
FULL, AND = "full", " + "  # the usual attention; what stands before the name of another one
CHARTED = 5  # types that a chart has room for
TIMED_STEPS = 7
TESTS = (
    LengthTest("copy", 20, (21, 25, 30)),
    LengthTest("reverse", 20, (21, 25, 30)),
    LengthTest("addition", 3, (4,)),
)
SMALL_TESTS = (
    LengthTest("copy", 10, (11, 12, 15)),
    LengthTest("reverse", 10, (11, 12, 15)),
    LengthTest("addition", 2, (3,)),
)
FEW_TYPES = ("none", "sinusoidal", "learned", "rotary", "relative", "alibi")


@dataclass(frozen=True)
class Sizes:
    """What is trained."""

    types: tuple[str, ...] = FEW_TYPES  # position encodings, names in POSITION_TYPES
    tests: tuple[LengthTest, ...] = SMALL_TESTS  # what is learned of each task, and measured beyond
    examples: int = 300  # held-out examples inside, and at each size beyond
    attention: tuple[str, ...] = (FULL,)  # attention types, each with every encoding

    def __post_init__(self) -> None:
        for position_type, kind in itertools.product(self.types, self.attention):
            AttnEncoderConfig(position_type=position_type, attention_type=kind)  # refuses what it cannot be


def run(sizes: Sizes, seed: int) -> Iterator[Row]:
    for test in sizes.tests:
        for position_type, kind in itertools.product(sizes.types, sizes.attention):
            yield measure(test, position_type, seed, sizes.examples, kind)


def measure(
    test: LengthTest, position_type: str, seed: int, examples: int, attention_type: str = FULL
) -> Row:
    """Train one model; the figures of its row, which names another attention behind the encoding.

    `inside` and `beyond` are shares of held-out examples written right as a whole, beyond the mean over the
    sizes that are measured there; `tokens_…` are the shares of symbols.
    """
    task, recipe = test.learned(), test.recipe(position_type)
    recipe = dataclasses.replace(recipe, model={**recipe.model, "attention_type": attention_type})
    step = measure_step(task, recipe)
    model, _ = learn(task, recipe, seed)
    inside = evaluate(model, task, n=examples).overall
    beyond = [measure_size(model, test, size, examples) for size in test.beyond]
    measured = [score for score in beyond if score is not None]
    row: Row = {
        "task": test.task,
        "position_type": position_type + (f"{AND}{attention_type}" if attention_type != FULL else ""),
        "seed": seed,
        "trained": test.trained,
        "tested": " ".join(map(str, test.beyond)),
        "parameters": model.num_parameters(),
        "steps": recipe.steps,
        "inside": inside.exact_match,
        "tokens_inside": inside.measures["token_accuracy"],
    }
    if len(measured) == len(beyond):
        row["beyond"] = statistics.fmean(score.exact_match for score in measured)
        row["tokens_beyond"] = statistics.fmean(score.measures["token_accuracy"] for score in measured)
    else:
        row["beyond"] = row["tokens_beyond"] = CANNOT
    return {**row, **step}


def find_encoding(kind: str) -> type[Positions]:
    """The encoding of a row's `position_type`, which may name an attention, too."""
    return POSITION_TYPES[kind.partition(AND)[0]]


def measure_step(task: Task, recipe: Recipe) -> Row:
    """What one step of training takes: `step_ms` of the processor, `step_mb` of memory.

    The time is the median of some steps, in processor time: with one thread that is what an idle machine
    would take. The memory is what is held where the backward pass begins, about the most that a step holds:
    weights, gradients, AdamW's two moments, and all that the forward pass keeps for the gradients.
    """
    model = build_model(task, recipe)
    optimizer = build_optimizer(model, recipe)
    inputs = learning_inputs(model, task.sample(torch.Generator().manual_seed(0), recipe.batch_size))
    model.train()
    taken = []
    for _ in range(TIMED_STEPS):
        started = time.process_time()
        model(**inputs).loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        taken.append(time.process_time() - started)
    weights = sum(weight.nbytes for weight in model.parameters())
    held = 4 * weights + measure_kept(model, inputs)  # with gradients and two moments
    return {"step_ms": round(1e3 * statistics.median(taken), 2), "step_mb": round(held / 2**20, 2)}


def measure_kept(model: torch.nn.Module, inputs: Mapping[str, torch.Tensor]) -> int:
    """Bytes that a forward pass keeps for the backward one, weights aside; what is shared counts once."""
    weights = {weight.untyped_storage().data_ptr() for weight in model.parameters()}
    kept: dict[int, int] = {}

    def keep(tensor: torch.Tensor) -> torch.Tensor:
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in weights:
            kept[storage.data_ptr()] = storage.nbytes()
        return tensor.detach()  # without its history, which would hold on to itself

    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        loss = model(**inputs).loss
    del loss  # only now may what was kept be given away
    return sum(kept.values())


def judge(rows: Sequence[Row]) -> tuple[Finding, ...]:
    types, tasks = settings_of(rows, "position_type"), settings_of(rows, "task")
    findings = [_judge_task(rows, task, types) for task in tasks]
    if "none" in types:
        sequences = [task for task in tasks if task != ADDITION]
        inside = {task: mean_of(rows, "inside", task=task, position_type="none") for task in sequences}
        findings.append(
            Finding(
                f"Without positions nothing is written in order: less than {FEW:.0%} right inside.",
                all(share < FEW for share in inside.values()),
                ", ".join(f"{task} {share:.3f}" for task, share in inside.items()),
            )
        )
        cost = {
            kind: statistics.fmean(
                mean_of(rows, "step_ms", task=task, position_type=kind)
                / mean_of(rows, "step_ms", task=task, position_type="none")
                for task in tasks
            )
            for kind in types
        }
        dearest = sorted(types, key=lambda kind: -cost[kind])[:3]
        findings.append(
            Finding(
                f"Some encoding makes a training step at least {DEAR} times as long as without positions.",
                max(cost.values()) >= DEAR,
                "longest " + ", ".join(f"{kind} ×{cost[kind]:.2f}" for kind in dearest),
            )
        )
    refusing = [kind for kind in types if CANNOT in values_of(rows, "beyond", position_type=kind)]
    findings.append(
        Finding(
            "Only the learned table refuses sequences longer than the trained length.",
            set(refusing) == {kind for kind in types if not find_encoding(kind).extrapolates},
            f"{len(refusing)} of {len(types)} refuse: {', '.join(refusing) or 'none'}",
        )
    )
    return tuple(findings)


def _judge_task(rows: Sequence[Row], task: str, types: Sequence[str]) -> Finding:
    inside = {kind: mean_of(rows, "inside", task=task, position_type=kind) for kind in types}
    beyond = {kind: mean_beyond(rows, "beyond", task, kind) for kind in types}
    able = {kind: share for kind, share in beyond.items() if share is not None}
    best = sorted(able, key=lambda kind: (-able[kind], -inside[kind]))[:3]
    learned = sum(share >= SURE for share in inside.values())
    told = ", ".join(f"{kind} {able[kind]:.3f} (inside {inside[kind]:.3f})" for kind in best)
    return Finding(
        f"{task}: some encoding gets at least {SURE:.0%} right beyond the trained length.",
        any(share >= SURE for share in able.values()),
        f"{learned} of {len(types)} encodings get as much inside; furthest beyond {told}",
    )


def mean_beyond(rows: Sequence[Row], measure: str, task: str, position_type: str) -> float | None:
    """The mean over seeds of what was measured beyond; None where the model refuses."""
    chosen = {"task": task, "position_type": position_type}
    values = values_of(rows, measure, **chosen)
    return None if CANNOT in values else statistics.fmean(values)


def draw(rows: Sequence[Row]) -> Chart:
    tasks, types = settings_of(rows, "task"), settings_of(rows, "position_type")

    def beyond(task: str, kind: str) -> float:
        return mean_beyond(rows, "tokens_beyond", task, kind) or 0.0

    best = sorted(types, key=lambda kind: -sum(beyond(task, kind) for task in tasks))[:CHARTED]
    series = {
        f"{task}, beyond {settings_of(rows, 'trained', task=task)[0]}": [
            (kind.replace("_", "\n"), beyond(task, kind)) for kind in best
        ]
        for task in tasks
    }
    return Chart(
        "Beyond the trained length: the encodings that get most right", "", "symbols right, held out", series
    )


EXPERIMENT = Experiment(
    title="Position encodings",
    question="Which position encodings learn, which generalize beyond the trained length, at what cost?",
    settings=("task", "position_type"),
    sizes=Sizes(),
    full=Sizes(tuple(POSITION_TYPES), TESTS),
    count=lambda sizes: len(sizes.types) * len(sizes.attention) * len(sizes.tests),
    run=run,
    judge=judge,
    draw=draw,
)
