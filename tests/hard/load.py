"""A class at one server: many visitors ask and train at once, by HTTP and in real browsers.

    python -m tests.hard.load [--visitors N] [--browsers N] [--minutes M] [--seed S]

Promised: nothing answers with 5xx; nobody meets another's run; a light request is answered within a second
(95 of 100) while two train; places are free within five seconds of leaving; memory, threads and open files
come back to what they were after the first visitor had gone. It exits with 1 where a promise is broken.
"""

import argparse
import json
import random
import re
import statistics
import subprocess
import sys
import threading
import time
import zipfile
from collections import Counter
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

from gradio_client import Client
from playwright.sync_api import sync_playwright

from tests.support.browser import (
    FLAGS,
    choose_tab,
    expect_trained,
    find_chromium,
    serve_process,
    set_training,
)

SOON = 1.0  # seconds, of a light request
FREE = 5.0  # seconds after the last has left
GROWN = 1.15  # of memory
INPUTS = {"attn-copy": "7 15 2 3", "attn-addition": "153+391", "attn-sort": "9 4 17 4 2 11 5 8"}
STATUS = re.compile(r"(VmRSS|Threads):\s+(\d+)")


@dataclass
class Seen:
    """What the visitors met."""

    light: list[float] = field(default_factory=list)  # seconds of each light request
    trained: int = 0
    broken: Counter = field(default_factory=Counter)  # promise → how often it was broken
    told: list[str] = field(default_factory=list)  # the first of what was broken, in words
    lock: threading.Lock = field(default_factory=threading.Lock)

    def breaks(self, promise: str, what: object) -> None:
        with self.lock:
            self.broken[promise] += 1
            self.told += [f"{promise}: {str(what)[:300]}"] if len(self.told) < 20 else []


@dataclass(frozen=True)
class Footprint:
    """What a process holds."""

    kilobytes: int
    threads: int
    files: int

    @classmethod
    def of(cls, process: subprocess.Popen) -> "Footprint":
        folder = Path(f"/proc/{process.pid}")
        found = dict(STATUS.findall((folder / "status").read_text()))
        return cls(int(found["VmRSS"]), int(found["Threads"]), len(list((folder / "fd").iterdir())))


def visit(address: str, number: int, until: float, seen: Seen, draw: random.Random) -> None:
    """Ask for answers and maps; now and then train, with a seed that is this visitor's alone."""
    try:
        client = Client(address, verbose=False, download_files=f"/tmp/hf_attn_load_{number}")
        while time.monotonic() < until:
            ask_lightly(client, seen, draw)
            if draw.random() < 0.1:
                train_own(client, number, seen)
            time.sleep(draw.uniform(0.5, 3.0))
    except Exception as error:
        seen.breaks("a visitor is served", f"{type(error).__name__}: {error}")


def ask_lightly(client: Client, seen: Seen, draw: random.Random) -> None:
    name = draw.choice(list(INPUTS))
    started = time.monotonic()
    if draw.random() < 0.5:
        answer = client.predict(name, INPUTS[name], api_name="/write")
        if answer["correct"] is not True:
            seen.breaks("answers are right", answer)
    else:
        client.predict(name, INPUTS[name], api_name="/attention_map")
    with seen.lock:
        seen.light.append(time.monotonic() - started)


def train_own(client: Client, number: int, seen: Seen) -> None:
    run = client.predict("copy", steps=40, seed=number, settings={"max_length": 5}, api_name="/train")
    with zipfile.ZipFile(client.predict(run["checkpoint"], api_name="/download")) as packed:
        (record,) = [name for name in packed.namelist() if name.endswith("training.json")]
        if json.loads(packed.read(record))["seed"] != number:
            seen.breaks("nobody meets another's run", run)
    with seen.lock:
        seen.trained += 1


def browse(address: str, number: int, until: float, seen: Seen) -> None:
    """Train in a page of one's own, again and again, with a seed of one's own."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=find_chromium(), args=FLAGS)
        page = browser.new_page()
        page.set_default_timeout(120_000)
        answers = []
        page.on("response", lambda response: answers.append((response.status, response.url)))
        try:
            page.goto(address)
            choose_tab(page, "Train")
            while time.monotonic() < until:
                set_training(page, Steps="60", Seed=str(number))
                page.get_by_role("button", name="Train", exact=True).click()
                expect_trained(page)
                named = set(re.findall(r"seed (\d+)", page.inner_text("body"), re.IGNORECASE))
                if named - {str(number)}:
                    seen.breaks("nobody meets another's run", f"the page of {number} names seeds {named}")
        except Exception as error:
            seen.breaks("a browser is served", f"{type(error).__name__}: {error}")
        finally:
            for status, url in answers:
                if status >= 500:
                    seen.breaks("no 5xx", f"{status} {url}")
            browser.close()


def measure(visitors: int, browsers: int, minutes: float, seed: int) -> int:
    draw, seen = random.Random(seed), Seen()
    with ExitStack() as stack:
        process, address = stack.enter_context(serve_process(options=("--trust-visitors",)))
        first = Client(address, verbose=False)
        ask_lightly(first, Seen(), draw)
        train_own(first, 1_000, Seen())
        first.close()
        time.sleep(FREE)
        before = Footprint.of(process)
        until = time.monotonic() + 60 * minutes
        crowd = [
            threading.Thread(target=visit, args=(address, number, until, seen, random.Random(seed + number)))
            for number in range(1, visitors - browsers + 1)
        ]
        crowd += [
            threading.Thread(target=browse, args=(address, 10_000 + number, until, seen))
            for number in range(browsers)
        ]
        for one in crowd:
            one.start()
        for one in crowd:
            one.join()
        last = Client(address, verbose=False)
        started = time.monotonic()
        train_own(last, 1_001, Seen())
        waited = time.monotonic() - started
        last.close()
        time.sleep(30)
        after = Footprint.of(process)
    p95 = statistics.quantiles(seen.light, n=20)[-1]
    if p95 > SOON:
        seen.breaks("light requests within a second", f"p95 {p95:.2f} s of {len(seen.light)}")
    if after.kilobytes > GROWN * before.kilobytes:
        seen.breaks("memory comes back", f"{before.kilobytes:,} kB before, {after.kilobytes:,} after")
    print(
        f"visitors {visitors} (browsers {browsers}), minutes {minutes}, light requests {len(seen.light)}, "
        f"p95 {p95:.2f} s, trained {seen.trained}, a run after all had left {waited:.1f} s; "
        f"kB {before.kilobytes:,} to {after.kilobytes:,}, threads {before.threads} to {after.threads}, "
        f"files {before.files} to {after.files}; broken: {dict(seen.broken) or 'nothing'}"
    )
    for line in seen.told:
        print("-", line)
    return 1 if seen.broken else 0


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="A class at one server.")
    parser.add_argument("--visitors", type=int, default=30)
    parser.add_argument("--browsers", type=int, default=3)
    parser.add_argument("--minutes", type=float, default=5.0)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    sys.exit(measure(given.visitors, given.browsers, given.minutes, given.seed))
