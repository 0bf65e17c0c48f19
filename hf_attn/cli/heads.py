"""The command `heads`: what each attention head of a checkpoint does."""

import math
from typing import TYPE_CHECKING, Annotated

import typer

from hf_attn.cli.inspect import TaskName, TaskSettings
from hf_attn.cli.output import (
    SEED,
    SOURCE_TEXT,
    THREADS,
    AsJson,
    AttentionFile,
    Folder,
    check_data,
    open_checkpoint,
    print_json,
    print_table,
    working,
    wrong_use,
)

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from hf_attn.analysis.head_roles import Figures, HeadRoles
    from hf_attn.checkpoints.save_load import Checkpoint
    from hf_attn.tasks import Task

EXAMPLES = 100
# of a table for people, narrow enough for any terminal: name in ROLES or THEORY → column
COLUMNS = {
    "diagonal": "diag.",
    "previous": "prev.",
    "next": "next",
    "first": "first",
    "separator": "sep.",
    "alignment": "align",
    "chooses": "chooses",
    "entropy": "entropy",
    "effective_rank": "rank",
}
NOTHING = "–"


def heads(
    checkpoint: Folder,
    text: Annotated[str | None, SOURCE_TEXT] = None,
    examples: Annotated[
        int | None, typer.Option(min=1, help=f"Number of held-out examples (default: {EXAMPLES}).")
    ] = None,
    untrained: Annotated[
        bool, typer.Option("--untrained/--no-untrained", help="Also measure the same model untrained.")
    ] = True,
    seed: Annotated[int, SEED] = 0,
    threads: Annotated[int, THREADS] = 1,
    task: TaskName = None,
    settings: TaskSettings = None,
    attention: AttentionFile = None,
    as_json: AsJson = False,
) -> None:
    """Measure what each attention head does.

    Roles, entropy and rank of each head stand beside those of the untrained model and of uniform attention.
    Layers and heads are numbered from 0.
    """
    import torch

    from hf_attn.analysis.head_roles import measure_head_roles
    from hf_attn.evaluation.reach import widen_task

    torch.set_num_threads(threads)
    with wrong_use():
        if text is not None and examples is not None:
            raise ValueError(f"--examples {examples} is for held-out examples, and TEXT is one: give either.")
        loaded, learned = open_checkpoint(checkpoint, task, settings, attention)
        if text is None:
            check_data(loaded, learned)
            number = EXAMPLES if examples is None else examples
            beside = ", and of the same model before its training" if untrained else ""
            with working(f"Measuring the heads on {number} held-out examples{beside} …"):
                found = measure_head_roles(loaded.model, learned, number, seed, with_untrained=untrained)
            over = f"mean of {found.examples} held-out examples"
        else:
            learned = widen_task(learned, loaded.model.config)
            found = measure_text(loaded, learned, text, seed, untrained)
            over = repr(text)
    if as_json:
        print_rows(checkpoint, learned, found)
        return
    for kind in found.trained:
        title = f"{checkpoint}: {kind} attention, {over}"
        columns, rows = tabulate(found, kind)
        print_table(*columns, rows=rows, title=title)
    shown = [name for name in COLUMNS if not all(all_nothing(own, name) for own in found.trained.values())]
    print_legend(shown)


def measure_text(
    loaded: "Checkpoint", learned: "Task", text: str, seed: int, with_untrained: bool
) -> "HeadRoles":
    """Measure each head while the model answers one text; the untrained model reads the same answer."""
    from hf_attn.analysis.head_roles import HeadRoles, build_untrained, measure_even_attention, measure_heads
    from hf_attn.interpret.attention_maps import attention_maps

    source = learned.encode(text)
    maps = attention_maps(loaded.model, source, tokenizer=loaded.tokenizer)
    if maps.answering is None:
        raise ValueError(f"{loaded.path} has no attention to measure: it reads step by step.")
    alignment = learned.alignment(text, learned.decode(maps.answer_ids)) if maps.answer_ids else None
    before = {}
    if with_untrained:
        model = build_untrained(loaded.model, seed)
        target = list(maps.answer_ids) or None
        before = measure_heads(attention_maps(model, source, target, tokenizer=loaded.tokenizer), alignment)
    return HeadRoles(1, measure_heads(maps, alignment), before, measure_even_attention(maps, alignment))


def tabulate(found: "HeadRoles", kind: str) -> tuple[list[str], list[tuple]]:
    """Make one kind's columns and rows: each head, below it that head untrained, last even attention."""
    own, before = found.trained[kind], found.untrained.get(kind)
    names = [name for name in COLUMNS if not all_nothing(own, name)]
    layers, heads = own["entropy"].shape
    rows: list[tuple] = []
    for layer in range(layers):
        for head in range(heads):
            rows.append((f"{layer}·{head}", *(write_score(float(own[name][layer, head])) for name in names)))
            if before is not None:
                cells = (write_score(float(before[name][layer, head])) for name in names)
                rows.append(("untrained", *cells))
    rows.append(("even", *(write_score(found.even[kind][name]) for name in names)))
    return ["layer·head", *(COLUMNS[name] for name in names)], rows


def print_legend(names: "Sequence[str]") -> None:
    from hf_attn.analysis.head_metrics import THEORY
    from hf_attn.analysis.head_roles import ROLES_OF_MANY

    for name in names:
        definition = ROLES_OF_MANY[name].definition if name in ROLES_OF_MANY else THEORY[name]
        print(f"{COLUMNS[name]}: {definition}")
    print("even: what attention spread evenly would score, which is chance")


def print_rows(checkpoint: "Path", learned: "Task", found: "HeadRoles") -> None:
    for kind, figures in found.trained.items():
        layers, heads = figures["entropy"].shape
        even = {name: or_none(figure) for name, figure in found.even[kind].items()}
        before = found.untrained.get(kind, {})
        for layer in range(layers):
            for head in range(heads):
                own, untrained = (
                    {name: or_none(float(values[layer, head])) for name, values in measured.items()}
                    for measured in (figures, before)
                )
                print_json(
                    "head",
                    checkpoint=str(checkpoint),
                    task=learned.name,
                    examples=found.examples,
                    kind=kind,
                    layer=layer,
                    head=head,
                    **own,
                    untrained=untrained or None,
                    even=even,
                )


def all_nothing(figures: "Figures", name: str) -> bool:
    """Whether no head has the figure; in a decoder, for example, none may read the next token."""
    return name not in figures or bool(figures[name].isnan().all())


def or_none(figure: float) -> float | None:
    """JSON has no NaN."""
    return None if math.isnan(figure) else figure


def write_score(figure: float) -> str:
    """A figure as people read it.

    >>> write_score(0.256), write_score(float("nan"))
    ('0.26', '–')
    """
    return NOTHING if math.isnan(figure) else f"{figure:.2f}"
