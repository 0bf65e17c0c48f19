"""Links: what a tab shows as text for the address, and what a link says, checked.

A link is `?view=1.…`: a version, then what the tab shows as JSON, deflated, in base64 for addresses:

    tab         its id
    values      {name: value} of the tab's fields, as `Page.keep` named them; a checkpoint that is bundled by
                the name of its folder, a visitor's own run as "run"
    boards      {id: what the picture itself chose: layer, head, cell}, as its script gives and takes it
    run         {form, steps, name}: the settings from which the sender's own run is trained again
    beside      [{form, steps, name, film}] of the runs that were laid over it
    learned     {name: {form, taken}}: from which settings the tab learns again what stood on its boards, and
                how far that had come; named by `Page.learns`
    locked      a teacher's: the fields are seen and cannot be changed
    hidden      a teacher's: right answers are seen when they are asked for

Nothing that a link says is trusted: fields get what their own components allow, by the same handlers as what
a visitor types. Locking is a help for a lesson and no security: whoever removes the link from the address
has the page as it always is.
"""

import base64
import json
import zlib
from collections.abc import Iterable

from gradio import components
from gradio.components import Component

from ..jobs.training_job import TrainingJob
from ..session.catalog import ModelCatalog
from ..session.page import LinkedFields, ReplayableJob
from ..session.session import Session
from ..tabs.train import form, replay
from ..ui.formatting import NARROW, count

PARAMETER = "view"
VERSION = "1"
LONGEST = 6000  # characters of a link: more gets lost on the way through some servers
LONGEST_STATE = 200_000  # bytes that it unpacks to
LONGEST_NAMED = 100  # characters of the choices that a refusal names
LONGEST_LIST = 512  # of a field in which several are chosen
LONGEST_TAKEN = 8  # numbers that say how far something has come
DEEPEST = 12  # of lists and objects in one another
RUN = "run"  # what a link calls the sender's own run
PARTS = {"tab": str, "values": dict, "boards": dict, "run": dict, "beside": list, "learned": dict}
PARTS |= {"locked": bool, "hidden": bool}
ORDINALS = ("", "first", "second", "third", "fourth")
LEARNS_AGAIN = (
    "What was trained here travels as its settings: opening the link trains it again, to the same step."
)
LEARNING_AGAIN = (
    "What the sender had trained is trained here again, to the same step; seconds are this machine's."
)
BROKEN = "This link is broken, so the page opens as it always does: copy the whole of it once more."


