"""Which came first? A question that a bag of words cannot answer, because both answers have the same bag.

A bag of words counts tokens and forgets their order; so does attention without positions, whose mean over the
tokens is the same for every permutation of them.
"""

import dataclasses
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import torch

from hf_attn.evaluation.metrics import wilson_interval
from hf_attn.experiments.base import Experiment, Finding, Row, learn_and_measure, points_of
from hf_attn.models.config_checks import bounded
from hf_attn.tasks.base import ClassTask, SpacedTask, WorkedExample
from hf_attn.tasks.batch import PAD, Batch, Ragged
from hf_attn.tasks.recipes import Recipe
from hf_attn.tasks.synthetic.copying import LONGEST
from hf_attn.utils.text import quote
from hf_attn.viz.draw_chart import Chart

FIRST, SECOND = "a", "b"
FILLERS = tuple("cdefghij")
NAIVE_BAYES = "naive Bayes"
SURE = 0.95  # an accuracy that says: learned
CHANCE = 0.05  # an accuracy within this of one half is a coin's


@dataclass(frozen=True)
class Order(ClassTask, SpacedTask):
    """Say whether a stands before b: "c a d b" → "a first".

    Every example is drawn together with its twin, in which a and b have changed places: the same bag, the
    other answer. Both stand in one split.

    Args:
        length: symbols of every sequence.
    """

    length: int = bounded(12, 2, LONGEST)

    name = "order"
    title = "Order"
    notation = "letters separated by spaces, one a and one b among them"
    metric = "the right one named first"

    @property
    def classes(self) -> tuple[str, ...]:
        return (f"{FIRST} first", f"{SECOND} first")

    @property
    def symbols(self) -> tuple[str, ...]:
        return (FIRST, SECOND, *FILLERS)

    @property
    def max_source_tokens(self) -> int:
        return self.length + 1

    @property
    def allowed(self) -> str:
        return f"{self.length} letters from a to {FILLERS[-1]}, one a and one b among them"

    @property
    def recipes(self) -> Mapping[str, Recipe]:
        return {"product": RECIPES["attention with positions"]}

    @property
    def worked_example(self) -> WorkedExample:
        source = " ".join((FILLERS[0], FIRST, *FILLERS * self.length)[: self.length - 1]) + f" {SECOND}"
        return WorkedExample(source, self.answer(source), "Only the order of a and b counts.")

    def draw(self, generator: torch.Generator, n: int) -> tuple[Ragged, Ragged, torch.Tensor]:
        """Draw pairs of twins, one behind the other; the sequence with both letters made alike is the key."""
        pairs = (n + 1) // 2
        device = generator.device
        first, second, filler = self.ids(FIRST, SECOND, FILLERS[0])
        shape = (pairs, self.length)
        ids = torch.randint(filler, filler + len(FILLERS), shape, generator=generator, device=device)
        places = torch.rand(shape, generator=generator, device=device).argsort(dim=1)[:, :2]  # [pairs, 2]
        keys = ids.scatter(1, places, first)
        both = torch.tensor([[first, second], [second, first]], device=device)
        twins = torch.stack([ids.scatter(1, places, pair.expand(pairs, 2)) for pair in both], dim=1)
        is_second = torch.stack((places[:, 0] > places[:, 1], places[:, 0] < places[:, 1]), dim=1)
        lengths = torch.full((2 * pairs,), self.length, device=device)
        labels = Ragged(is_second.long().reshape(-1, 1), torch.ones_like(lengths))
        return Ragged(twins.flatten(0, 1), lengths), labels, keys.repeat_interleave(2, dim=0)

    def key_of(self, source: str) -> list[int]:
        """The sequence with both letters made alike."""
        first, second = self.ids(FIRST, SECOND)
        return [first if index == second else index for index in super().key_of(source)]

    def check_source(self, symbols: Sequence[str]) -> None:
        if len(symbols) != self.length or symbols.count(FIRST) != 1 or symbols.count(SECOND) != 1:
            self.refuse(f"{quote(' '.join(symbols))} is no sequence of {self.name}")

    def answer(self, source: str) -> str:
        return self.classes[source.index(FIRST) > source.index(SECOND)]

    def alignment(self, source: str, target: str) -> list[list[int]]:  # noqa: ARG002
        return [[int(symbol in (FIRST, SECOND)) for symbol in self.source_tokens(source)]]


