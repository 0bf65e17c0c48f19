"""Counting behind what a visitor looks at: the job, and what the page shows of it."""

import math
from dataclasses import dataclass

from ...jobs.job import Job
from ...jobs.turns import TURNS
from ...session.catalog import LoadedModel
from ...session.session import Session
from ...ui import notices
from .head_counts import counts_of
from .head_scores import ExploreState
from .story import find_effects, tell

OFFER = ' <button type="button" class="hf-offer-head" data-head="{}" hidden>Show it</button>'
MOST_EFFECTS = 16  # heads that are removed from this input at once
LEARNED_SINCE = "This run has learned since: press Show to count its heads anew."


@dataclass(eq=False, kw_only=True)
class CountJob(Job):
    """Counts for the model on show, whichever that is by now, until nothing of it is left to count."""

    session: Session | None = None
    state: ExploreState | None = None

    failure = "The heads cannot be counted"
    seconds_allowed = math.inf

    def start(self, session: Session) -> None:
        self.prepare({})
        self.session, self.state = session, session.state(ExploreState)
        self.state.is_counting = True

    @property
    def progress(self) -> list[int]:
        counts = self.state.counts
        return [len(counts.rows) if counts else 0]

    def advance(self) -> bool:
        """Count a piece, where it is this visitor's turn; False where none is left."""
        with TURNS.turn():
            shown = self.state.snapshot()
            if self.wants_stop or not shown.counting:
                return False
            with self.session.catalog.open(self.session, shown.chosen) as opened:
                if (counts := counts_of(opened)) is not shown.counts:
                    if shown.id != self.state.id:
                        return True
                    self.state.count_error = LEARNED_SINCE
                    return False
                if not counts.is_complete:
                    counts.count_piece(opened)
                note_effects(opened, shown)
        return shown.id != self.state.id or not counts.is_complete or bool(shown.unnoted)

    def fail(self, error: Exception) -> None:
        super().fail(error)
        self.state.count_error = self.message

    def release(self) -> None:
        self.state.is_counting = False


def note_effects(opened: LoadedModel, state: ExploreState) -> None:
    """Keep what becomes of this input without each head that is needed so far.

    The state is a new one or a snapshot: its input stays the opened model's.
    """
    missing = state.unnoted[:MOST_EFFECTS]
    if not missing:
        return
    try:
        found = find_effects(opened, state, missing)
    except ValueError:  # this input has no answer to compare
        found = {}
    state.effects |= dict.fromkeys(missing, ("", "")) | found


def press_count(session: Session) -> dict:
    """Count on for what is on show; one at a time."""
    job, state = session.state(CountJob), session.state(ExploreState)
    state.is_stopped = job.wants_stop = False
    if state.counting and not job.is_busy and not session.is_over:
        job.start(session)
    return show_checks(session)


def stop_counting(session: Session) -> dict:
    """Stop, and keep what is counted."""
    session.state(ExploreState).is_stopped = True
    session.state(CountJob).stop()
    return show_checks(session)


def show_checks(session: Session) -> dict:
    """What is known by now: the boards' value, and the sentence."""
    state = session.state(ExploreState)
    named = state.named if state.shown is not None else None
    offer = OFFER.format(".".join(map(str, named))) if named is not None else ""
    return {"checks": state.to_value(), "headline": notices.headline(tell(state), offer)}
