"""A job: pauses, single steps, stops, its time, pace and goal, its failures, and a page that is closed."""

import collections
import sys
import threading
import time
import weakref
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace

import pytest
import torch

from demos.core.limits import HOME
from demos.jobs import job as jobs
from demos.jobs import loop
from demos.jobs.job import FAILED, FINISHED, PAUSED, RUNNING, STOPPED, Job, ReportedJob
from demos.jobs.loop import assign_gpu
from demos.jobs.training_job import TrainingJob
from hf_attn.tasks import build_task
from hf_attn.training.failures import DeviceFailed, Diverged
from tests.support.sessions import wait_for


@dataclass(eq=False)
class Counting(Job):
    """Counts to `most`; `happened` says what was called beside the work, in turn."""

    most: int = 5000
    at: int = 0
    seconds: float = 0.0  # that each piece takes
    error: Exception | None = None
    error_at: int = 3
    allowed: float = 600.0
    happened: list[str] = field(default_factory=list)

    message_seconds = 0.0
    failure = "Counting failed"

    @property
    def progress(self):
        return [self.at]

    @property
    def seconds_allowed(self):
        return self.allowed

    def begin(self):
        self.happened.append("begin")

    def advance(self):
        if self.error is not None and self.at == self.error_at:
            raise self.error
        time.sleep(self.seconds)
        self.at += 1
        return self.at < self.most

    def release(self):
        self.happened.append("release")

    def conclude(self):
        self.happened.append("conclude")
        yield


def prepared(**settings):
    """A job that is to be followed."""
    job = Counting(**settings)
    job.prepare({"most": job.most})
    return job


def in_thread(job):
    """Let a job work in a thread: (the thread, the status at each yield)."""
    statuses = []
    thread = threading.Thread(target=lambda: statuses.extend(job.status for _ in job.follow()), daemon=True)
    thread.start()
    return thread, statuses


def test_a_job_yields_at_once_at_each_message_and_at_its_end_and_measures_what_came_of_it():
    job = prepared(most=3)
    assert (job.status, job.form, job.progress) == (RUNNING, {"most": 3}, [0])
    seen = [(job.status, job.at) for _ in job.follow()]
    begun = [(RUNNING, 0), (RUNNING, 0)]  # at once, and when it has what it needs
    assert seen == [*begun, (RUNNING, 1), (RUNNING, 2), (FINISHED, 3), (FINISHED, 3)]
    assert job.happened == ["begin", "release", "conclude"]
    assert not job.is_live


def test_a_job_is_settled_only_when_nothing_more_is_shown_of_it():
    job = prepared(most=2)
    assert [job.is_settled for _ in job.follow()].count(True) == 0
    assert job.is_settled


def test_a_job_that_was_not_prepared_does_nothing_and_neither_does_one_that_is_over():
    job = Counting(most=2)
    assert list(job.follow()) == []
    job.prepare({})
    list(job.follow())
    assert list(job.follow()) == []
    assert (job.at, job.happened.count("begin")) == (2, 1)


def test_a_paused_job_takes_single_steps_and_goes_on():
    job = prepared(most=6)
    job.wants_pause = True
    moments = job.follow()
    next(moments)
    next(moments)
    assert (job.status, job.at) == (PAUSED, 0)
    for step in (1, 2):
        job.wanted_steps = 1
        next(moments)  # the step
        assert job.at == step
        next(moments)  # the pause behind it
        assert (job.status, job.at, job.wanted_steps) == (PAUSED, step, 0)
    job.wants_pause = False
    list(moments)
    assert (job.status, job.at) == (FINISHED, 6)


def test_a_pause_is_shown_at_once_however_young_the_last_message_is(monkeypatch):
    monkeypatch.setattr(jobs, "SIGN_OF_LIFE_SECONDS", 600.0)
    monkeypatch.setattr(jobs, "limits_here", lambda: replace(HOME, pause_seconds=0.2))
    job = prepared()
    job.message_seconds = 600.0
    job.prepare_message = lambda: job.happened.append("message")
    moments = job.follow()
    next(moments)
    next(moments)
    job.wants_pause = True
    next(moments)
    assert (job.status, job.happened) == (PAUSED, ["begin", "message"])
    moments.close()


def test_a_pause_that_lasts_too_long_gives_the_place_back(monkeypatch):
    monkeypatch.setattr(jobs, "limits_here", lambda: replace(HOME, pause_seconds=0.0))
    job = prepared()
    job.wants_pause = True
    assert PAUSED in [job.status for _ in job.follow()]
    assert (job.status, job.at, job.wants_pause) == (STOPPED, 0, False)


