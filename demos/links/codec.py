"""Links: what a tab shows as text for the address, and what a link says, checked.

A link is `?view=1.…`: a version, then what the tab shows as JSON, deflated, in base64 for addresses:

    tab         its id
    fields      {name: value}, named by `Page.link_fields`; a bundled checkpoint by the name of its folder
    jobs        [{job, form, progress, name, seconds}]: what was trained, named by `Page.link_job`: its
                settings, and how far it had come. A field or a board names a run by its place here, "job:0"
    boards      {id: what the picture itself chose: layer, head, cell}, as its script gives and takes it
    locked      the fields are seen and cannot be changed, as a teacher may wish
    hidden      right answers are seen only when asked for, as a teacher may wish

A link is not trusted: fields get only what their own components allow, by the same handlers as what a visitor
types. Locking helps in a lesson and is no security: without the link in its address the page is as always.
"""

import base64
import json
import re
import zlib
from collections.abc import Iterable, Mapping

from gradio import components
from gradio.components import Component

from ..jobs.training_job import TrainingJob
from ..session.catalog import ModelCatalog
from ..session.page import JobSpec, LinkedFields, LinkedJob
from ..session.session import Session
from ..ui.formatting import NARROW, count, shorten

PARAMETER = "view"
VERSION = "1"
LONGEST = 6000  # characters of a link: more gets lost on the way through some servers
LONGEST_STATE = 200_000  # bytes that it unpacks to
LONGEST_NAMED = 100  # characters of the choices that a refusal names
LONGEST_QUOTE = 40  # characters of a refused value
LONGEST_LIST = 512  # of a field in which several are chosen
LARGEST = 10**9  # of steps and seconds
LONGEST_PROGRESS = 8  # numbers that say how far something has come
DEEPEST = 12  # of lists and objects in one another
RUN_ID = re.compile(r"(run|duel)-[\d-]+")
PLACE = "job:{}"  # what a link calls a run: the place of its job
PARTS = {"tab": str, "fields": dict, "boards": dict, "jobs": list, "locked": bool, "hidden": bool}
ORDINALS = ("first", "second", "third", "fourth")
MOST_JOBS = len(ORDINALS)
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
    if not dot or not version.isdecimal():
        raise ValueError(BROKEN)
    if version != VERSION:
        raise ValueError(
            f"This link is of version {shorten(version, 20)}, and this app reads version {VERSION}: "
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
    linked: list[LinkedFields], kinds: list[LinkedJob], session: Session, values: dict, boards: dict
) -> tuple[dict, str]:
    """The state of a tab for its link, and in a sentence what the link does or cannot carry.

    `kinds` are the jobs of all tabs, `boards` what the tab's pictures chose.

    Raises:
        ValueError: a field names a run that cannot be trained again elsewhere.
    """
    tab, jobs, carried, stays = linked[0].tab, [], "", []
    names: dict[str, str | None] = dict.fromkeys(session.runs)
    names |= {str(path): path.name for _, path in session.catalog.folders}
    trains = next(kind for kind in kinds if kind.comes_first)
    weights = [one.weights for one in linked if one.weights is not None]
    in_fields = [values[name] for name in weights if values[name] in session.runs]
    if any(RUN_ID.fullmatch(str(values[name])) and values[name] not in in_fields for name in weights):
        raise ValueError("The chosen run was deleted: choose another checkpoint, then copy the link.")
    wanted = [*in_fields, *(text for text in strings_in(boards) if text in session.runs)]
    wanted += [session.shown] if tab == trains.tab and session.shown in session.runs else []
    for run in (session.runs[run_id] for run_id in dict.fromkeys(wanted)):
        try:
            described = trains.describe(run)
        except ValueError as error:
            if run.id in in_fields:
                raise
            stays.append(str(error))
        else:
            names[run.id] = PLACE.format(len(jobs))
            jobs.append({"job": trains.name, **described})
    if jobs:
        carried = travel_message(jobs)
    for kind in kinds:
        job = kind.find(session)
        if kind.tab == tab and not kind.comes_first and job is not None and job.form is not None:
            jobs.append({"job": kind.name, **kind.describe(job)})
            carried = LEARNS_AGAIN
    fields = values | {name: rename(values[name], names) for name in weights}
    state = {"tab": tab, "fields": fields, "boards": rename(boards, names)}
    stays += [one.stays(session) for one in linked if one.stays is not None]
    return state | ({"jobs": jobs} if jobs else {}), " ".join(filter(None, [carried, *stays]))


def strings_in(value: object) -> list[str]:
    """Every text in lists and objects, in their order."""
    if isinstance(value, str):
        return [value]
    if isinstance(value, Mapping):
        value = list(value.values())
    return [text for one in value for text in strings_in(one)] if isinstance(value, list) else []


def rename(value: object, names: Mapping[str, str | None]) -> object:
    """The same with other names; what is called None is left out of lists."""
    if isinstance(value, str):
        return names.get(value, value)
    if isinstance(value, Mapping):
        return {name: rename(one, names) for name, one in value.items()}
    if isinstance(value, list):
        kept = [one for one in value if not isinstance(one, str) or names.get(one, one) is not None]
        return [rename(one, names) for one in kept]
    return value


