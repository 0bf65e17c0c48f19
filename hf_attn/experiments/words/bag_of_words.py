"""Two sentences with the same words in another order: the same bag, and what attention makes of each word."""

import dataclasses
import functools
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch

from hf_attn.architectures.registry import drawing_weights
from hf_attn.evaluation.metrics import predict
from hf_attn.experiments import word_order
from hf_attn.experiments.base import start_training
from hf_attn.models.config_checks import SEEDS, check_number
from hf_attn.models.configuration_attn_encoder import AttnEncoderConfig
from hf_attn.models.modeling_attn_encoder import AttnEncoderModel
from hf_attn.tasks import Batch, Task
from hf_attn.training.loop import VALIDATION_SAMPLE
from hf_attn.utils.text import shorten

PLACES = {"without positions": "none", "with positions": "sinusoidal"}  # position encodings
POOLED = "mean of all"
EVERY = 10  # steps between two measurements


@dataclass(frozen=True)
class WordPair:
    """A word in both sentences.

    Attributes:
        word: of several equal ones each has its own line.
        places: in the first sentence and in the second, from 0; None of the mean of all words.
        distance: "without positions" and "with positions" → ‖h₁ − h₂‖ / ‖h₁‖ of its two outputs.
    """

    word: str
    places: tuple[int, int] | None
    distance: dict[str, float]


@dataclass(frozen=True)
class Comparison:
    """Two orders of the same words.

    Attributes:
        bag: word → how often; both sentences have this one.
        rows: a line for each word of the first sentence, then one for the mean of all.
    """

    bag: dict[str, int]
    rows: tuple[WordPair, ...]


@dataclass(frozen=True)
class Learned:
    """One model that says which of two letters comes first, or how far it has come.

    Attributes:
        name: of the model.
        parameters: how many numbers it learns.
        steps: in all; 0 for one that only counts.
        points: (step, validation accuracy).
        held_out: accuracy on held-out examples, measured once it learns no more; None before.
        answers: which letter it says comes first in a held-out sequence and in its twin; empty until then.
        is_done: it learns no more.
    """

    name: str
    parameters: int
    steps: int
    points: tuple[tuple[int, float], ...]
    held_out: float | None = None
    answers: tuple[str, ...] = ()
    is_done: bool = False


def compare_word_orders(one: Sequence[str], other: Sequence[str], seed: int = 0) -> Comparison:
    """Read two sentences with an untrained encoder layer, with and without positions.

    Without positions attention is equivariant: f(P X) = P f(X), so each word's output is the same wherever it
    stands, and their mean cannot tell the sentences apart.

    Args:
        one: words.
        other: the same words in another order.
        seed: of the layer's weights.

    Raises:
        ValueError: the words are not the same, or fewer than two.
    """
    bag = Counter(one)
    missing, extra = list((bag - Counter(other)).elements()), list((Counter(other) - bag).elements())
    if missing or extra:
        differences = [f"only the first has {shorten(', '.join(missing[:3]))}"] * bool(missing)
        differences += [f"only the second has {shorten(', '.join(extra[:3]))}"] * bool(extra)
        raise ValueError(f"The sentences must have the same words: {'; '.join(differences)}.")
    if len(one) < 2:
        raise ValueError("One word has no order: write two words or more.")
    number = {word: place for place, word in enumerate(bag)}
    free = defaultdict(list)  # the places of each word in the second sentence
    for place, word in enumerate(other):
        free[word].append(place)
    partners = [free[word].pop(0) for word in one]
    distances = {}
    for name, position_type in PLACES.items():
        first, second = (
            read_untrained([number[word] for word in words], len(bag), position_type, seed)
            for words in (one, other)
        )
        apart = [(first[place], second[partner]) for place, partner in enumerate(partners)]
        apart.append((first.mean(dim=0), second.mean(dim=0)))
        distances[name] = [float((a - b).norm() / a.norm()) for a, b in apart]
    rows = [
        WordPair(word, (place, partners[place]), {name: all_[place] for name, all_ in distances.items()})
        for place, word in enumerate(one)
    ]
    mean = WordPair(POOLED, None, {name: all_[-1] for name, all_ in distances.items()})
    return Comparison(dict(bag), (*rows, mean))


@torch.no_grad()
def read_untrained(ids: Sequence[int], words: int, position_type: str, seed: int) -> torch.Tensor:
    """Outputs [T, 32] of one encoder layer with random weights, the same for the same seed."""
    config = AttnEncoderConfig(
        vocab_size=words,
        hidden_size=32,
        num_attention_heads=2,
        intermediate_size=64,
        num_hidden_layers=1,
        max_position_embeddings=len(ids),
        position_type=position_type,
        zero_init_residual=False,
        pad_token_id=None,
    )
    with drawing_weights(seed):
        model = AttnEncoderModel(config).double().eval()
    return model(torch.tensor([ids])).last_hidden_state[0]


def learn_word_order(sizes: word_order.WordOrderSizes, seed: int) -> Iterator[list[Learned]]:
    """Which of a and b stands first? Naive Bayes counts, then attention learns without and with positions.

    Yields:
        Every model as it stands, about every tenth step; stopping is closing the generator.
    """
    check_number("seed", seed, *SEEDS)
    task = word_order.Order(sizes.length)
    training = task.sample(torch.Generator().manual_seed(seed), 10 * sizes.examples)
    held_out = task.held_out(sizes.examples)
    size = len(task.vocabulary)
    validating = task.validation(VALIDATION_SAMPLE)
    named = word_order.naive_bayes(training, validating, size)
    counted = Learned(
        word_order.NAIVE_BAYES,
        len(task.classes) * (size + 1),
        0,
        ((0, float((named == validating.labels).float().mean())),),
    )
    done = [conclude(counted, task, held_out, word_order.naive_bayes(training, held_out, size))]
    yield done
    for place in PLACES:
        name = f"attention {place}"
        recipe = dataclasses.replace(
            word_order.RECIPES[name], steps=sizes.steps, report_every=EVERY, evaluate_every=EVERY
        )
        model, loop = start_training(task, recipe, seed)
        learned = Learned(name, model.num_parameters(), sizes.steps, ())
        for report in loop:
            point = (report.step, report.validation_exact_match)
            learned = dataclasses.replace(learned, points=(*learned.points, point))
            yield [*done, learned]
        done = [*done, conclude(learned, task, held_out, predict(model, task, held_out)[:, 0])]
        yield done


def conclude(learned: Learned, task: Task, held_out: Batch, named: torch.Tensor) -> Learned:
    """The model at its end: what it names of the held-out examples, [B], the first two of them twins."""
    return dataclasses.replace(
        learned,
        held_out=float((named == held_out.labels).float().mean()),
        answers=tuple(task.classes[index] for index in named[:2].tolist()),
        is_done=True,
    )


@functools.cache
def twins(sizes: word_order.WordOrderSizes) -> tuple[str, str]:
    """A held-out sequence and the same with a and b in each other's place."""
    task = word_order.Order(sizes.length)
    one, other = (task.read_source(row) for row in task.held_out(sizes.examples).input_ids[:2].tolist())
    return one, other
