"""Memory that tensors free stays in the process."""

import platform
import subprocess
import sys

import pytest

TAKE_STEPS = """
import resource, sys, threading, torch
from hf_attn.utils.freed_memory import keep_freed_memory

if sys.argv[1] == "keep":
    assert keep_freed_memory()

def count_faults():
    for step in range(20):
        if step == 10:
            before = resource.getrusage(resource.RUSAGE_THREAD).ru_minflt
        made = [torch.ones(2**18) for _ in range(16)]  # 16 MB, freed at once
        del made
    print(resource.getrusage(resource.RUSAGE_THREAD).ru_minflt - before)

worker = threading.Thread(target=count_faults)  # whose heap has nothing else at its end
worker.start()
worker.join()
"""


def count_faults(what: str) -> int:
    command = [sys.executable, "-c", TAKE_STEPS, what]
    return int(subprocess.run(command, capture_output=True, text=True, check=True).stdout)


@pytest.mark.long
@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="needs glibc")
def test_pages_that_a_step_freed_are_there_for_the_next():
    assert count_faults("keep") < count_faults("give back") / 4
