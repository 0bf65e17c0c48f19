"""Mixed use for long: visitors come, write, train a short run, look around, go back and forth, and leave.

    python -m tests.hard.soak [--minutes N] [--seed S]

Three visitors at a time by HTTP, each for half a minute, and one after another in a browser. Promised, from
the end of the first quarter to the end, each time half a minute after all have left: memory grows by at most
8 %, threads and open files by at most as many as Gradio's pool takes (`load.SPARE`), and nothing that
`tests.hard.load` promises to each visitor is broken. Exits with 1 where something is.
"""

import subprocess
import sys
import time
from functools import partial
from itertools import count

from tests.hard.load import PUBLIC, Footprint, Seen, Visitor, browse, do_at_once
from tests.support.browser import serve_process
from tests.support.commands import read_options

GROWN = 1.08  # of memory
VISIT = 30.0  # seconds
AT_ONCE = 3  # visitors by HTTP
EMPTY = 30.0  # seconds after the last has left


def come_and_go(address: str, marks: count, until: float, seen: Seen) -> None:
    """Let one visitor after another come by HTTP, and leave."""
    while time.monotonic() < until:
        ends = min(until, time.monotonic() + VISIT)
        Visitor(address, next(marks), seen).visit(ends, share=0.2, pause=(0.5, 2.0))


def open_and_close(address: str, marks: count, until: float, seen: Seen) -> None:
    """Let one browser after another come, and leave in the middle of a run."""
    while time.monotonic() < until:
        browse(address, next(marks), time.monotonic() + 1.0, seen)


def use(process: subprocess.Popen, address: str, minutes: float, marks: count, seen: Seen) -> Footprint:
    """Let visitors come and go for so long; what the server holds when all have left."""
    until = time.monotonic() + 60 * minutes - EMPTY
    kinds = [come_and_go] * AT_ONCE + [open_and_close]
    do_at_once(partial(kind, address, marks, until, seen) for kind in kinds)
    time.sleep(EMPTY)
    return Footprint.of(process)


def soak(minutes: float, seed: int) -> int:
    first = 10_000 * seed
    seen, marks = Seen(), count(first)
    with serve_process(options=PUBLIC) as (process, address):
        quarter = use(process, address, minutes / 4, marks, seen)
        come = next(marks)
        held = quarter.compare(use(process, address, 3 * minutes / 4, marks, seen), seen, GROWN)
    seen.say(
        f"minutes {minutes}, visitors {next(marks) - first} ({come - first} in the first quarter), "
        f"light requests {len(seen.light)}, runs {seen.trained}; from the first quarter to the end "
        f"{held}"
    )
    return 1 if seen.broken else 0


if __name__ == "__main__":
    sys.exit(soak(**vars(read_options(__doc__, minutes=20.0, seed=0))))
