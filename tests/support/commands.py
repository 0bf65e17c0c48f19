"""Ways to use the command line in a test: a real process, or without one where seconds count."""

import argparse
import contextlib
import io
import json
import os
import resource
import shlex
import subprocess
import sys
from pathlib import Path
from unittest import mock

SMALL = ["--set", "max_length=5", "--set", "hidden_size=32", "--set", "intermediate_size=64"]


def start(*arguments, **settings):
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1"}
    return subprocess.Popen(
        [sys.executable, "-m", "hf_attn", *map(str, arguments)],
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        **settings,
    )


def run(*arguments, code=0, **settings):
    """Standard output and error of a command that must end with this code."""
    process = start(*arguments, **settings)
    output, errors = process.communicate(timeout=600)
    assert process.returncode == code, (output, errors)
    return output, errors


def rows_of(output):
    return [json.loads(line) for line in output.splitlines()]


def in_process(capsys, *arguments):
    """The same without a new process, which takes seconds: (exit code, standard output, standard error)."""
    code = leave(*arguments)
    return code, *capsys.readouterr()


def leave(*arguments):
    """The exit code of a command that is typed in."""
    from hf_attn.__main__ import main

    with mock.patch.object(sys, "argv", ["hf-attn", *map(str, arguments)]):
        try:
            main()
        except SystemExit as left:
            return int(left.code or 0)
    return 0


def type_in(*arguments):
    """The exit code of a command and what it said of what is wrong."""
    said = io.StringIO()
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(said):
        code = leave(*arguments)
    return code, said.getvalue()


def read_options(about, **defaults):
    """What a script of ours is given on its command line: options with these defaults, of their kinds."""
    parser = argparse.ArgumentParser(description=about.partition("\n")[0])
    for name, default in defaults.items():
        kind = {"action": "store_true"} if default is False else {"type": type(default), "default": default}
        parser.add_argument(f"--{name.replace('_', '-')}", **kind)
    return parser.parse_args()


def limit_memory(gigabytes):
    """Let this process take so much more than it has now."""
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[0])
    most = pages * resource.getpagesize() + gigabytes * 10**9
    resource.setrlimit(resource.RLIMIT_AS, (most, most))


def run_page(capsys, commands):
    """Run a page's `hf-attn` commands, a line each, as they stand; give (arguments, output) of each."""
    for command in commands.splitlines():
        program, *arguments = shlex.split(command)
        assert program == "hf-attn"
        code, output, errors = in_process(capsys, *arguments)
        assert code == 0, (command, errors)
        yield arguments, output
