"""A device whose memory is full, or that fails, ends a run in a sentence."""

import collections
import dataclasses
import subprocess
import sys

import pytest
import torch
from accelerate import Accelerator

from hf_attn.architectures.registry import build_model
from hf_attn.tasks import Recipe, build_task
from hf_attn.training.failures import DeviceFailed, naming_device_failures
from hf_attn.training.loop import train

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
        naming_device_failures(torch.device("cpu"), 1, RECIPE),
    ):
        raise RuntimeError("shape '[2]' is invalid")


@pytest.mark.parametrize(
    "told",
    [
        "CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`",
        "cuDNN error: CUDNN_STATUS_ALLOC_FAILED",
    ],
)
def test_a_library_of_the_devices_that_finds_no_memory_is_understood(told):
    with (
        pytest.raises(DeviceFailed, match=r"memory of device 'cuda' is full at step 3"),
        naming_device_failures(torch.device("cuda"), 3, RECIPE),
    ):
        raise RuntimeError(told)


def fill_memory(*_, **__):
    raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 20.00 MiB.")


@pytest.mark.parametrize("step", ["prepare", "load_state"])
def test_a_device_that_is_full_before_the_first_step_is_no_damaged_state(step, tmp_path, monkeypatch):
    task = build_task("copy")
    recipe = dataclasses.replace(task.recipe, steps=2, report_every=1, batch_size=4)
    model = build_model(task, recipe)
    collections.deque(train(task, model, recipe, state_dir=tmp_path / "state"), maxlen=0)
    monkeypatch.setattr(Accelerator, step, fill_memory)
    with pytest.raises(DeviceFailed, match=r"memory of device '\w+' is full at step 1") as told:
        next(train(task, model, recipe, state_dir=tmp_path / "state"))
    assert "Begin the run again" not in str(told.value)
