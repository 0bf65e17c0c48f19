"""A device whose memory is full, or that fails, ends a run in a sentence."""

import subprocess
import sys

import pytest
import torch

from hf_attn.tasks import Recipe
from hf_attn.training.failures import naming_device_failures

FULL = """
import resource, sys
from dataclasses import replace
import torch
from hf_attn.architectures.registry import build_model
from hf_attn.tasks import build_task
from hf_attn.training.failures import DeviceFailed
from hf_attn.training.loop import train
task = build_task("copy")
recipe = replace(task.recipe, batch_size=4096)
model = build_model(task, recipe)
run = train(task, model, recipe)
next(run)
before = [weight.detach().clone() for weight in model.parameters()]
address_space = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (address_space + 2**24, -1))
try:
    next(run)
except DeviceFailed as error:
    assert all(torch.equal(*pair) for pair in zip(before, model.parameters()))
    print(error)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="limits memory by /proc")
def test_a_run_that_fills_the_memory_ends_in_words_and_the_model_stays():
    done = subprocess.run([sys.executable, "-c", FULL], capture_output=True, text=True, check=False)
    assert done.stderr == ""
    assert "memory of device 'cpu' is full at step 1. The model keeps what it learned before" in done.stdout
    assert "Choose batch_size=2048 or hidden_size=" in done.stdout


RECIPE = Recipe()


def test_a_fault_of_ours_is_not_taken_for_the_devices():
    with (
        pytest.raises(RuntimeError, match=r"^shape"),
        naming_device_failures(torch.device("cpu"), 1, Recipe()),
    ):
        raise RuntimeError("shape '[2]' is invalid")
