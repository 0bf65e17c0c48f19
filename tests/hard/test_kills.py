"""A few of the kills of `python -m tests.hard.kills`."""

import sys
import warnings
from argparse import Namespace

import pytest

from tests.hard import kills


@pytest.mark.skipif(sys.platform == "win32", reason="no process forks there")
def test_what_is_killed_is_old_or_new_and_comes_to_the_same_end(tmp_path, capsys):
    options = Namespace(kills=3, seed=0, kinds="train,cache,pull", steps=12, only_kills=True)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # pytest has threads, which no child uses
        is_kept, figures = kills.attack(tmp_path, options)
    assert is_kept, capsys.readouterr().out
    assert "kills 3 of 3 survived (train 1 of 1, cache 1 of 1, pull 1 of 1), resumed equal 1 of 1" in figures
    assert "bytes left 0 " in figures
