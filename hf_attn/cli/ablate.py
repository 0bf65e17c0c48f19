"""The command `ablate`: a checkpoint without some of its attention, or of its input."""

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
    interval_title,
    open_checkpoint,
    print_json,
    print_table,
    score_cells,
    score_row,
    working,
    wrong_use,
)

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from hf_attn.analysis.ablation import Change, Outcome
    from hf_attn.checkpoints.save_load import Checkpoint
    from hf_attn.interpret.interventions import Intervention
    from hf_attn.tasks import Task

EXAMPLES = 200
PLACE = "KIND[.LAYER[.HEAD[.QUERY.KEY]]]"


def ablate(
    checkpoint: Folder,
    text: Annotated[str | None, SOURCE_TEXT] = None,
    remove: Annotated[
        list[str] | None,
        typer.Option(
            metavar=PLACE,
            help="Attention to remove: layer (decoder.1), head (cross.1.0), edge (cross.1.0.3.5) or all.",
        ),
    ] = None,
    uniform: Annotated[
        list[str] | None, typer.Option(metavar=PLACE, help="Attention whose weights become uniform.")
    ] = None,
    permute: Annotated[
        list[str] | None, typer.Option(metavar=PLACE, help="Attention whose weights are permuted.")
    ] = None,
    token: Annotated[
        list[int] | None, typer.Option(min=0, help="Index of a token of TEXT to leave out, from 0.")
    ] = None,
    examples: Annotated[
        int | None, typer.Option(min=1, help=f"Number of held-out examples (default: {EXAMPLES}).")
    ] = None,
    seed: Annotated[int, SEED] = 0,
    threads: Annotated[int, THREADS] = 1,
    task: TaskName = None,
    settings: TaskSettings = None,
    attention: AttentionFile = None,
    as_json: AsJson = False,
) -> None:
    """Measure a checkpoint without a head, layer, edge or token.

    All the options act together. Without options each head, each layer and each token of TEXT is removed in
    turn, and the edges to what answers are known to depend on. Layers and heads are numbered from 0.
    """
    import torch

    from hf_attn.evaluation.reach import widen_task
    from hf_attn.interpret.interventions import parse_intervention

    torch.set_num_threads(threads)
    with wrong_use():
        if text is not None and examples is not None:
            raise ValueError(f"--examples {examples} is for held-out examples, and TEXT is one: give either.")
        if text is None and token:
            raise ValueError(f"--token {token[0]} is left out of a TEXT: give one.")
        places = {"remove": remove or (), "uniform": uniform or (), "permute": permute or ()}
        changes = [parse_intervention(action, p, seed) for action in places for p in places[action]]
        loaded, learned = open_checkpoint(checkpoint, task, settings, attention)
        if text is None:
            check_data(loaded, learned)
            outcomes = measure_held_out(loaded, learned, changes, examples or EXAMPLES, seed)
        else:
            learned = widen_task(learned, loaded.model.config)
            found = measure_text(loaded, learned, text, changes, token or [])
    if text is None:
        print_outcomes(checkpoint, learned, outcomes, as_json)
    else:
        print_changes(loaded, learned, text, found, as_json)


def measure_held_out(
    loaded: "Checkpoint", task: "Task", changes: "list[Intervention]", examples: int, seed: int
) -> "list[Outcome]":
    """Apply all changes together; without changes, remove each part of the model in turn."""
    from hf_attn.analysis.ablation import Trial, list_trials, measure_outcomes

    trials = [Trial(tuple(changes))] if changes else list_trials(loaded.model, task)
    if not trials:
        raise ValueError(f"{loaded.path} has no attention to change; give a TEXT to leave tokens out of.")
    with working(f"Measuring {examples} held-out examples as they are and {len(trials)} times changed …"):
        return list(measure_outcomes(loaded.model, task, trials, examples, seed))


def measure_text(
    loaded: "Checkpoint", task: "Task", text: str, changes: "list[Intervention]", tokens: list[int]
) -> "list[Change]":
    """Do the same for one text, each of whose tokens can be left out too."""
    import torch

    from hf_attn.analysis.ablation import Trial, list_trials, measure_changes

    source = task.encode(text)
    trials = [Trial(tuple(changes), tuple(tokens))]
    if not changes and not tokens:
        trials = [*list_trials(loaded.model), *(Trial(without=(place,)) for place in range(len(source)))]
    return measure_changes(loaded.model, torch.tensor([source]), trials)


def print_outcomes(checkpoint: "Path", task: "Task", outcomes: "Sequence[Outcome]", as_json: bool) -> None:
    if as_json:
        for outcome in outcomes:
            print_json(
                "outcome",
                checkpoint=str(checkpoint),
                task=task.name,
                trial=outcome.trial.name,
                **score_row(outcome),
                drop=outcome.drop,
                standard_error=outcome.standard_error,
                by_size={str(size): score.exact_match for size, score in outcome.by_size.items()},
            )
        return
    rows = [
        (outcome.trial.name, *score_cells(outcome), f"{outcome.drop:.1%} ± {outcome.standard_error:.1%}")
        for outcome in outcomes
    ]
    title = f"{checkpoint}: {task.name}, {outcomes[0].examples} held-out {task.units or 'examples'}"
    print_table(
        "", "exact match", interval_title(outcomes[0]), "lost ± standard error", rows=rows, title=title
    )


def print_changes(
    loaded: "Checkpoint", task: "Task", text: str, changes: "Sequence[Change]", as_json: bool
) -> None:
    """Print how one answer changes, a row a trial; for a single trial also a row a token."""
    tokens = [str(loaded.tokenizer.convert_ids_to_tokens(index)) for index in task.encode(text)]
    before = task.decode(changes[0].before)
    written = [before]
    if loaded.model.can_generate():
        written = [str(loaded.tokenizer.convert_ids_to_tokens(index)) for index in changes[0].before]
    rows = []
    for change in changes:
        after = task.decode(change.after)
        named = change.trial.name
        if change.trial.without:
            named += f" ({' '.join(tokens[place] for place in change.trial.without)})"
        if as_json:
            print_json(
                "change",
                source=text,
                trial=change.trial.name,
                before=before,
                after=after,
                is_other_answer=change.is_other_answer,
                tokens=written,
                total_variation=change.total_variation,
                divergence=change.divergence,
            )
        most = f"{max(change.total_variation):.3f}", f"{max(change.divergence):.3f}"
        rows.append((named, after, "other" if change.is_other_answer else "the same", *most))
    if as_json:
        return
    title = f"{text} → {before}; how far the next token's distribution moves, at most"
    print_table("", "answer", "is", "total variation", "KL in nats", rows=rows, title=title)
    if len(changes) == 1:
        figures = zip(written, changes[0].total_variation, changes[0].divergence, strict=True)
        moved = [(symbol, f"{varied:.3f}", f"{diverged:.3f}") for symbol, varied, diverged in figures]
        print_table("token", "total variation", "KL in nats", rows=moved)
    print("total variation: half of what all probabilities change by, from 0 to 1 (another token for sure)")
    print("KL in nats: Σ p ln p/p′, what the whole model's distribution p has that the changed one p′ lacks")
