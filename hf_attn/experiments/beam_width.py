"""Does it help to keep several half-written answers? Beam search on a model that is half trained.

Greedy decoding takes the likeliest token each time; K beams keep the K likeliest beginnings, and so find
sequences that greedy decoding cuts off early.
"""

import itertools
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch

from hf_attn.evaluation.metrics import exact_matches, wilson_interval
from hf_attn.experiments.base import Experiment, Finding, Row, join_figures, learn, points_of, settings_of
from hf_attn.generation.generate import evaluating
from hf_attn.tasks.batch import END, IGNORED, PAD, Batch
from hf_attn.tasks.recipes import Recipe
from hf_attn.tasks.synthetic.reversing import Reversing
from hf_attn.viz.draw_chart import Chart

FEW = 0.05  # of what is wrong, a share that is hardly worth a wider search


@dataclass(frozen=True)
class Sizes:
    """What is trained and searched."""

    length: int = 10  # symbols of every sequence
    num_beams: tuple[int, ...] = (1, 3, 5, 10)  # widths of the search; 1 is greedy
    recipe: Recipe = Recipe(  # noqa: RUF009 - frozen; too short for the LSTM to be right
        {"hidden_size": 128, "bidirectional": False}, "none", steps=250, batch_size=64, learning_rate=4e-3
    )
    examples: int = 500  # held-out sequences to write


@torch.no_grad()
def log_probabilities(model, batch: Batch, written: torch.Tensor) -> torch.Tensor:
    """[B] Σ log p of what is written, ids [B, T], up to `</s>`: of each token, given those before it."""
    is_end = (written == END).long()
    labels = written.masked_fill(is_end.cumsum(1) - is_end > 0, IGNORED)
    logits = model(input_ids=batch.input_ids, attention_mask=batch.attention_mask, labels=labels).logits
    counts = labels != IGNORED
    chosen = logits.log_softmax(-1).gather(2, labels.masked_fill(~counts, 0).unsqueeze(2)).squeeze(2)
    return (chosen * counts).sum(dim=1)


def search(model, batch: Batch, num_beams: int, max_new_tokens: int) -> torch.Tensor:
    """[B, T] what beam search finds, by the sum of log p whatever the length; padding behind `</s>`."""
    with evaluating(model):
        found = model.generate(
            batch.input_ids,
            attention_mask=batch.attention_mask,
            num_beams=num_beams,
            length_penalty=0.0 if num_beams > 1 else None,
            do_sample=False,
            max_new_tokens=max_new_tokens,
        )[:, 1:]
    return torch.nn.functional.pad(found, (0, max_new_tokens - found.shape[1]), value=PAD)


def run(sizes: Sizes, seed: int) -> Iterator[Row]:
    """Train once; a row for each width of the search over the same model and sources."""
    task = Reversing(min_length=sizes.length, max_length=sizes.length)
    model, _ = learn(task, sizes.recipe, seed)
    batch = task.held_out(sizes.examples)
    with evaluating(model):
        right_log_p = log_probabilities(model, batch, batch.labels)
    for num_beams in sizes.num_beams:
        started = time.perf_counter()
        written = search(model, batch, num_beams, task.max_target_tokens)
        seconds = time.perf_counter() - started
        with evaluating(model):
            log_p = log_probabilities(model, batch, written)
        right = exact_matches(written, batch.labels)
        same = written[:, : batch.labels.shape[1]] == batch.labels
        interval = wilson_interval(int(right.sum()), len(batch))
        yield {
            "num_beams": num_beams,
            "seed": seed,
            "token_accuracy": float(same[batch.labels != END].float().mean()),
            "exact_match": float(right.float().mean()),
            "low": interval.low,
            "high": interval.high,
            "log_probability": float(log_p.mean()),
            "right_answer_log_probability": float(right_log_p.mean()),
            "search_errors": float((~right & (right_log_p > log_p)).float().mean()),
            "examples": len(batch),
            "seconds": round(seconds, 2),
        }


def judge(rows: Sequence[Row]) -> tuple[Finding, ...]:
    widths = settings_of(rows, "num_beams")
    log_p, exact, errors = (
        [mean for _, mean in points_of(rows, "num_beams", measure)]
        for measure in ("log_probability", "exact_match", "search_errors")
    )
    named = "beams " + " / ".join(map(str, widths))
    return (
        Finding(
            "More beams find likelier sequences.",
            all(wide >= narrow for narrow, wide in itertools.pairwise(log_p)) and log_p[-1] > log_p[0],
            f"{named}: mean log p {join_figures(log_p)}",
        ),
        Finding(
            f"{widths[-1]} beams get more sequences right than {widths[0]}.",
            exact[-1] > exact[0],
            f"{named}: right as a whole {join_figures(exact)}",
        ),
        Finding(
            f"With {widths[-1]} beams, in at least {1 - FEW:.0%} of its errors the model finds its own "
            "answer likelier than the right one.",
            errors[-1] <= FEW * (1 - exact[-1]),
            f"{named}: {join_figures(errors)} overlooked a likelier right answer",
        ),
    )


def draw(rows: Sequence[Row]) -> Chart:
    names = {"exact_match": "right as a whole", "search_errors": "wrong, right answer likelier"}
    series = {name: points_of(rows, "num_beams", measure) for measure, name in names.items()}
    return Chart("Beam search by a half-trained LSTM", "beams", "share of held-out sequences", series)


EXPERIMENT = Experiment(
    title="Greedy against beam search",
    question="Does a wider search find likelier answers, and are they more often right?",
    settings=("num_beams",),
    sizes=Sizes(),
    full=Sizes(recipe=Reversing(min_length=10, max_length=10).recipes_of("none")["document"], examples=1000),
    count=lambda sizes: len(sizes.num_beams),
    run=run,
    judge=judge,
    draw=draw,
)
