"""Ways to use the command line in a test: a real process, or without one where seconds count."""

import json
import os
import shlex
import subprocess
import sys

import pytest

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
    from hf_attn.__main__ import main

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "argv", ["hf-attn", *map(str, arguments)])
        with pytest.raises(SystemExit) as left:
            main()
    output, errors = capsys.readouterr()
    return left.value.code or 0, output, errors


def run_page(capsys, commands):
    """Run a page's `hf-attn` commands, a line each, as they stand; give (arguments, output) of each."""
    for command in commands.splitlines():
        program, *arguments = shlex.split(command)
        assert program == "hf-attn"
        code, output, errors = in_process(capsys, *arguments)
        assert code == 0, (command, errors)
        yield arguments, output
