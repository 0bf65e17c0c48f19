"""Full memory is recognised, and nothing else is taken for it."""

import pytest

from hf_attn import __main__ as command_line
from hf_attn.utils.hardware import is_memory_full

FULL = (
    MemoryError(),
    RuntimeError("CUDA out of memory. Tried to allocate 20.00 MiB."),
    RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried to allocate 4000000 bytes."),
    RuntimeError("cuDNN error: CUDNN_STATUS_ALLOC_FAILED"),
    RuntimeError("unable to mmap 400 bytes from file <model.safetensors>: Cannot allocate memory (12)"),
    RuntimeError("Native API failed. Native API returns: 39 (UR_RESULT_ERROR_OUT_OF_DEVICE_MEMORY)"),
    RuntimeError("Invalid buffer size: 19.45 GB"),
)
OTHERS = (RuntimeError("unsupported memory format option"), OSError("out of memory"), KeyError("memory"))


def test_full_memory_is_told_from_other_errors():
    assert [is_memory_full(error) for error in (*FULL, *OTHERS)] == [True] * len(FULL) + [False] * len(OTHERS)


@pytest.mark.parametrize("error", [FULL[0], FULL[2]], ids=str)
def test_the_command_line_says_in_one_line_that_the_memory_is_full(error, monkeypatch, capsys):
    def fail(*_, **__):
        raise error

    monkeypatch.setattr(command_line, "app", fail)
    with pytest.raises(SystemExit) as left:
        command_line.main()
    assert left.value.code == 1
    told = capsys.readouterr().err
    assert told.startswith("hf-attn: The memory is full; a smaller model")
    assert told.count("\n") == 1
