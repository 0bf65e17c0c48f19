"""The sets of tests: `python -m tests.run [gate|nightly]`; CONTRIBUTING.md says which test belongs to which.

A test that drives a browser or starts a process is run once more if it fails, with all that it needs started
afresh. What passes then is *unsteady*: it is listed, and its first failure, the pictures of its pages and the
log of its server stay in build/unsteady/. More than two fail the set.
"""

import argparse
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
MOST_RUN_AGAIN = 10  # more are no chance
# A worker for each core. The tests of a file stay together, since they share servers and checkpoints.
WORKERS = ("-n", "auto", "--dist", "loadfile", "--no-loadscope-reorder", "--durations", "10")
SETS = {"gate": (), "nightly": ("-m", "nightly and not gpu and not network", "--timeout", "1800")}


class Watch:
    """Keeps what the workers report.

    Attributes:
        failed: {test: its first failure}.
        may_run_again: those of them that drove a browser or started a process.
        passed: how many tests passed.
        processor: seconds of the processor, of each folder.
    """

    def __init__(self) -> None:
        self.failed: dict[str, str] = {}
        self.may_run_again: set[str] = set()
        self.passed = 0
        self.processor: Counter[str] = Counter()

    def pytest_runtest_logreport(self, report) -> None:
        """Note how a test went."""
        if report.failed:
            self.failed.setdefault(report.nodeid, report.longreprtext)
            crashed = report.when == "???"  # a worker that died
            if crashed or dict(report.user_properties).get("starts") or "browser" in report.keywords:
                self.may_run_again.add(report.nodeid)
        self.passed += report.when == "call" and report.passed

    def pytest_testnodedown(self, node, error) -> None:
        """Take what a worker has measured."""
        self.processor.update(getattr(node, "workeroutput", {}).get("processor", {}))


def run_again(watch: Watch) -> list[str] | None:
    """Run the tests that failed in a process of their own; those that passed, or None where it is no use."""
    names = list(watch.failed)
    if not watch.may_run_again.issuperset(names) or not 0 < len(names) <= MOST_RUN_AGAIN:
        return None
    print(f"\nOnce more, with servers of their own: {', '.join(names)}", flush=True)
    again = [sys.executable, "-m", "pytest", "-m", "", "-p", "no:xdist"]
    passed = [name for name in names if not subprocess.run([*again, name], cwd=ROOT).returncode]
    UNSTEADY.mkdir(parents=True, exist_ok=True)
    for name in passed:
        (UNSTEADY / f"{file_name(name)}.txt").write_text(watch.failed[name], encoding="utf-8")
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
    passed = run_again(watch) if code == pytest.ExitCode.TESTS_FAILED else None
    for test in passed or ():
        print(f"UNSTEADY {test}: passed the second time; {UNSTEADY} has the first.")
    if passed is not None and set(passed) == set(watch.failed):
        code = 0 if len(passed) <= MOST_UNSTEADY else 1
    for folder, seconds in watch.processor.most_common():
        print(f"{seconds:7.1f} s of the processor  {folder}")
    row = {
        "set": name,
        "passed": watch.passed,
        "failed": len(watch.failed),
        "of them unsteady": len(passed or ()),
        "processor seconds": round(used_seconds()),
        "seconds": round(time.monotonic() - started),
    }
    print(", ".join(f"{key} {value}" for key, value in row.items()))
    if name == "nightly" and not options:
        from benchmarks.report import RESULTS, environment, record  # behind pytest, which imports by itself

        record(RESULTS / "nightly.jsonl", [row], environment())
    return code


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Run a set of tests.")
    parser.add_argument("set", nargs="?", default="gate", choices=list(SETS))
    given, more = parser.parse_known_args()
    sys.exit(run(given.set, more))
