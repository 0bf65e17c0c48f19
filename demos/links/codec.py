"""Links: what a tab shows as text for the address, and what a link says, checked.

A link is `?view=1.…`: a version, then what the tab shows as JSON, deflated, in base64 for addresses:

    tab         its id
    values      {name: value} of the fields, named by `Page.link_fields`; a bundled checkpoint by the name
                of its folder, the sender's own run as "run"
    boards      {id: what the picture itself chose: layer, head, cell}, as its script gives and takes it
    run         {form, steps, name}: the settings from which the sender's own run is trained again
    beside      [{form, steps, name, film}] of the runs that were laid over it
    learned     {name: {form, taken}} of the tab's jobs, named by `Page.link_job`: their settings, and how far
                they had come
    locked      the fields are seen and cannot be changed, as a teacher may wish
    hidden      right answers are seen only when asked for, as a teacher may wish

A link is not trusted: fields get only what their own components allow, by the same handlers as what a visitor
types. Locking helps in a lesson and is no security: without the link in its address the page is as always.
"""

import base64
import json
import zlib
from collections.abc import Iterable

from gradio import components
from gradio.components import Component

from ..core.fields import task_choices
from ..jobs.training_job import TrainingJob
from ..session.catalog import ModelCatalog
from ..session.page import LinkedFields, ReplayableJob
from ..session.session import Session
from ..tabs.train import replay
from ..ui.formatting import NARROW, count, shorten

PARAMETER = "view"
VERSION = "1"
LONGEST = 6000  # characters of a link: more gets lost on the way through some servers
LONGEST_STATE = 200_000  # bytes that it unpacks to
LONGEST_NAMED = 100  # characters of the choices that a refusal names
LONGEST_QUOTE = 40  # characters of a refused value
LONGEST_LIST = 512  # of a field in which several are chosen
LONGEST_TAKEN = 8  # numbers that say how far something has come
DEEPEST = 12  # of lists and objects in one another
RUN = "run"  # what a link calls the sender's own run
PARTS = {"tab": str, "values": dict, "boards": dict, "run": dict, "beside": list, "learned": dict}
PARTS |= {"locked": bool, "hidden": bool}
ORDINALS = ("", "first", "second", "third", "fourth")
LEARNS_AGAIN = (
    "The link carries the settings of what was trained here: opening it trains that again, to the same step."
)
LEARNING_AGAIN = "What the sender trained is trained here again, to the same step; times are this machine's."
BROKEN = "This link is broken, so the page opens without it: copy the whole link again."


