"""Whatever text, settings, files and ids somebody sends: an answer, or one sentence that is documented.

    python -m tests.hard.fuzz [--inputs N] [--seed S] [--only NAME]

Each door (`DOORS`) is sent what hypothesis draws for it. A refusal is a ValueError or an OSError that says a
sentence of at most LONGEST_REFUSAL characters; anything else, SLOWEST seconds for one input, or memory
that keeps growing, is a failure. It exits with 1 where there is one, and shows the shortest input of each.
"""

import contextlib
import gc
import logging
import math
import os
import sys
import time
import traceback
import warnings
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from unittest.mock import patch

import hypothesis
import torch
from huggingface_hub import constants
from huggingface_hub.errors import StrictDataclassError
from hypothesis import HealthCheck, Phase, seed, settings
from hypothesis import strategies as st

from hf_attn.utils.freed_memory import give_freed_memory_back, keep_freed_memory
from tests.hard.fuzz_commands import DOORS as COMMANDS
from tests.hard.fuzz_draws import HERE, Door, Unexpected
from tests.hard.fuzz_package import DOORS as PACKAGE
from tests.hard.fuzz_page import DOORS as PAGE
from tests.support.commands import read_options

SLOWEST = 5.0  # seconds of the processor, for one input
SLOW = f"more than {SLOWEST:.0f} s"
LONGEST_REFUSAL = 2000  # characters
ROUND = 2000  # inputs to all doors in turn: what hypothesis drew for a door it keeps until the last of them
MOST_GROWTH = 300  # MB of memory, from the end of the first round to the end of the last
DOORS: dict[str, Door] = PACKAGE | COMMANDS | PAGE
ENDS = (".", "”.", ".)", "?")


@dataclass
class Tally:
    """What became of the inputs; of each failure how often, the shortest input and what was said to it."""

    outcomes: Counter = field(default_factory=Counter)
    failures: dict[tuple[str, str], list] = field(default_factory=dict)
    slowest: tuple[float, str] = (0.0, "")

    def note(self, name: str, complaint: str, sent: str, said: str) -> None:
        """Count a failure."""
        found = self.failures.setdefault((name, complaint), [0, sent, said])
        found[0] += 1
        if len(sent) < len(found[1]):
            found[1:] = sent, said


def show(arguments: tuple) -> str:
    """An input as Python writes it, where it can."""
    try:
        return repr(arguments)
    except ValueError:
        return "with a whole number of more digits than Python writes"


def place_of(error: BaseException) -> str:
    """The last line of the product that an error passed."""
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if "tests/" not in frame.filename]
    own = [frame for frame in frames if "/hf_attn/" in frame.filename or "/demos/" in frame.filename]
    last = (own or frames or [None])[-1]
    return f"{'/'.join(last.filename.split('/')[-3:])}:{last.lineno}" if last else "the fuzz"


def complain_of(error: Exception) -> str:
    """What is wrong with a refusal; nothing where it is a short sentence, or the system's own words."""
    if isinstance(error, StrictDataclassError) or getattr(error, "strerror", None) or "[Errno" in str(error):
        return ""
    if len(str(error)) > LONGEST_REFUSAL:
        return "a long refusal"
    return "" if str(error).rstrip().endswith(ENDS) else "no sentence"


def try_door(name: str, arguments: tuple, tally: Tally) -> None:
    """Send one input to a door, and count what became of it."""
    started = time.process_time()
    outcome, complaint, said = "answered", "", ""
    try:
        DOORS[name].call(*arguments)
    except (ValueError, OSError, StrictDataclassError) as error:
        outcome, said = "refused", str(error)
        if fault := complain_of(error):
            complaint = f"{fault}, {type(error).__name__} at {place_of(error)}"
    except Exception as raised:
        error = raised.__cause__ if isinstance(raised, Unexpected) else raised
        outcome, said = "failed", str(error)
        complaint = f"{type(error).__name__} at {place_of(error)}"
    seconds = time.process_time() - started
    tally.outcomes[outcome] += 1
    tally.slowest = max(tally.slowest, (seconds, name))
    if seconds > SLOWEST:
        complaint, said = SLOW, f"{seconds:.1f} s"
    if complaint:
        tally.note(name, complaint, show(arguments), said)


def send(name: str, inputs: int, draw: int, tally: Tally) -> None:
    """Draw so many inputs for a door, and send them."""

    @seed(draw)
    @settings(
        max_examples=inputs, database=None, deadline=None, phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )  # fmt: skip
    @hypothesis.given(st.tuples(*DOORS[name].arguments))
    def send_all(arguments):
        try_door(name, arguments, tally)

    send_all()


def resident() -> float:
    """MB of memory that this process holds."""
    gc.collect()
    give_freed_memory_back()
    with open("/proc/self/statm") as statm:
        return int(statm.read().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 1e6


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """No network, no warnings and no log, in a folder of the fuzz's own."""
    with (
        patch.object(constants, "HF_HUB_OFFLINE", True),
        warnings.catch_warnings(action="ignore"),
        contextlib.chdir(HERE.name),
    ):
        logging.disable(logging.CRITICAL)
        try:
            yield
        finally:
            logging.disable(logging.NOTSET)


def run(inputs: int, draw: int, names: list[str]) -> Tally:
    """Send so many inputs to these doors, and print what failed and, last, the figures."""
    shares = sum(DOORS[name].share for name in names)
    tally, started = Tally(), time.monotonic()
    rounds = max(2, round(inputs / ROUND))
    memory = []
    for turn in range(rounds):
        for name in names:
            send(name, max(2, math.ceil(inputs / rounds * DOORS[name].share / shares)), draw + turn, tally)
        if turn == 0:  # which opens what stays open
            tally.slowest = (0.0, "")
            tally.failures = {key: found for key, found in tally.failures.items() if key[1] != SLOW}
        memory.append(resident())
    grown = memory[-1] - memory[0]
    if grown > MOST_GROWTH:
        tally.note("all", "memory grew", "", f"{grown:.0f} MB")
    for (name, complaint), (times, sent, said) in sorted(tally.failures.items()):
        print(f"- {name}, {times} times: {complaint}: {said[:200]!r}\n    {sent[:200]}")
    kinds, (seconds, where) = tally.outcomes, tally.slowest
    held = " → ".join(f"{now:.0f}" for now in memory)
    print(
        f"{kinds.total():,} inputs at {len(names)} doors: {kinds['answered']:,} answered, "
        f"{kinds['refused']:,} refused in a sentence, {len(tally.failures)} kinds of failure; slowest "
        f"{seconds:.1f} s ({where}), memory {held} MB, {time.monotonic() - started:.0f} s, seed {draw}."
    )
    return tally


if __name__ == "__main__":
    given = read_options(__doc__, inputs=10_000, seed=0, only="")
    torch.set_num_threads(1)
    keep_freed_memory(one_heap=True)  # as the app does: of a thread's own, what was freed at its end stays
    with quiet():
        found = run(given.inputs, given.seed, [given.only] if given.only else list(DOORS))
    sys.exit(1 if found.failures else 0)