def write_link(state: dict) -> str:
    """Return the text that stands for a state in an address.

    Raises:
        ValueError: it would be too long.
    """
    said = json.dumps(state, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    packed = base64.urlsafe_b64encode(zlib.compress(said.encode("utf-8"), 9))
    text = f"{VERSION}.{packed.decode('ascii').rstrip('=')}"
    if len(text) > LONGEST:
        raise ValueError(
            f"This view makes a link of {count(len(text))} characters; up to {count(LONGEST)} arrive "
            "everywhere. Shorten the text in the fields."
        )
    return text


def read_link(text: str) -> dict:
    """Return the state that a text stands for; its parts have the right types, and no more is known.

    Raises:
        ValueError: it is too long, broken, or of another version.
    """
    if len(text) > LONGEST:
        raise ValueError(f"This link has {count(len(text))} characters; up to {count(LONGEST)} are read.")
    version, dot, packed = text.partition(".")
    if not dot or not version.isdigit():
        raise ValueError(BROKEN)
    if version != VERSION:
        raise ValueError(
            f"This link is of version {version}, and this app reads version {VERSION}: "
            "open it with the version of hf_attn that made it."
        )
    try:
        unpacking = zlib.decompressobj()
        squeezed = base64.b64decode(packed + "=" * (-len(packed) % 4), altchars=b"-_", validate=True)
        said = unpacking.decompress(squeezed, LONGEST_STATE)
        state = json.loads(said.decode("utf-8"), parse_constant=refuse) if unpacking.eof else None
        json.dumps(state, ensure_ascii=False).encode("utf-8")  # half a pair of surrogates cannot be sent on
    except (ValueError, zlib.error, RecursionError):
        state = None
    if not isinstance(state, dict) or is_deep(state):
        raise ValueError(BROKEN)
    for name, value in state.items():
        if name not in PARTS:
            raise ValueError(f"This link says {name!r}, which this app does not know.")
        if not isinstance(value, PARTS[name]):
            raise ValueError(BROKEN)
    return state


def is_deep(state: dict) -> bool:
    """Whether lists and objects lie in one another further than any link of this app has them."""
    level = [state]
    for _ in range(DEEPEST):
        inner = (part for one in level for part in (one.values() if isinstance(one, dict) else one))
        level = [part for part in inner if isinstance(part, dict | list)]
    return bool(level)


def refuse(constant: str) -> None:
    """JSON has no such number."""
    raise ValueError(constant)


def describe_view(
    kept: Iterable[LinkedFields],
    catalog: ModelCatalog,
    session: Session,
    values: dict[str, object],
    boards: dict,
    learned: dict[str, dict] | None = None,
) -> tuple[dict, str]:
    """What a tab shows, and what of it cannot travel, in a sentence.

    Args:
        kept: what the tab keeps.
        catalog: checkpoints that everybody may open.
        session: the visitor's own runs.
        values: of the tab's fields.
        boards: what the pictures chose.
        learned: what `tell_learned` says.

    Raises:
        ValueError: it shows a run that cannot be trained again elsewhere.
    """
    kept = list(kept)
    tab = kept[0].tab
    state: dict = {"tab": tab, "values": dict(values), "boards": boards}
    if learned:
        state["learned"] = learned
    run = session.runs.get(session.shown) if tab == "train" else None
    for name in (one.weights for one in kept if one.weights is not None):
        chosen = values[name]
        run = session.runs.get(chosen)
        known = {str(path): path.name for _, path in catalog.folders}
        state["values"][name] = RUN if run is not None else known.get(chosen, chosen)
    if run is None or not run.step:
        said = [LEARNS_AGAIN] if learned else []
        said += [one.stays(session) for one in kept if one.stays is not None]
        return state, " ".join(filter(None, said))
    try:
        state["run"] = replay.describe(run)
    except ValueError as error:
        if tab != "train":
            raise
        return state, str(error)  # the settings travel
    beside, stays = describe_beside(session, boards) if tab == "train" else ([], [])
    state |= {"beside": beside} if beside else {}
    return state, " ".join([say_travels([run.name, *(one["name"] for one in beside)], run.step), *stays])


def describe_beside(session: Session, boards: dict) -> tuple[list[dict], list[str]]:
    """What a link says of the runs that are laid over the shown one, and why it says nothing of some."""
    laid = boards.get(replay.TABLE, {}).get("laid", [])
    found, stays = [], []
    for run in (session.runs[one] for one in laid if one in session.runs):
        try:
            found.append(replay.describe(run, film=True))
        except ValueError as error:
            stays.append(str(error))
    return found, stays


def say_travels(names: list[str], steps: int) -> str:
    """What a link does with the sender's runs."""
    if len(names) == 1:
        return f"{names[0]} travels as its settings: opening the link trains it again, {count(steps)} steps."
    listed = f"{', '.join(names[:-1])} and {names[-1]}"
    return f"{listed} travel as their settings: opening the link trains them again, one after the other."


def tell_learned(page_learned: Iterable[ReplayableJob], tab: str, given: dict) -> dict[str, dict]:
    """What a link says of what a tab has learned, by name; `given` has the states by component."""
    held = {one.name: given[one.state] for one in page_learned if one.tab == tab}
    return {
        name: {"form": dict(one.form), "taken": list(one.taken)}
        for name, one in held.items()
        if one.form is not None
    }


def check_state(kept: Iterable[LinkedFields], state: dict) -> list[LinkedFields]:
    """Return what is kept of the tab that a link shows.

    Raises:
        ValueError: there is no such tab or field, or a field cannot hold what the link says.
    """
    tabs: dict[str, list[LinkedFields]] = {}
    for one in kept:
        tabs.setdefault(one.tab, []).append(one)
    if state.get("tab") not in tabs:
        raise ValueError(f"This link shows {state.get('tab')!r}, no tab of this app: {', '.join(tabs)} are.")
    found, values = tabs[state["tab"]], state.get("values", {})
    known = {name for one in found for name in one.fields}
    if unknown := sorted(values.keys() - known):
        raise ValueError(f"This link sets {unknown[0]!r}, which {state['tab'].title()} does not have.")
    for one in found:
        check_values(one, values)
    boards = state.get("boards", {})
    if not all(isinstance(chosen, dict) for chosen in boards.values()):
        raise ValueError(BROKEN)
    return found


def check_learned(
    learned: Iterable[ReplayableJob], state: dict
) -> list[tuple[ReplayableJob, dict, list[int]]]:
    """What a link has learned again: (what, its settings, how far).

    Raises:
        ValueError: the tab learns no such thing, or not from these settings.
    """
    here = {one.name: one for one in learned if one.tab == state["tab"]}
    found = []
    for name, said in state.get("learned", {}).items():
        form, taken = (said.get("form"), said.get("taken")) if isinstance(said, dict) else (None, None)
        if name not in here or not isinstance(form, dict) or form.keys() != here[name].fields.keys():
            raise ValueError(f"This link does not say how {state['tab'].title()} learns {name!r}.")
        are_numbers = isinstance(taken, list) and all(type(one) is int and one >= 0 for one in taken)
        if not are_numbers or len(taken) != (here[name].count or min(len(taken), LONGEST_TAKEN)):
            raise ValueError(BROKEN)
        check_values(here[name], form)
        found.append((here[name], form, taken))
    return found


def check_values(kept: LinkedFields | ReplayableJob, values: dict) -> None:
    """Refuse a value that its field cannot hold.

    Raises:
        ValueError: what cannot, and what can.
    """
    for name, component in kept.fields.items():
        if name in values and not can_hold(component, values[name], varies=name in kept.varying):
            allowed = allowed_in(component, varies=name in kept.varying)
            raise ValueError(
                f"This link sets “{label_of(component, name)}” to {tell(values[name])}: it takes {allowed}."
            )


def label_of(component: Component, name: str) -> str:
    """What stands on the page beside a field."""
    return str(component.label or name)


def tell(value: object) -> str:
    """A refused value, and that it is."""
    said = json.dumps(value, ensure_ascii=False)
    return f"{said[:40]}{'…' if len(said) > 40 else ''}, which it cannot be"


def can_hold(component: Component, value: object, *, varies: bool = False) -> bool:
    """Whether a field may have a value.

    Args:
        component: the field.
        value: as JSON gives it.
        varies: its choices hang on other fields; then only the type is looked at here.
    """
    if isinstance(component, components.Checkbox):
        return isinstance(value, bool)
    if isinstance(component, components.Slider):
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        return is_number and component.minimum <= value <= component.maximum
    if isinstance(component, components.Number):
        return isinstance(value, int | float) and not isinstance(value, bool)
    if isinstance(component, components.Textbox):
        return isinstance(value, str)
    if takes_many(component):
        one_by_one = isinstance(value, list) and len(value) <= LONGEST_LIST
        return one_by_one and all(is_choice(component, one, varies=varies) for one in value)
    return is_choice(component, value, varies=varies) or (varies and value is None)


def allowed_in(component: Component, *, varies: bool = False) -> str:
    """What a field takes, in words; the arguments are those of `can_hold`."""
    if isinstance(component, components.Checkbox):
        return "true or false"
    if isinstance(component, components.Slider):
        return f"a number from {component.minimum:g} to {component.maximum:g}"
    if isinstance(component, components.Number):
        return "a number"
    if isinstance(component, components.Textbox):
        return "a text"
    named = ", ".join(str(label) for label, _ in component.choices)
    if varies or not 0 < len(named) <= LONGEST_NAMED:
        return "what the field offers"
    return f"{'some' if takes_many(component) else 'one'} of {named}"


def takes_many(component: Component) -> bool:
    """Whether several of its choices may be chosen."""
    return isinstance(component, components.CheckboxGroup) or bool(getattr(component, "multiselect", False))


def is_choice(component: Component, value: object, *, varies: bool) -> bool:
    """Whether a value is one of a field's choices, or of their type."""
    known = [choice for _, choice in component.choices]
    if not varies:
        return any(value == choice and type(value) is type(choice) for choice in known)
    types = {type(choice) for choice in known} or {str, int}
    if getattr(component, "allow_custom_value", False):
        types |= {str}
    return type(value) in types


def find_weights(catalog: ModelCatalog, name: object, run_id: str | None) -> object:
    """What a checkpoint's name in a link is here.

    Raises:
        ValueError: it names the sender's run, and the link does not say how to train it.
    """
    if name == RUN:
        if run_id is None:
            raise ValueError("This link shows a run of the sender's and does not say how it was trained.")
        return run_id
    return next((str(path) for _, path in catalog.folders if path.name == name), name)


def say_open(state: dict, title: str) -> str:
    """What a link did, in a sentence; nothing where the page simply shows it."""
    said = []
    if state.get("locked"):
        said.append(f"The settings of {title} are set by the link.")
    if state.get("learned"):
        said.append(LEARNING_AGAIN)
    return " ".join(said)


def say_training(again: replay.RunSpec, place: int, number: int) -> str:
    """What is trained for a link: the run at this place of so many."""
    task = form.offers()[str(again.fields["task"])][0]
    which = (
        "The sender's model is"
        if number == 1
        else f"Of the sender's {number} models, the {ORDINALS[place]} is"
    )
    return f"{which} trained here again: {task}, {count(again.steps)}{NARROW}steps."


def say_missing(number: int) -> str:
    """What is to be known of runs that were to be laid over the shown one; nothing where all of them are."""
    if not number:
        return ""
    which = "One run of the sender's was" if number == 1 else f"{number} runs of the sender's were"
    return f"{which} not trained to a first step here, and not laid over this one."


def say_steps(run: TrainingJob, wanted: int) -> str:
    """What is to be known of a link's run that was stopped; nothing where it stands as the sender's did."""
    if run.step == wanted:
        return ""
    taken, steps = count(run.step), f"{count(wanted)}{NARROW}steps"
    return f"{run.name} stopped at step {taken}; the sender's had learned {steps}."
