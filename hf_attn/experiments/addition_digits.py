"""Addition learned with few digits and measured with more.

Two formats. "padded": every number is as wide as the longest that is tested, so that all positions occur in
training, the first ones only with a zero. "own width": numbers are as wide as the longest of their size, so
that the sequence itself grows beyond what was trained.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from hf_attn.experiments.base import Experiment, Finding, Row, learn, mean_of, points_of, settings_of
from hf_attn.experiments.length_generalization import ADDITION, CANNOT, LengthTest, measure_size
from hf_attn.viz.draw_chart import Chart

PADDED, OWN_WIDTH = "padded", "own width"
SURE = 0.9  # of the sums: learned
FEW = 0.1  # of the sums: not learned


@dataclass(frozen=True)
class Sizes:
    """What is trained."""

    formats: tuple[tuple[str, tuple[str, ...]], ...] = (  # format → position encodings that learn it
        (PADDED, ("learned",)),
        (OWN_WIDTH, ("learned", "relative")),
    )
    trained: tuple[int, ...] = (1, 2, 3)  # most digits of an addend that a training sees, one training each
    longest: int = 4  # most digits that are measured; the last of `trained` may reach it
    steps: int = 300  # of each training
    examples: int = 300  # held-out sums of each number of digits, about; there are fewer short ones


def run(sizes: Sizes, seed: int) -> Iterator[Row]:
    for form, types in sizes.formats:
        for position_type in types:
            for trained in sizes.trained:
                yield from measure(sizes, form, position_type, trained, seed)


def measure(sizes: Sizes, form: str, position_type: str, trained: int, seed: int) -> Iterator[Row]:
    tested = tuple(range(1, sizes.longest + 1))
    test = LengthTest(ADDITION, trained, tested, sizes.steps, own_width=form == OWN_WIDTH)
    model, seconds = learn(test.learned(), test.recipe(position_type), seed)
    for digits in tested:
        score = measure_size(model, test, digits, sizes.examples)
        yield {
            "format": form,
            "position_type": position_type,
            "trained": trained,
            "digits": digits,
            "seed": seed,
            "sums": score.exact_match if score else CANNOT,
            "symbols": score.measures["digit_accuracy"] if score else CANNOT,
            "examples": score.examples if score else 0,
            "steps": sizes.steps,
            "parameters": model.num_parameters(),
            "seconds": round(seconds, 2),
        }


def judge(rows: Sequence[Row]) -> tuple[Finding, ...]:
    findings = []
    able = [row for row in rows if row["sums"] != CANNOT]
    for form in settings_of(rows, "format"):
        for kind in settings_of(rows, "position_type", format=form):
            line = {"format": form, "position_type": kind}
            trainings = settings_of(rows, "trained", **line)
            inside = {most: mean_of(able, "sums", **line, trained=most, digits=most) for most in trainings}
            further = {
                most: mean_of(able, "sums", **line, trained=most, digits=most + 1)
                for most in trainings
                if most + 1 in settings_of(able, "digits", **line, trained=most)
            }
            learned = ", ".join(f"{most}: {share:.3f}" for most, share in inside.items())
            if not further:
                findings.append(
                    Finding(
                        f"{form}, {kind}: one digit more than trained cannot even be read.",
                        True,
                        f"sums right at most digits trained, {learned}; longer ones are refused",
                    )
                )
                continue
            more = ", ".join(f"{most} → {most + 1}: {share:.3f}" for most, share in further.items())
            findings.append(
                Finding(
                    f"{form}, {kind}: with one digit more than trained less than {FEW:.0%} are right.",
                    all(share < FEW for share in further.values()),
                    f"sums right at most digits trained, {learned}; with one more, {more}",
                )
            )
    return tuple(findings)


def draw(rows: Sequence[Row]) -> Chart:
    able = [row for row in rows if row["sums"] != CANNOT]
    series = {
        f"{form}, {kind}, trained to {trained}": points
        for form in settings_of(rows, "format")
        for kind in settings_of(rows, "position_type", format=form)
        for trained in settings_of(rows, "trained", format=form, position_type=kind)
        if (points := points_of(able, "digits", "sums", format=form, position_type=kind, trained=trained))
    }
    return Chart("Addition beyond the digits it was trained with", "digits", "sums right, held out", series)


EXPERIMENT = Experiment(
    title="Digit growth",
    question="How many sums does a model get right that have more digits than it was trained on?",
    settings=("format", "position_type", "trained", "digits"),
    sizes=Sizes(),
    full=Sizes(
        ((PADDED, ("learned", "sinusoidal", "relative")), (OWN_WIDTH, ("learned", "sinusoidal", "relative"))),
        trained=(1, 2, 3, 4),
        longest=5,
        steps=400,
    ),
    count=lambda sizes: sum(len(types) for _, types in sizes.formats) * len(sizes.trained) * sizes.longest,
    run=run,
    judge=judge,
    draw=draw,
)
