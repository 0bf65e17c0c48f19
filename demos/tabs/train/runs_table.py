"""The table of runs: open, compare, rename, delete."""

from ...core.events import Event, RunEvent
from ...session.session import Session
from ...snippets.views import comparison_snippet
from ...ui import boards
from .messages import show_all, table_value

NO_WEIGHTS = "This run has no weights yet."


class RenameEvent(RunEvent):
    """Another name for a run."""

    name: str


class CompareEvent(Event):
    """Which runs lie over the curves: their ids."""

    runs: list[str]


def list_runs(session: Session) -> dict:
    return {"runs": table_value(session)}


def open_run(session: Session, event: RunEvent) -> dict:
    session.show(event.run)
    return show_all(session)


def delete_run(session: Session, event: RunEvent) -> dict:
    session.forget(event.run)
    return show_all(session)


def rename_run(session: Session, event: RenameEvent) -> dict:
    """Rename a run; a refused name is explained under its field."""
    refused = {}
    try:
        session.rename(event.run, event.name)
    except ValueError as error:
        refused = {"refused": {"run": event.run, "name": event.name, "why": str(error)}}
    return {"runs": table_value(session, **refused)}


def compare_runs(session: Session, event: CompareEvent) -> dict:
    """The whole of the overlaid runs, and the Python lines of these and the shown one."""
    runs = [session.runs[run] for run in event.runs if run in session.runs]
    compared = [*([session.runs[session.shown]] if session.shown in session.runs else []), *runs]
    messages = [{"name": run.name, **run.to_message(whole=True)} for run in runs]
    return {"compared": boards.to_json({"runs": messages, "python": comparison_snippet(compared)})}
