"""One attack after the other: `python -m tests.hard [NAME ...]`.

What each says last is kept in benchmarks/results/hard.jsonl, for docs/reliability.md. It exits with 1 where a
promise is broken.
"""

import argparse
import subprocess
import sys
import time

from benchmarks.report import RESULTS, environment, record

CHECKS = {  # what `make test-nightly` runs, then what takes longer
    "kills": ["kills", "--kills", "50"],
    "load": ["load", "--visitors", "30", "--browsers", "3", "--minutes", "5"],
    "fuzz": ["fuzz", "--inputs", "10000"],
    "hostile": ["hostile_set", "--folders", "600"],
    "soak": ["soak", "--minutes", "20"],
    "versions": ["versions"],
}
HOUR = ("kills", "load", "fuzz", "hostile")


def run(name: str) -> bool:
    """Run one; whether it keeps its promises."""
    around, started, said = environment(), time.monotonic(), ""
    words = ["-m", f"tests.hard.{CHECKS[name][0]}", *CHECKS[name][1:]]
    print(f"python {' '.join(words)}", flush=True)
    with subprocess.Popen([sys.executable, *words], stdout=subprocess.PIPE, text=True) as check:
        for line in check.stdout:
            print(line, end="", flush=True)
            said = line.strip() or said
    row = {"check": name, "command": f"python {' '.join(words)}", "said": said, "kept": check.returncode == 0}
    record(RESULTS / "hard.jsonl", [row | {"seconds": round(time.monotonic() - started)}], around)
    return row["kept"]


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Attack the package and the app.")
    parser.add_argument("names", nargs="*", choices=[*CHECKS, []], help=f"default: {' '.join(HOUR)}")
    kept = [run(name) for name in parser.parse_args().names or HOUR]
    print(f"{sum(kept)} of {len(kept)} kept all their promises")
    sys.exit(not all(kept))
