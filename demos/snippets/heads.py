"""Explore's lines of Python: what was asked of the model, what every head does, what is behind a cell.

As in demos/snippets/views.py. The lens replaces the line that begins with `kind, layer, head =` here too.
"""

from collections.abc import Sequence

from hf_attn.analysis.ablation import Trial

from ..session.catalog import LoadedModel
from ..session.session import Session
from .views import TORCH, join, say_model


def call_task(session: Session, chosen: str) -> str:
    """How the lines of `say_model` call the checkpoint's task."""
    return "task" if chosen in session.runs else "found.task"


def say_inputs(read: list[int], written: list[int]) -> str:
    """Ids of the input and of what is written, as they are given to a function after the model."""
    return f"{read}, {written}" if written else f"{read}"


def explain_trial(
    session: Session, chosen: str, opened: LoadedModel, read: list[int], trial: Trial, counted: int
) -> str:
    """Ask the model: the answer in a trial, and that to `counted` held-out examples."""
    imports, lines = say_model(session, chosen, opened)
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
            f"whole, left = measure_outcomes(model, {call_task(session, chosen)}, [trial], {counted})",
            "print(whole.exact_match, left.exact_match)",
        ]
    return join(imports, *lines)


def explain_each_head(session: Session, chosen: str, opened: LoadedModel, counted: int) -> str:
    """Without each head: the held-out accuracy that is left."""
    imports, lines = say_model(session, chosen, opened)
    return join(
        [*imports, "list_trials", "measure_outcomes"],
        *lines,
        "heads = [trial for trial in list_trials(model) if trial.interventions[0].head is not None]",
        f"whole, *outcomes = measure_outcomes(model, {call_task(session, chosen)}, heads, {counted})",
        "for outcome in outcomes:",
        "    print(outcome.trial.name, outcome.exact_match, outcome.drop, outcome.standard_error)",
    )


def explain_roles(
    session: Session, chosen: str, opened: LoadedModel, read: list[int], written: list[int], text: str
) -> str:
    """Head roles on one input, beside even attention."""
    imports, lines = say_model(session, chosen, opened)
    alignment = ""
    if opened.task is not None and written:
        task, alignment = call_task(session, chosen), ", alignment"
        lines.append(f"alignment = {task}.alignment({text!r}, {task}.decode({written}))")
    return join(
        [
            *imports,
            "attention_maps",
            "measure_even_attention",
            "measure_heads",
        ],
        *lines,
        f"maps = attention_maps(model, {say_inputs(read, written)})",
        "maps = maps.relabel(tokenizer.convert_ids_to_tokens)",
        f"roles, even = measure_heads(maps{alignment}), measure_even_attention(maps{alignment})",
        "for kind, figures in roles.items():",
        "    print(kind, figures, even[kind])  # figures: [layers, heads]",
    )


def explain_held_out_roles(session: Session, chosen: str, opened: LoadedModel, counted: int) -> str:
    """Head roles on held-out examples, beside the same model untrained."""
    imports, lines = say_model(session, chosen, opened)
    return join(
        [*imports, "measure_head_roles"],
        *lines,
        f"roles = measure_head_roles(model, {call_task(session, chosen)}, {counted})",
        "print(roles.trained, roles.untrained, roles.even)",
    )


def explain_theory(
    session: Session, chosen: str, opened: LoadedModel, read: list[int], written: list[int], kind: str
) -> str:
    """Theory views of one head on one input."""
    imports, lines = say_model(session, chosen, opened)
    return join(
        [
            *imports,
            "attention_maps",
            "measure_theory",
            "build_attention_mask",
            "distance_profile",
            "singular_values",
        ],
        *lines,
        f"maps = attention_maps(model, {say_inputs(read, written)})",
        f'kind, layer, head = "{kind}", 0, 0',
        "weights = getattr(maps, kind)[layer, head]  # [queries, keys]",
        "may_attend = build_attention_mask(kind, *weights.shape)",
        "views = measure_theory(weights[None, None], may_attend)",
        "print({name: figure.item() for name, figure in views.items()})",
        "sigma = singular_values(weights)",
        "offsets, profile = distance_profile(weights.double(), may_attend)",
        "print(sigma, offsets, profile)",
    )


def explain_cell(
    session: Session, chosen: str, opened: LoadedModel, read: list[int], written: list[int], cell: Sequence
) -> str:
    """Query, key and value of a cell (kind, layer, head, query, key), and its weight."""
    imports, lines = say_model(session, chosen, opened)
    kind, layer, head, query, key = cell
    place = f"kind={kind!r}, layer={layer}, head={head}"
    return join(
        [*imports, "read_head"],
        *lines,
        f"head = read_head(model, {say_inputs(read, written)}, {place})",
        f"cell = head.explain({query}, {key})",
        "print(cell.query, cell.key, cell.chosen.value, cell.chosen.score, cell.chosen.weight)",
    )
