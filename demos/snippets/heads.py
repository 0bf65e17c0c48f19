"""Explore's lines of Python: what was asked of the model, what every head does, what is behind a cell.

As in demos/snippets/views.py. The lens replaces the line that begins with `kind, layer, head =` here too.
"""

from collections.abc import Sequence

from hf_attn.analysis.ablation import Trial

from ..session.catalog import LoadedModel
from ..session.session import Session
from .views import TORCH, join_lines, model_lines


def task_variable(session: Session, chosen: str) -> str:
    """The name that the task has after `model_lines`."""
    return "task" if chosen in session.runs else "found.task"


def input_arguments(read: list[int], written: list[int]) -> str:
    """Ids of input and target, as arguments after the model."""
    return f"{read}, {written}" if written else f"{read}"


def trial_snippet(
    session: Session, chosen: str, opened: LoadedModel, read: list[int], trial: Trial, counted: int
) -> str:
    """Explore: one change, its effect on this answer and on `counted` held-out examples."""
    imports, lines = model_lines(session, chosen, opened)
    imports += [TORCH, "Trial", "measure_changes", *(["Intervention"] if trial.interventions else [])]
    most = opened.most_own(len(read)) if opened.model.can_generate() else None
    fields = {name: value for name in ("interventions", "without") if (value := getattr(trial, name))}
    lines += [
        f"trial = Trial({', '.join(f'{name}={value!r}' for name, value in fields.items())})",
        f"(change,) = measure_changes(model, torch.tensor([{read}]), [trial], {most})",
        "print(change.before, change.after, change.total_variation)",
    ]
    if counted:
        imports.append("measure_outcomes")
        lines += [
            f"whole, left = measure_outcomes(model, {task_variable(session, chosen)}, [trial], {counted})",
            "print(whole.exact_match, left.exact_match)",
        ]
    return join_lines(imports, *lines)


def each_head_snippet(session: Session, chosen: str, opened: LoadedModel, counted: int) -> str:
    """Explore: held-out accuracy without each head."""
    imports, lines = model_lines(session, chosen, opened)
    return join_lines(
        [*imports, "list_trials", "measure_outcomes"],
        *lines,
        "heads = [trial for trial in list_trials(model) if trial.interventions[0].head is not None]",
        f"whole, *outcomes = measure_outcomes(model, {task_variable(session, chosen)}, heads, {counted})",
        "for outcome in outcomes:",
        "    print(outcome.trial.name, outcome.exact_match, outcome.drop, outcome.standard_error)",
    )


def roles_snippet(
    session: Session, chosen: str, opened: LoadedModel, read: list[int], written: list[int], text: str
) -> str:
    """Explore: head roles on one input, beside uniform attention."""
    imports, lines = model_lines(session, chosen, opened)
    alignment = ""
    if opened.task is not None and written:
        task, alignment = task_variable(session, chosen), ", alignment"
        lines.append(f"alignment = {task}.alignment({text!r}, {task}.decode({written}))")
    return join_lines(
        [
            *imports,
            "attention_maps",
            "measure_even_attention",
            "measure_heads",
        ],
        *lines,
        f"maps = attention_maps(model, {input_arguments(read, written)})",
        "maps = maps.relabel(tokenizer.convert_ids_to_tokens)",
        f"roles, even = measure_heads(maps{alignment}), measure_even_attention(maps{alignment})",
        "for kind, figures in roles.items():",
        "    print(kind, figures, even[kind])  # figures: [layers, heads]",
    )


def held_out_roles_snippet(session: Session, chosen: str, opened: LoadedModel, counted: int) -> str:
    """Explore: head roles on held-out examples, beside the untrained model."""
    imports, lines = model_lines(session, chosen, opened)
    return join_lines(
        [*imports, "measure_head_roles"],
        *lines,
        f"roles = measure_head_roles(model, {task_variable(session, chosen)}, {counted})",
        "print(roles.trained, roles.untrained, roles.even)",
    )


def theory_snippet(
    session: Session, chosen: str, opened: LoadedModel, read: list[int], written: list[int], kind: str
) -> str:
    """Explore: theory views of one head on one input."""
    imports, lines = model_lines(session, chosen, opened)
    return join_lines(
        [
            *imports,
            "attention_maps",
            "measure_theory",
            "build_attention_mask",
            "distance_profile",
            "singular_values",
        ],
        *lines,
        f"maps = attention_maps(model, {input_arguments(read, written)})",
        f'kind, layer, head = "{kind}", 0, 0',
        "weights = getattr(maps, kind)[layer, head]  # [queries, keys]",
        "may_attend = build_attention_mask(kind, *weights.shape)",
        "views = measure_theory(weights[None, None], may_attend)",
        "print({name: figure.item() for name, figure in views.items()})",
        "sigma = singular_values(weights)",
        "offsets, profile = distance_profile(weights.double(), may_attend)",
        "print(sigma, offsets, profile)",
    )


def cell_snippet(
    session: Session, chosen: str, opened: LoadedModel, read: list[int], written: list[int], cell: Sequence
) -> str:
    """Explore: query, key and value of a cell (kind, layer, head, query, key), and its weight."""
    imports, lines = model_lines(session, chosen, opened)
    kind, layer, head, query, key = cell
    place = f"kind={kind!r}, layer={layer}, head={head}"
    return join_lines(
        [*imports, "read_head"],
        *lines,
        f"head = read_head(model, {input_arguments(read, written)}, {place})",
        f"cell = head.explain({query}, {key})",
        "print(cell.query, cell.key, cell.chosen.value, cell.chosen.score, cell.chosen.weight)",
    )