ATTENTION = {
    "hidden_size": 32,
    "num_attention_heads": 2,
    "intermediate_size": 64,
    "num_hidden_layers": 1,
    "pooling": "mean",
}
LEARNING = Recipe(steps=200, batch_size=64, learning_rate=5e-3, warmup_steps=10)


def _recipe(architecture: str, **model) -> Recipe:
    return dataclasses.replace(LEARNING, architecture=architecture, model=model)


RECIPES: Mapping[str, Recipe] = {
    "attention without positions": _recipe("transformer", **ATTENTION, position_type="none"),
    "attention with positions": _recipe("transformer", **ATTENTION, position_type="learned"),
    "LSTM": _recipe("lstm", hidden_size=32, bidirectional=False),
}


@dataclass(frozen=True)
class WordOrderSizes:
    """What is trained.

    Attributes:
        length: symbols of every sequence.
        steps: of each training.
        examples: held-out sequences, half of them the other half's twins; naive Bayes counts ten times as
            many of training.
    """

    length: int = 12
    steps: int = 200
    examples: int = 1000


def naive_bayes(training: Batch, held_out: Batch, vocab_size: int) -> torch.Tensor:
    """Classify by counts alone, with Laplace's smoothing; padding does not count.

        argmax_c log p(c) + Σ_t log p(w_t | c),   p(w | c) = (n_wc + 1) / (n_c + V)

    Returns:
        [B] classes of the held-out sequences.
    """
    classes = int(training.labels.max()) + 1
    cells = training.labels.unsqueeze(1) * vocab_size + training.input_ids
    counts = cells[training.input_ids != PAD].bincount(minlength=classes * vocab_size)
    counts = counts.view(classes, vocab_size)
    log_p = ((counts + 1) / (counts.sum(dim=1, keepdim=True) + vocab_size)).log()  # [classes, V]
    is_token = (held_out.input_ids != PAD).unsqueeze(2)
    evidence = (log_p.T[held_out.input_ids] * is_token).sum(dim=1)  # [B, classes]
    return (training.labels.bincount(minlength=classes).log() + evidence).argmax(dim=1)


def run(sizes: WordOrderSizes, seed: int) -> Iterator[Row]:
    task = Order(sizes.length)
    training = task.sample(torch.Generator().manual_seed(seed), 10 * sizes.examples)
    held_out = task.held_out(sizes.examples)
    started = time.perf_counter()
    right = naive_bayes(training, held_out, len(task.vocabulary)) == held_out.labels
    interval = wilson_interval(int(right.sum()), len(right))
    yield {
        "model": NAIVE_BAYES,
        "seed": seed,
        "parameters": len(task.classes) * (len(task.vocabulary) + 1),
        "steps": 1,
        "exact_match": float(right.float().mean()),
        "low": interval.low,
        "high": interval.high,
        "examples": len(held_out),
        "seconds": round(time.perf_counter() - started, 2),
    }
    for name, recipe in RECIPES.items():
        chosen = dataclasses.replace(recipe, steps=sizes.steps)
        yield {"model": name, "seed": seed, **learn_and_measure(task, chosen, seed, sizes.examples)}


def judge(rows: Sequence[Row]) -> tuple[Finding, ...]:
    accuracy = dict(points_of(rows, "model", "exact_match"))
    findings = []
    for model in (NAIVE_BAYES, "attention without positions"):
        is_chance = abs(accuracy[model] - 0.5) <= CHANCE
        findings.append(
            Finding(f"Which came first is chance to {model}.", is_chance, f"{accuracy[model]:.1%} right")
        )
    for model in ("attention with positions", "LSTM"):
        is_learned = accuracy[model] >= SURE
        findings.append(
            Finding(f"The order is learned by {model}.", is_learned, f"{accuracy[model]:.1%} right")
        )
    return tuple(findings)


def draw(rows: Sequence[Row]) -> Chart:
    return Chart(
        "Does a stand before b? Equal bags, opposite answers",
        "",
        "accuracy, held out",
        {"accuracy": points_of(rows, "model", "exact_match")},
        level=0.5,
        level_label="chance",
    )


EXPERIMENT = Experiment(
    title="A bag of words and attention",
    question="Can a model that ignores the order of words tell which of two came first?",
    settings=("model",),
    sizes=WordOrderSizes(),
    full=WordOrderSizes(length=24, steps=1000),
    count=lambda sizes: 1 + len(RECIPES),  # noqa: ARG005
    run=run,
    judge=judge,
    draw=draw,
)
