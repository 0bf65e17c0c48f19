"""The sets of tests: `python -m tests.run [gate|nightly]`; CONTRIBUTING.md says which test belongs to which.

A test that drives a browser or starts a process is run once more if it fails, with all that it needs started
afresh. What passes then is *unsteady*: it is listed, and its first failure, the pictures of its pages and the
log of its server stay in build/unsteady/. More than two fail the set.
"""

import os
import resource
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
UNSTEADY = Path(os.environ.get("HF_ATTN_UNSTEADY", ROOT / "build" / "unsteady"))
MOST_UNSTEADY = 2
MOST_RUN_AGAIN = 10  # more failures than this are not bad luck
LONGEST = ("--timeout", "1800")  # seconds of a test that makes much
# A worker for each core. The tests of a file stay together, since they share servers and checkpoints.
WORKERS = ("-n", "auto", "--dist", "loadfile", "--no-loadscope-reorder", "--durations", "10")
SETS = {"gate": (), "nightly": ("-m", "nightly and not gpu and not network", *LONGEST)}


class Watch:
    """Keeps what the workers report.

    Attributes:
        failed: {test: its first failure}.
        causes: {test: what counts as one failure}: a fixture that fails for several tests is one.
        may_run_again: those of them that drove a browser or started a process.
        crashed: how often a worker died in a test.
        collected, reported: names of tests.
        is_broken: whether a file could not be collected.
        passed, skipped: how many tests.
        processor: seconds of the processor, of each folder.
    """

    def __init__(self) -> None:
        self.failed: dict[str, str] = {}
        self.causes: dict[str, str] = {}
        self.may_run_again: set[str] = set()
        self.crashed: Counter[str] = Counter()
        self.collected: set[str] = set()
        self.reported: set[str] = set()
        self.is_broken = False
        self.passed = self.skipped = 0
        self.processor: Counter[str] = Counter()

    def pytest_runtest_logreport(self, report) -> None:
        """Note how a test went."""
        self.reported.add(report.nodeid)
        if report.failed:
            self.failed.setdefault(report.nodeid, report.longreprtext)
            self.causes.setdefault(
                report.nodeid, report.longreprtext if report.when == "setup" else report.nodeid
            )
            self.crashed[report.nodeid] += report.when == "???"  # a worker that died
            starts = dict(report.user_properties).get("starts") or "browser" in report.keywords
            if starts or self.crashed[report.nodeid] == 1:
                self.may_run_again.add(report.nodeid)
        self.passed += report.when == "call" and report.passed
        self.skipped += report.skipped

    def pytest_collectreport(self, report) -> None:
        """Note a file that could not be read."""
        self.is_broken |= report.failed

    def pytest_xdist_node_collection_finished(self, node, ids) -> None:
        """Note what there is to run."""
        self.collected.update(ids)

    def pytest_testnodedown(self, node, error) -> None:
        """Take what a worker has measured."""
        self.processor.update(getattr(node, "workeroutput", {}).get("processor", {}))

    @property
    def can_run_again(self) -> bool:
        """Whether all tests were run, and all that failed may be run once more."""
        is_whole = not self.is_broken and self.collected == self.reported
        crashes_once = max(self.crashed.values(), default=0) < 2
        may_all = self.may_run_again.issuperset(self.failed)
        return is_whole and crashes_once and may_all and len(set(self.causes.values())) <= MOST_RUN_AGAIN


def run_again(watch: Watch) -> list[str]:
    """Run the tests that failed, each in a process of its own, and return those that passed."""
    print(f"\nOnce more, with all that they need started afresh: {', '.join(watch.failed)}", flush=True)
    again = [sys.executable, "-m", "pytest", "-m", "", "-p", "no:xdist", *LONGEST]
    passed = [name for name in watch.failed if not subprocess.run([*again, name], cwd=ROOT).returncode]
    UNSTEADY.mkdir(parents=True, exist_ok=True)
    for name in passed:
        (UNSTEADY / f"{file_name(name)}.txt").write_text(watch.failed[name], encoding="utf-8")
        print(f"UNSTEADY {name}: passed the second time; {UNSTEADY} has the first.")
    return passed


def file_name(test: str) -> str:
    """A name for what is kept of a test."""
    return "".join(each if each.isalnum() else "_" for each in test.removeprefix("tests/"))[-120:]


def used_seconds() -> float:
    """Seconds of the processor of this process and of those that it has waited for."""
    both = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(each.ru_utime + each.ru_stime for each in both)


def run(name: str, options: list[str]) -> int:
    """Run a set of tests, tell what it took, and return the exit code."""
    os.chdir(ROOT)
    for kept in (path for ending in ("txt", "png", "log") for path in UNSTEADY.glob(f"*.{ending}")):
        kept.unlink()  # of an earlier run
    watch, started = Watch(), time.monotonic()
    code = int(pytest.main([*WORKERS, *SETS[name], *options], plugins=[watch]))
    again = watch.failed and code == pytest.ExitCode.TESTS_FAILED and watch.can_run_again
    passed = run_again(watch) if again else []
    if again and set(passed) == set(watch.failed):
        code = int(len({watch.causes[test] for test in passed}) > MOST_UNSTEADY)
    for folder, seconds in watch.processor.most_common():
        print(f"{seconds:7.1f} s of the processor  {folder}")
    row = {
        "set": name,
        "passed": watch.passed,
        "failed": len(watch.failed),
        "of them unsteady": len(passed),
        "skipped": watch.skipped,
        "processor seconds": round(used_seconds()),
        "seconds": round(time.monotonic() - started),
    }
    print(", ".join(f"{key} {value}" for key, value in row.items()))
    if name == "nightly" and not options and code in (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED):
        from benchmarks.report import RESULTS, environment, record  # behind pytest, which imports by itself

        record(RESULTS / "nightly.jsonl", [row | {"kept": code == 0}], environment())
    return code


if __name__ == "__main__":
    given = sys.argv[1:]
    sys.exit(run(given[0], given[1:]) if given[:1] and given[0] in SETS else run("gate", given))
