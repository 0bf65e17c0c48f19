"""A class at one server: many visitors ask and train at once, by HTTP and in real browsers.

    python -m tests.hard.load [--visitors N] [--browsers N] [--minutes M] [--seed S]

Two of them train all the time, the others think for two to eight seconds between two requests, and some of
these train. Promised: nothing answers with 5xx; nobody meets another's run; 95 of 100 light requests are
answered within a second; who asks first for a place trains first, and who waits is told the place in line;
five seconds after all have left in the middle of a run, the places are free; memory is within 15 % of what it
was after the first visitor had gone, and no thread or open file is left. Exits with 1 where one is broken.
"""

import contextlib
import io
import itertools
import json
import os
import random
import re
import statistics
import subprocess
import sys
import threading
import time
import urllib.request
import zipfile
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import cache, partial
from pathlib import Path

from playwright.sync_api import sync_playwright

from demos.core import limits
from tests.support.browser import FLAGS, choose_tab, find_chromium, serve_process, set_training
from tests.support.commands import read_options
from tests.support.raw_requests import Caller

SOON = 1.0  # seconds, of a light request
FREE = 5.0  # seconds after the last has left
GROWN = 1.15  # of memory
SPARE = 8  # threads that Gradio's pool may have more than before, and files: all of them are used again
NEAR = 1.0  # seconds within which two that ask for a place are as good as together
TOLD = 6.0  # seconds after which a page that waits has said how many are before it
FIRST = 1_000  # the mark of who comes first
INPUTS = {"attn-copy": "7 15 2 3", "attn-addition": "153+391", "attn-sort": "9 4 17 4 2 11 5 8"}
STATUS = re.compile(r"(VmRSS|Threads):\s+(\d+)")
IN_LINE = re.compile(r"before this one|this one is next")
PUBLIC = ("--host", "0.0.0.0")


@dataclass
class Seen:
    """What the visitors met."""

    light: list[float] = field(default_factory=list)  # seconds of each light request
    turns: list[tuple[float, float]] = field(default_factory=list)  # when a place was asked for and given
    trained: int = 0
    placed: int = 0  # who waited and was told the place in line
    broken: Counter = field(default_factory=Counter)  # promise → how often it was broken
    details: list[str] = field(default_factory=list)  # the first of what was broken, in words
    lock: threading.Lock = field(default_factory=threading.Lock)

    def breaks(self, promise: str, what: object) -> None:
        with self.lock:
            self.broken[promise] += 1
            self.details += [f"{promise}: {str(what)[:300]}"] if len(self.details) < 20 else []

    def take(self, *, light: float | None = None, turn: tuple[float, float] | None = None, placed=0) -> None:
        with self.lock:
            self.light += [] if light is None else [light]
            self.turns += [] if turn is None else [turn]
            self.trained += turn is not None
            self.placed += placed

    def say(self, figures: str) -> None:
        """Print what was broken and, last, the figures."""
        for line in self.details:
            print("-", line)
        print(f"{figures}; load average {os.getloadavg()[1]:.1f}; broken: {dict(self.broken) or 'nothing'}")

    @property
    def overtaken(self) -> int:
        """How many places were given to who had asked later than another that still waited."""
        pairs = ((one, other) for one in self.turns for other in self.turns)
        return sum(one[0] + NEAR < other[0] and other[1] + NEAR < one[1] for one, other in pairs)


@dataclass(frozen=True)
class Footprint:
    """What a process holds."""

    kilobytes: int
    threads: int
    files: int  # but the fonts: matplotlib has its own of each thread, and keeps up to 64

    @classmethod
    def of(cls, process: subprocess.Popen) -> "Footprint":
        folder = Path(f"/proc/{process.pid}")
        found = dict(STATUS.findall((folder / "status").read_text()))
        return cls(int(found["VmRSS"]), int(found["Threads"]), count_files(folder / "fd"))

    def compare(self, later: "Footprint", seen: Seen, grown: float = GROWN) -> str:
        """Both in words; whatever grew too much is broken."""
        if later.kilobytes > grown * self.kilobytes:
            seen.breaks("memory comes back", f"{self.kilobytes:,} kB before, {later.kilobytes:,} after")
        for what in ("threads", "files"):
            if getattr(later, what) > getattr(self, what) + SPARE:
                seen.breaks(
                    f"{what} come back", f"{getattr(self, what)} before, {getattr(later, what)} after"
                )
        return (
            f"MB {self.kilobytes // 1024} to {later.kilobytes // 1024}, "
            f"threads {self.threads} to {later.threads}, files {self.files} to {later.files}"
        )