def test_a_paused_job_gives_a_sign_of_life_so_that_a_closed_page_is_noticed(monkeypatch):
    monkeypatch.setattr(jobs, "SIGN_OF_LIFE_SECONDS", 0.01)
    job = prepared()
    job.wants_pause = True
    moments = job.follow()
    for _ in range(4):
        next(moments)
    moments.close()
    assert (job.status, job.happened) == (STOPPED, ["begin", "release"])


def test_stop_takes_effect_after_the_piece_of_work_that_is_being_done():
    job = prepared(seconds=0.05)
    thread, statuses = in_thread(job)
    wait_for(thread, lambda: job.at >= 2)
    job.stop()
    done = job.at
    thread.join(60)
    assert not thread.is_alive()
    assert done <= job.at <= done + 1
    assert statuses[-1] == job.status == STOPPED
    assert job.happened == ["begin", "release", "conclude"]


def test_stop_ends_a_pause():
    job = prepared()
    job.wants_pause = True
    thread, _ = in_thread(job)
    wait_for(thread, lambda: job.status == PAUSED and "begin" in job.happened)
    job.stop()
    thread.join(60)
    assert (job.status, job.at, thread.is_alive()) == (STOPPED, 0, False)


def test_stop_ends_a_job_that_waits_for_its_place_at_once_and_nothing_is_begun():
    job = prepared()
    job.stop()
    assert job.status == STOPPED
    assert list(job.follow()) == []
    assert job.happened == []


def test_stop_of_a_job_that_is_over_changes_nothing_also_for_the_next():
    job = prepared(most=2)
    list(job.follow())
    job.stop()
    assert (job.status, job.wants_stop) == (FINISHED, False)
    job.most = 5
    job.prepare({})
    list(job.follow())
    assert (job.status, job.at) == (FINISHED, 5)


def test_a_job_whose_time_is_up_is_stopped_and_says_that_it_is_late():
    job = prepared(most=300, allowed=0.2, seconds=0.01)
    list(job.follow())
    assert (job.status, job.is_late) == (STOPPED, True)
    assert job.at > 0
    job.prepare({})
    job.allowed, job.most = 600.0, job.at + 2
    list(job.follow())
    assert (job.status, job.is_late) == (FINISHED, False)


def test_a_job_has_the_time_that_this_server_gives(monkeypatch):
    monkeypatch.setattr(jobs, "limits_here", lambda: replace(HOME, run_seconds=7.0))
    assert Job().seconds_allowed == 7.0


def test_a_pace_is_so_many_pieces_a_second():
    job = prepared(most=5, pace=20.0)
    began = time.monotonic()
    list(job.follow())
    assert time.monotonic() - began >= 4 / 20.0 - jobs.NAP_SECONDS  # by which it may be early
    assert job.worked_seconds < 0.1  # waiting is no work


def test_a_single_step_does_not_wait_for_the_pace():
    job = prepared(pace=0.001)
    job.wants_pause, job.wanted_steps = True, 3
    began = time.monotonic()
    for _ in job.follow():
        if job.at == 3:
            job.stop()
    assert (job.at, job.status) == (3, STOPPED)
    assert time.monotonic() - began < 60


def test_a_goal_stops_it_at_the_same_progress():
    job = prepared()
    for _ in job.follow():
        if job.at == 7:
            job.stop()
    sent = job.describe()
    assert (sent["form"], sent["progress"]) == ({"most": 5000}, [7])
    again = prepared()
    again.goal = sent["progress"]
    list(again.follow())
    assert (again.status, again.progress, again.is_late) == (STOPPED, sent["progress"], False)
    over = prepared(most=4)
    over.goal = [4]
    list(over.follow())
    assert over.status == FINISHED, "all of its work was done, as the sender's"


