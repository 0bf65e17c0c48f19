"""Tries wrong lines in a copy of the repository: `python -m tests.support.mutant_runner`, started there.

Each line that it reads is JSON, [file, right, wrong, test], and so is each answer: [exit code, last words].
Each test runs in a fork. What takes seconds to import, and is not ours, is imported once.
"""

import contextlib
import gc
import importlib
import json
import os
import sys
import traceback
from pathlib import Path

OURS = ("hf_attn", "demos", "tests", "benchmarks", "docs", "conftest", "__main__")
PLUGINS = ("hypothesis", "_hypothesis", "xdist", "pytest_timeout")  # pytest imports them itself
SAID = Path("said.txt")
OPTIONS = ["-q", "-x", "-p", "no:xdist", "-p", "no:cacheprovider", "-m", ""]
OPTIONS += ["-W", "ignore::pytest.PytestAssertRewriteWarning"]  # of what is imported already
MET = Path("modules.json")


def import_others() -> None:
    """Import what the last test has imported of others, so that the next need not."""
    for name in json.loads(MET.read_text()):
        if name not in sys.modules and name.split(".")[0] not in OURS and not name.startswith(PLUGINS):
            with contextlib.suppress(Exception):
                importlib.import_module(name)


def run_test(name: str) -> int:
    """Run a test in a fork; pytest's exit code."""
    child = os.fork()
    if child:
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    code = 70
    try:
        import pytest

        said = os.open(SAID, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        os.dup2(said, 1)
        os.dup2(said, 2)
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        code = int(pytest.main([*OPTIONS, name]))
        MET.write_text(json.dumps(list(sys.modules)))
    except BaseException:
        traceback.print_exc()
    sys.stdout.flush()
    os._exit(code)


def main() -> None:
    """Answer until nothing more is asked."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # whatever is printed on import is no answer
    for number, line in enumerate(sys.stdin, 1):
        file, right, wrong, test = json.loads(line)
        path = Path(file)
        text, was = path.read_text(encoding="utf-8"), path.stat().st_mtime_ns
        path.write_text(text.replace(right, wrong), encoding="utf-8")
        os.utime(path, (number, number))  # so that no bytecode of another version is taken for it
        code = run_test(test)
        path.write_text(text, encoding="utf-8")
        os.utime(path, ns=(was, was))
        answers.write(json.dumps([code, SAID.read_text(errors="replace")[-3000:]]) + "\n")
        answers.flush()
        import_others()
        gc.freeze()  # a fork that collects garbage copies no page of it


if __name__ == "__main__":
    main()
