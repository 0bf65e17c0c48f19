"""The table of runs: open, compare, rename, delete."""

from ...core.events import Event, RunEvent
from ...session.session import Session
from ...snippets import views as python_lines
from ...ui import boards
from .messages import show_all, show_table

NO_WEIGHTS = "This run has no weights yet."


class RenameEvent(RunEvent):
    """Another name for a run."""

    name: str


class CompareEvent(Event):
    """Which runs lie over the curves: their ids."""

    runs: list[str]


def open_run(session: Session, event: RunEvent) -> list:
    """Show a run again."""
    session.show(event.run)
    return show_all(session)


def delete_run(session: Session, event: RunEvent) -> list:
    """Forget a run."""
    session.forget(event.run)
    return show_all(session)


def rename_run(session: Session, event: RenameEvent) -> str:
    """Give a run another name; a name that will not do is refused under its field."""
    try:
        session.rename(event.run, event.name)
    except ValueError as error:
        return show_table(session, refused={"run": event.run, "name": event.name, "why": str(error)})
    return show_table(session)


def compare_runs(session: Session, event: CompareEvent) -> str:
    """The whole of the runs that lie over the curves, and the lines of Python of these and the shown one."""
    runs = [session.runs[run] for run in event.runs if run in session.runs]
    compared = [*([session.runs[session.shown]] if session.shown in session.runs else []), *runs]
    messages = [{"name": run.name, **run.to_message(whole=True)} for run in runs]
    return boards.to_json({"runs": messages, "python": python_lines.explain_comparison(compared)})