def travel_message(jobs: list[dict]) -> str:
    names, steps = [one["name"] for one in jobs], jobs[-1]["progress"][0]
    if len(names) == 1:
        return f"The link carries the settings of {names[0]}: opening it trains {count(steps)} steps again."
    listed = f"{', '.join(names[:-1])} and {names[-1]}"
    return f"The link carries the settings of {listed}: opening it trains them again, one after the other."


def check_state(linked: Iterable[LinkedFields], state: dict) -> list[LinkedFields]:
    """What a link carries of its tab; ValueError for an unknown tab or field, or a wrong value."""
    tabs: dict[str, list[LinkedFields]] = {}
    for one in linked:
        tabs.setdefault(one.tab, []).append(one)
    if state.get("tab") not in tabs:
        raise ValueError(
            f"This link opens the tab {state.get('tab')!r}, which does not exist: choose {', '.join(tabs)}."
        )
    found, values = tabs[state["tab"]], state.get("fields", {})
    known = {name for one in found for name in one.fields}
    if unknown := sorted(values.keys() - known):
        raise ValueError(f"This link sets {unknown[0]!r}, which {state['tab'].title()} does not have.")
    for one in found:
        check_values(one, values)
    boards = state.get("boards", {})
    if not all(isinstance(chosen, dict) for chosen in boards.values()):
        raise ValueError(BROKEN)
    return found


def check_jobs(kinds: Iterable[LinkedJob], state: dict) -> list[JobSpec]:
    """The jobs of a link, those first that come first; ValueError for an unknown one or a wrong setting."""
    known = {kind.name: kind for kind in kinds if kind.comes_first or kind.tab == state["tab"]}
    checked = []
    for row in state.get("jobs", []):
        kind = known.get(str(row.get("job"))) if isinstance(row, dict) else None
        form = row.get("form") if kind else None
        if kind is None or not isinstance(form, dict):
            raise ValueError("This link does not say how what it shows is trained.")
        if kind.check is not None:
            form = kind.check(form)
        elif form.keys() != kind.fields.keys():
            raise ValueError(f"This link does not say how {state['tab'].title()} learns {kind.name!r}.")
        else:
            check_values(kind, form)
        progress, name, seconds = row.get("progress"), row.get("name", ""), row.get("seconds", 0.0)
        are_numbers = isinstance(progress, list) and all(
            type(one) is int and 0 <= one <= LARGEST for one in progress
        )
        if not are_numbers or not 1 <= len(progress) <= LONGEST_PROGRESS or not isinstance(name, str):
            raise ValueError(BROKEN)
        if type(seconds) not in (int, float) or not 0 <= seconds <= LARGEST:
            raise ValueError(BROKEN)
        checked.append(JobSpec(kind, form, progress, name, seconds))
    if len(checked) > MOST_JOBS:
        raise ValueError(f"This link has {len(checked)} jobs; up to {MOST_JOBS} are done again.")
    return sorted(checked, key=lambda spec: not spec.kind.comes_first)


def check_values(linked: LinkedFields | LinkedJob, values: dict) -> None:
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
        types |= {str, int}  # typed, or chosen before its choices changed from numbers to words
    return type(value) in types


def find_weights(catalog: ModelCatalog, name: object, runs: Mapping[str, str | None]) -> object:
    """The checkpoint that a link names: a run that was trained for it, or a bundled one's folder here."""
    if name in runs:
        return runs[name]
    if isinstance(name, str) and name.startswith(PLACE.format("")):
        raise ValueError("This link shows a run of the sender's and does not say how it was trained.")
    return next((str(path) for _, path in catalog.folders if path.name == name), name)


def find_unopened(linked: Iterable[LinkedFields], state: dict, session: Session) -> str:
    """The folder or Hub id that opening a link would read, and that nobody opened here; empty where none."""
    known = {str(value) for _, value in session.catalog.choices(session)}
    known |= {path.name for _, path in session.catalog.folders}
    for one in linked:
        name = str(state.get("fields", {}).get(one.weights) or "").strip() if one.opens else ""
        if (
            name
            and name not in known
            and not name.startswith(PLACE.format(""))
            and not RUN_ID.fullmatch(name)
        ):
            return name
    return ""


def training_message(run: TrainingJob, spec: JobSpec, place: int, number: int) -> str:
    """Which run is trained for a link: the one at this place, from 0, of so many."""
    which = (
        f"Of the sender's {number} models, the {ORDINALS[place]} is"
        if number > 1
        else "The sender's model is"
    )
    message = f"{which} trained here again: {run.task.name}, {count(spec.progress[0])}{NARROW}steps."
    return f"{message} {run.made_room}".strip()


def result_message(runs: list[TrainingJob], specs: list[JobSpec], gone: list[TrainingJob]) -> str:
    """Which runs of a link were stopped early, and how many are not there; empty where all are as sent."""
    lacks = [
        f"{run.name} stopped at step {count(run.step)}; the sender's run had "
        f"{count(spec.progress[0])}{NARROW}steps."
        for run, spec in zip(runs, specs, strict=True)
        if run not in gone and run.progress != spec.progress
    ]
    if len(gone) == 1:
        lacks.append("One run of the sender's was not trained here, so this comparison lacks it.")
    elif gone:
        which = f"{len(gone)} runs of the sender's were"
        lacks.append(f"{which} not trained here, so this comparison lacks them.")
    return " ".join(lacks)
