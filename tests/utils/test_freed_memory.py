"""Memory that tensors free stays in the process, until it is given back."""

import platform
import queue
import subprocess
import sys

import pytest

from hf_attn.utils import freed_memory

TAKE_STEPS = """
import resource, threading, torch
from hf_attn.utils.freed_memory import keep_freed_memory

def count_faults():
    for step in range(20):
        if step == 10:
            before = resource.getrusage(resource.RUSAGE_THREAD).ru_minflt
        made = [torch.ones(2**18) for _ in range(16)]  # 16 MB, freed at once
        del made
    print(resource.getrusage(resource.RUSAGE_THREAD).ru_minflt - before)

for keeps in (False, True):
    assert not keeps or keep_freed_memory()
    worker = threading.Thread(target=count_faults)  # whose heap has nothing else at its end
    worker.start()
    worker.join()
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="needs glibc")
def test_pages_that_a_step_freed_are_there_for_the_next():
    command = [sys.executable, "-c", TAKE_STEPS]
    counted = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    given_back, kept = map(int, counted.split())
    assert kept < given_back / 4


def test_however_often_it_is_asked_for_memory_is_given_back_once_a_while_and_again_later(monkeypatch):
    given = queue.Queue()
    monkeypatch.setattr(freed_memory, "SOON", 0.05)
    monkeypatch.setattr(freed_memory, "give_freed_memory_back", lambda: given.put("given"))
    for _ in range(2):
        for _ in range(50):
            freed_memory.give_freed_memory_back_soon()
        given.get(timeout=60)
        assert given.empty()
