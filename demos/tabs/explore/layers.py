"""Explore, layer by layer: the logit lens, and patching from one text into another."""

from hf_attn.analysis.residual_stream import logit_lens, patch_activations

from ...core.events import Event
from ...core.limits import refuse_longer
from ...session.catalog import LoadedModel
from ...session.model_input import as_ids
from ...session.session import Session
from ...snippets.views import lens_snippet, patching_snippet
from .head_scores import ExploreState

MOST_NUMBERS = 10**8  # of all distributions: 400 MB
MOST_PLACES = 64  # whose columns can be read
LONGEST = 1000  # characters


class LayersEvent(Event):
    """What to look for in the layers of the input that is shown (`id`), or with `changed`, of two texts."""

    id: int
    changed: str | None = None
    place: int = -1  # whose answer is asked for


def read_layers(session: Session, event: LayersEvent) -> dict:
    """The logit lens of the text, or what each patch of it brings back in a changed one."""
    state = session.state(ExploreState)
    if event.id != state.id or state.chosen is None:
        return {}
    state.layers = dict(state.layers or {}) | {"why": ""}
    try:
        with session.catalog.open(session, state.chosen) as opened:
            if event.changed is None:
                state.layers["lens"] = read_lens(opened, state)
            else:
                state.layers["patching"] = read_patching(opened, state, event.changed, event.place)
    except ValueError as error:
        state.layers["why"] = str(error)
    return {"checks": state.to_value()}


def read_lens(opened: LoadedModel, state: ExploreState) -> dict:
    refuse_large(opened, state)
    target = as_ids(opened, state.written) if state.written else None
    found = logit_lens(opened.model, as_ids(opened, state.read), target).exp()
    most = found.max(-1)
    opened.encode(state.text)  # names its words
    return {
        "columns": opened.labels(state.written or state.read),
        "tokens": [opened.labels(row.tolist()) for row in most.indices],
        "p": most.values.tolist(),
        "python": lens_snippet(opened, state.read, state.written),
    }


def read_patching(opened: LoadedModel, state: ExploreState, changed: str, place: int) -> dict:
    refuse_longer("text", changed, LONGEST)
    other = opened.encode(changed.strip())
    others = opened.labels(other)
    opened.encode(state.text)
    labels = opened.labels(state.read)
    if len(other) != len(state.read):
        raise ValueError(
            f"The changed text has {len(other)} tokens and the text {len(state.read)}: patching goes from "
            "place to place, so change words, and add and leave out none."
        )
    refuse_large(opened, state)
    target = as_ids(opened, state.written) if state.written else None
    found = patch_activations(opened.model, as_ids(opened, state.read), as_ids(opened, other), target, place)
    recovery = [[None if x != x else x for x in row] for row in found.recovery.tolist()]
    return {
        "columns": labels,
        "others": others,
        "answer": opened.labels([found.answer])[0],
        "clean": found.clean,
        "changed": found.changed,
        "recovery": recovery,
        "python": patching_snippet(opened, state.read, other, state.written, place),
    }


def refuse_large(opened: LoadedModel, state: ExploreState) -> None:
    places, config = len(state.read) + len(state.written), opened.model.config.get_text_config()
    layers = getattr(config, "num_hidden_layers", None) or 1
    if places > MOST_PLACES or (layers + 1) * places * config.vocab_size > MOST_NUMBERS:
        fits = min(MOST_PLACES, MOST_NUMBERS // ((layers + 1) * config.vocab_size))
        raise ValueError(f"This text has {places} tokens; {fits} are read layer by layer. Shorten it.")