def count_files(folder: Path) -> int:
    """How many files a process has open, but fonts."""
    found = 0
    for one in folder.iterdir():
        with contextlib.suppress(FileNotFoundError):  # it is closed meanwhile
            found += not str(one.readlink()).endswith(".ttf")
    return found


@cache
def caller_of(address: str) -> Caller:
    return Caller(address.rstrip("/"))


class Visitor:
    """Somebody who asks by HTTP; `mark` is the seed of the runs that are this visitor's alone.

    As a page does it, and with as little work of one's own: Gradio's client takes a tenth of a second of this
    machine's processors for a question, more than the server takes for the answer.
    """

    def __init__(self, address: str, mark: int, seen: Seen):
        self.mark, self.seen, self.draw = mark, seen, random.Random(mark)
        self.caller, self.visit_id = caller_of(address), f"{mark}-{os.urandom(4).hex()}"
        base = f"{self.caller.address}/gradio_api"
        self.presence = urllib.request.urlopen(f"{base}/heartbeat/{self.visit_id}", timeout=600)

    def ask(self, name: str, **given: object) -> Iterator[dict]:
        """What the queue says of a call of an endpoint."""
        values = self.caller.arguments_of(name, **given)
        return self.caller.messages(self.caller.find(name), values, self.visit_id)

    def result_of(self, messages: Iterator[dict]) -> dict:
        is_done, answer = self.caller.end_of(messages)
        if not is_done:
            raise RuntimeError(answer)
        return answer[0]

    def ask_lightly(self) -> None:
        name = self.draw.choice(list(INPUTS))
        asks = {"checkpoint": name, "text": INPUTS[name]}
        started = time.monotonic()
        if self.draw.random() < 0.5:
            answer = self.result_of(self.ask("write", **asks))
            if answer["correct"] is not True:
                self.seen.breaks("answers are right", answer)
        else:
            self.result_of(self.ask("attention_map", **asks))
        self.seen.take(light=time.monotonic() - started)

    def begin(self, steps: int) -> Iterator[dict]:
        """Ask for a run and wait until it has its place; what the queue says from then on."""
        asked, waits = time.monotonic(), False
        messages = self.ask("train", task="copy", steps=steps, seed=self.mark, settings={"max_length": 5})
        for message in messages:
            if message["msg"] in ("process_starts", "process_completed"):
                break
            waits = waits or bool(message.get("rank"))
        self.seen.take(turn=(asked, time.monotonic()), placed=waits)
        return messages

    def train(self, steps: int = 40) -> None:
        """Train, and look into what came of it."""
        run = self.result_of(self.begin(steps))
        kept = self.result_of(self.ask("download", checkpoint=run["checkpoint"]))
        with urllib.request.urlopen(kept["url"], timeout=600) as answer:
            content = io.BytesIO(answer.read())
        with zipfile.ZipFile(content) as packed:
            (record,) = [name for name in packed.namelist() if name.endswith("training.json")]
            if json.loads(packed.read(record))["seed"] != self.mark:
                self.seen.breaks("nobody meets another's run", run)

    def visit(self, until: float, share: float, pause: tuple[float, float]) -> None:
        """Ask until a time and leave; a `share` of the requests is a run."""
        try:
            while time.monotonic() < until:
                self.train() if self.draw.random() < share else self.ask_lightly()
                time.sleep(self.draw.uniform(*pause))
        except Exception as error:
            self.seen.breaks("a visitor is served", f"{type(error).__name__}: {error}")
        finally:
            self.leave()

    def leave(self) -> None:
        self.presence.close()