def write_link(state: dict) -> str:
    """The text that stands for a state in an address; ValueError where it would be too long."""
    plain = json.dumps(state, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    packed = base64.urlsafe_b64encode(zlib.compress(plain.encode("utf-8"), 9))
    text = f"{VERSION}.{packed.decode('ascii').rstrip('=')}"
    if len(text) > LONGEST:
        raise ValueError(
            f"The link to this view has {count(len(text))} characters; up to {count(LONGEST)} work "
            "everywhere. Shorten the text in the fields."
        )
    return text


def read_link(text: str) -> dict:
    """The state that a text stands for, with its parts of the right types; ValueError where it is broken."""
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
        plain = unpacking.decompress(squeezed, LONGEST_STATE)
        state = json.loads(plain.decode("utf-8"), parse_constant=refuse) if unpacking.eof else None
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
    """Whether lists and objects are nested deeper than in any link of this app."""
    level = [state]
    for _ in range(DEEPEST):
        inner = (part for one in level for part in (one.values() if isinstance(one, dict) else one))
        level = [part for part in inner if isinstance(part, dict | list)]
    return bool(level)


def refuse(constant: str) -> None:
    raise ValueError(constant)


def describe_view(
    linked: Iterable[LinkedFields],
    catalog: ModelCatalog,
    session: Session,
    values: dict[str, object],
    boards: dict,
    jobs: dict[str, dict] | None = None,
) -> tuple[dict, str]:
    """The state of a tab for its link, and in a sentence what the link does or cannot carry.

    Args:
        linked: the tab's fields.
        catalog: checkpoints that everybody may open.
        session: the visitor's own runs.
        values: of the fields.
        boards: what the pictures chose.
        jobs: as `describe_jobs` gives them.

    Raises:
        ValueError: it shows a run that cannot be trained again elsewhere.
    """
    linked = list(linked)
    tab = linked[0].tab
    state: dict = {"tab": tab, "values": dict(values), "boards": boards}
    if jobs:
        state["learned"] = jobs
    run = session.runs.get(session.shown) if tab == "train" else None
    for name in (one.weights for one in linked if one.weights is not None):
        chosen = values[name]
        run = session.runs.get(chosen)
        known = {str(path): path.name for _, path in catalog.folders}
        state["values"][name] = RUN if run is not None else known.get(chosen, chosen)
    if run is None or not run.step:
        stays = [one.stays(session) for one in linked if one.stays is not None]
        return state, " ".join(filter(None, [LEARNS_AGAIN if jobs else "", *stays]))
    try:
        state["run"] = replay.describe_run(run)
    except ValueError as error:
        if tab != "train":
            raise
        return state, str(error)  # the link carries the settings
    beside, stays = describe_beside(session, boards) if tab == "train" else ([], [])
    state |= {"beside": beside} if beside else {}
    names = [run.name, *(one["name"] for one in beside)]
    return state, " ".join([travel_message(names, run.step), *stays])


def describe_beside(session: Session, boards: dict) -> tuple[list[dict], list[str]]:
    """(the runs laid over the shown one, as a link describes them; why some cannot be)."""
    laid = boards.get(replay.TABLE, {}).get("laid", [])
    found, stays = [], []
    for run in (session.runs[one] for one in laid if one in session.runs):
        try:
            found.append(replay.describe_run(run, film=True))
        except ValueError as error:
            stays.append(str(error))
    return found, stays


def travel_message(names: list[str], steps: int) -> str:
    if len(names) == 1:
        return f"The link carries the settings of {names[0]}: opening it trains {count(steps)} steps again."
    listed = f"{', '.join(names[:-1])} and {names[-1]}"
    return f"The link carries the settings of {listed}: opening it trains them again, one after the other."


def describe_jobs(jobs: Iterable[ReplayableJob], tab: str, values: dict) -> dict[str, dict]:
    """A tab's jobs for its link, {name: {form, taken}}; `values` has their states by component."""
    states = {job.name: values[job.state] for job in jobs if job.tab == tab}
    return {
        name: {"form": dict(state.form), "taken": list(state.taken)}
        for name, state in states.items()
        if state.form is not None
    }


def check_state(linked: Iterable[LinkedFields], state: dict) -> list[LinkedFields]:
    """What a link carries of its tab; ValueError for an unknown tab or field, or a wrong value."""
    tabs: dict[str, list[LinkedFields]] = {}
    for one in linked:
        tabs.setdefault(one.tab, []).append(one)
    if state.get("tab") not in tabs:
        raise ValueError(
            f"This link opens the tab {state.get('tab')!r}, which does not exist: choose {', '.join(tabs)}."
        )
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


def check_jobs(jobs: Iterable[ReplayableJob], state: dict) -> list[tuple[ReplayableJob, dict, list[int]]]:
    """(job, settings, progress) of each job in a link; ValueError for an unknown job or a wrong setting."""
    known = {job.name: job for job in jobs if job.tab == state["tab"]}
    checked = []
    for name, row in state.get("learned", {}).items():
        form, taken = (row.get("form"), row.get("taken")) if isinstance(row, dict) else (None, None)
        if name not in known or not isinstance(form, dict) or form.keys() != known[name].fields.keys():
            raise ValueError(f"This link does not say how {state['tab'].title()} learns {name!r}.")
        are_numbers = isinstance(taken, list) and all(type(one) is int and one >= 0 for one in taken)
        if not are_numbers or len(taken) != (known[name].count or min(len(taken), LONGEST_TAKEN)):
            raise ValueError(BROKEN)
        check_values(known[name], form)
        checked.append((known[name], form, taken))
    return checked


def check_values(linked: LinkedFields | ReplayableJob, values: dict) -> None:
    """Refuse a value that its field cannot hold, by a ValueError that says what it takes."""
    for name, component in linked.fields.items():
        if name in values and not can_hold(component, values[name], varies=name in linked.varying):
            allowed = allowed_in(component, varies=name in linked.varying)
            sent = json.dumps(values[name], ensure_ascii=False)
            raise ValueError(
                f"This link sets “{component.label or name}” to {shorten(sent, LONGEST_QUOTE)}, "
                f"but that field takes {allowed}."
            )


def can_hold(component: Component, value: object, *, varies: bool = False) -> bool:
    """Whether a field may have a value from JSON; of a field whose choices vary only the type is checked."""
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
    return isinstance(component, components.CheckboxGroup) or bool(getattr(component, "multiselect", False))


def is_choice(component: Component, value: object, *, varies: bool) -> bool:
    """Whether a value is one of a field's choices; where these vary, whether it is of their type."""
    known = [choice for _, choice in component.choices]
    if not varies:
        return any(value == choice and type(value) is type(choice) for choice in known)
    types = {type(choice) for choice in known} or {str, int}
    if getattr(component, "allow_custom_value", False):
        types |= {str}
    return type(value) in types


def find_weights(catalog: ModelCatalog, name: object, run_id: str | None) -> object:
    """The checkpoint that a link names, "run" for the sender's own; ValueError where that was not trained."""
    if name == RUN:
        if run_id is None:
            raise ValueError("This link shows a run of the sender's and does not say how it was trained.")
        return run_id
    return next((str(path) for _, path in catalog.folders if path.name == name), name)


def opened_message(state: dict, title: str) -> str:
    """What a link did; empty where the page simply shows it."""
    locked = f"The settings of {title} are set by the link." if state.get("locked") else ""
    return " ".join(filter(None, [locked, LEARNING_AGAIN if state.get("learned") else ""]))


def training_message(spec: replay.RunSpec, place: int, number: int) -> str:
    """Which run is trained for a link: the one at this place of so many."""
    task = task_choices()[str(spec.fields["task"])][0]
    which = (
        f"Of the sender's {number} models, the {ORDINALS[place]} is"
        if number > 1
        else "The sender's model is"
    )
    return f"{which} trained here again: {task}, {count(spec.steps)}{NARROW}steps."


def missing_runs_message(number: int) -> str:
    """How many of a link's overlaid runs are not there; empty where all are."""
    if not number:
        return ""
    which = "One run of the sender's was" if number == 1 else f"{number} runs of the sender's were"
    return f"{which} not trained here, so this comparison lacks {'it' if number == 1 else 'them'}."


def steps_message(run: TrainingJob, wanted: int) -> str:
    """That a link's run was stopped early; empty where it has the sender's steps."""
    if run.step == wanted:
        return ""
    taken, steps = count(run.step), f"{count(wanted)}{NARROW}steps"
    return f"{run.name} stopped at step {taken}; the sender's run had {steps}."