class Pair(Counting):
    """Two that go on by turns."""

    @property
    def progress(self):
        return [(self.at + 1) // 2, self.at // 2]


def test_a_goal_of_several_numbers_is_reached_when_all_of_them_are():
    job = Pair()
    job.prepare({})
    job.goal = [2, 3]
    list(job.follow())
    assert (job.status, job.progress) == (STOPPED, [3, 3])


@dataclass(eq=False)
class Reading(ReportedJob):
    """Takes three reports."""

    seen: list[int] = field(default_factory=list)

    message_seconds = 0.0

    def begin(self):
        self.reports, self.seen = (report for report in range(3)), []

    def take(self, report):
        self.seen.append(report)


@pytest.mark.parametrize(
    ("goal", "status", "seen"),
    [
        (None, FINISHED, [0, 1, 2]),
        ([0], STOPPED, []),
        ([2], STOPPED, [0, 1]),
        ([3], FINISHED, [0, 1, 2]),
        ([9], FINISHED, [0, 1, 2]),
    ],
)
def test_reports_are_taken_up_to_the_goal_and_a_link_of_all_of_them_is_finished(goal, status, seen):
    job = Reading()
    job.prepare({})
    job.goal = goal
    list(job.follow())
    assert (job.status, job.seen, job.progress) == (status, seen, [len(seen)])
    assert job.reports is None, "they are let go of"


def test_a_job_that_is_begun_anew_keeps_nothing_of_the_last():
    job = Reading()
    job.prepare({"of": "the last"})
    job.goal = [2]
    list(job.follow())
    assert job.worked_seconds > 0
    job.prepare({})
    kept = (job.form, job.goal, job.worked_seconds, job.progress, job.is_at_goal)
    assert kept == ({}, None, 0.0, [0], False)
    list(job.follow())
    assert (job.status, job.seen) == (FINISHED, [0, 1, 2])


def test_a_job_that_was_closed_can_be_begun_anew():
    job = prepared(most=3)
    job.close()
    job.prepare({})
    list(job.follow())
    assert (job.status, job.at) == (FINISHED, 3)
    assert "conclude" in job.happened


@pytest.mark.parametrize(
    ("error", "message", "is_logged"),
    [
        (ValueError("no such size."), "Counting failed: no such size.", False),
        (Diverged("The loss is nan."), "The loss is nan.", False),
        (DeviceFailed("The memory is full."), "The memory is full.", False),
        (RuntimeError("no memory"), "Counting failed: no memory", True),
    ],
)
def test_a_piece_that_fails_is_told_and_not_raised_and_only_bugs_are_logged(
    error, message, is_logged, caplog
):
    job = prepared(error=error)
    assert [job.status for _ in job.follow()][-1] == FAILED
    assert (job.message, job.at, job.is_live) == (message, 3, False)
    assert job.happened == ["begin", "release"], "nothing is measured"
    assert bool(caplog.records) == is_logged
    job.error, job.most = None, 5
    job.prepare({})
    list(job.follow())
    assert (job.status, job.message) == (FINISHED, "")


def test_a_page_that_is_closed_stops_its_job_and_what_was_done_is_kept():
    job = prepared()
    moments = job.follow()
    for _ in range(5):
        next(moments)
    moments.close()
    assert (job.status, job.at, job.is_live) == (STOPPED, 3, False)
    assert job.happened == ["begin", "release"]
    assert job.is_settled, "else a page that is loaded again waits for it for ever"


def test_nothing_is_measured_of_a_job_that_was_closed_and_it_is_not_followed_again():
    job = prepared()
    moments = job.follow()
    next(moments)
    job.close()
    list(moments)
    assert (job.status, job.is_closed) == (STOPPED, True)
    assert job.happened == ["begin", "release"]
    job.status = RUNNING
    assert list(job.follow()) == []


def test_following_a_job_that_is_followed_already_does_nothing():
    job = prepared(most=4)
    moments = job.follow()
    next(moments), next(moments), next(moments)
    assert list(job.follow()) == []
    assert (job.status, job.at, job.is_live) == (RUNNING, 1, True)
    list(moments)
    assert (job.at, job.happened) == (4, ["begin", "release", "conclude"])


def test_messages_keep_their_distance():
    job = prepared(most=30, seconds=0.01)
    job.message_seconds = 0.1
    seen = [job.at for _ in job.follow()]
    assert seen[:2] == [0, 0]
    assert len(seen) < 3 + job.worked_seconds / 0.1 + 2


def begun(device="auto"):
    task = build_task("copy")
    run = TrainingJob("1", "copy 1", task, task.recipe, 0, device)
    assign_gpu(run)
    return run


def test_runs_are_shared_out_over_the_gpus_that_there_are(monkeypatch):
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    monkeypatch.setattr(loop, "_BEGUN", weakref.WeakSet())
    runs = [begun() for _ in range(4)]
    assert [run.gpu for run in runs] == [0, 1, 0, 1]
    runs[1].status = runs[3].status = STOPPED
    on_processor = begun("cpu")
    assert (on_processor.gpu, begun().gpu) == (-1, 1)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 0)
    assert begun().gpu == -1


def test_runs_that_begin_at_once_are_shared_out_evenly(monkeypatch):
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 4)
    monkeypatch.setattr(loop, "_BEGUN", weakref.WeakSet())
    switching = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        with ThreadPoolExecutor(8) as pool:
            runs = list(pool.map(lambda _: begun(), range(400)))
    finally:
        sys.setswitchinterval(switching)
    assert collections.Counter(run.gpu for run in runs) == dict.fromkeys(range(4), 100)