def browse(address: str, mark: int, until: float, seen: Seen, *, leaves_midway: bool = True) -> None:
    """Train in a page of one's own, again and again, and close the browser while a run is under way."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=find_chromium(), args=FLAGS)
        page = browser.new_page()
        page.set_default_timeout(120_000)
        page.on("response", lambda found: found.status >= 500 and seen.breaks("no 5xx", found.url))
        try:
            page.goto(address)
            choose_tab(page, "Train")
            for own in itertools.count(1):
                if time.monotonic() > until:
                    break
                set_training(page, Steps="60", Seed=str(mark))
                page.locator("#train").click()
                wait_in_line(page, seen)
                most = min(own, limits.PUBLIC.runs)
                page.locator("#runs tbody tr").nth(most - 1).wait_for()
                page.locator("#train:enabled", has_text="Train again").wait_for()
                if (listed := page.locator("#runs tbody tr").count()) != most:
                    seen.breaks("nobody meets another's run", f"a page trained {own} and lists {listed}")
                for tab in ("Try", "Explore", "Train"):
                    choose_tab(page, tab)
            if leaves_midway:
                set_training(page, Steps=str(limits.PUBLIC.steps))
                page.locator("#train").click()
                page.locator("button.stop:enabled").first.wait_for()
        except Exception as error:
            seen.breaks("a browser is served", f"{type(error).__name__}: {error}")
        finally:
            browser.close()


def wait_in_line(page, seen: Seen) -> None:
    """Wait until a page's run has its place; whoever waits long is told where in line."""
    started, is_told = time.monotonic(), False
    while "free place" in (said := page.inner_text("#note")) and time.monotonic() < started + 120:
        is_told = is_told or IN_LINE.search(said) is not None
        time.sleep(0.1)
    if is_told:
        seen.take(placed=1)
    elif time.monotonic() > started + TOLD:
        seen.breaks("who waits is told the place in line", said)


def come_first(process: subprocess.Popen, address: str) -> Footprint:
    """Let one visitor do what all will do, and leave; what the server holds then."""
    visitor, seen = Visitor(address, FIRST, Seen()), Seen()
    for _ in range(10):
        visitor.ask_lightly()
    visitor.train()
    visitor.leave()
    browse(address, FIRST + 1, time.monotonic() + 1.0, seen, leaves_midway=False)
    time.sleep(FREE)
    return Footprint.of(process)


def come_late(address: str, seen: Seen) -> float:
    """Two train, hang up in the middle, and another comes: the seconds until that one has a place."""
    early = [Visitor(address, FIRST + 2 + number, Seen()) for number in range(2)]
    late = Visitor(address, FIRST + 4, Seen())
    runs = [one.begin(2_000) for one in early]
    time.sleep(0.5)
    for one, messages in zip(early, runs, strict=True):
        messages.close()
        one.leave()
    late.result_of(late.begin(1))
    late.leave()
    ((asked, given),) = late.seen.turns
    if given - asked > FREE:
        seen.breaks("places are free after leaving", f"{given - asked:.1f} s")
    return given - asked


def do_at_once(calls: Iterable[Callable[[], None]]) -> None:
    """Call all in threads of their own, and wait for the last."""
    crowd = [threading.Thread(target=call) for call in calls]
    for one in crowd:
        one.start()
    for one in crowd:
        one.join()


def measure(visitors: int, browsers: int, minutes: float, seed: int) -> int:
    seen = Seen()
    with serve_process(options=PUBLIC) as (process, address):
        before = come_first(process, address)
        until = time.monotonic() + 60 * minutes
        crowd = [partial(browse, address, 10_000 + number, until, seen) for number in range(browsers)]
        for number in range(visitors - browsers):
            visitor = Visitor(address, 100 * seed + number, seen)
            share, pause = (1.0, (0.0, 0.1)) if number < 2 else (0.03, (2.0, 8.0))
            crowd.append(partial(visitor.visit, until, share, pause))
        do_at_once(crowd)
        waited = come_late(address, seen)
        time.sleep(30)
        held = before.compare(Footprint.of(process), seen)
    p95 = statistics.quantiles(seen.light, n=20)[-1]
    if p95 > SOON:
        seen.breaks("light requests within a second", f"p95 {p95:.2f} s of {len(seen.light)}")
    if seen.overtaken:
        seen.breaks("who asks first trains first", f"{seen.overtaken} of {len(seen.turns)} were overtaken")
    seen.say(
        f"visitors {visitors} ({browsers} browsers), minutes {minutes}, light requests {len(seen.light)}, "
        f"p50 {statistics.median(seen.light):.2f} s, p95 {p95:.2f} s, runs {seen.trained}, "
        f"overtaken {seen.overtaken}, told their place {seen.placed}, "
        f"a place after all had left {waited:.1f} s; {held}"
    )
    return 1 if seen.broken else 0


if __name__ == "__main__":
    sys.exit(measure(**vars(read_options(__doc__, visitors=30, browsers=3, minutes=5.0, seed=0))))
