"""CUDA graphs on a processor: what a recording would keep of torch's operations, done again in turn."""

import contextlib

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from hf_attn.training import step_graph

NOT_RECORDED = "operation not permitted when stream is capturing"


class ProcessorGraph(TorchDispatchMode):
    """In the place of `torch.cuda.CUDAGraph`: a replay computes what was recorded from the same memory.

    Numbers of Python stay what they were, as in a graph. Other than there, what is recorded is also computed,
    so that the first replay has nothing left to do.
    """

    made: list["ProcessorGraph"]
    recording: list["ProcessorGraph"]

    def __init__(self):
        super().__init__()
        self.calls = []
        self.replays = 0
        self.made.append(self)

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        if func is torch.ops.aten._local_scalar_dense.default:
            raise RuntimeError(NOT_RECORDED)
        out = func(*args, **(kwargs or {}))
        self.calls.append((func, args, kwargs or {}, out))
        return out

    def __enter__(self):
        self.recording.append(self)
        return super().__enter__()

    def __exit__(self, *error):
        self.recording.remove(self)
        return super().__exit__(*error)

    def replay(self):
        self.replays += 1
        if self.replays == 1:
            return
        with torch.no_grad():
            for func, args, kwargs, out in self.calls:
                for kept, again in zip(tree_leaves(out), tree_leaves(func(*args, **kwargs)), strict=True):
                    if isinstance(kept, torch.Tensor) and kept.data_ptr() != again.data_ptr():
                        kept.copy_(again)


class Stream:
    def __init__(self, device):
        self.device = device

    def wait_stream(self, other):
        assert other.device == self.device


def on_processors(monkeypatch) -> list[ProcessorGraph]:
    """Let steps be recorded on a processor; returns the graphs that will be made."""
    monkeypatch.setattr(ProcessorGraph, "made", made := [], raising=False)
    monkeypatch.setattr(ProcessorGraph, "recording", recording := [], raising=False)
    monkeypatch.setattr(torch.cuda, "is_current_stream_capturing", lambda: bool(recording))
    monkeypatch.setattr(torch.Tensor, "pin_memory", lambda tensor: tensor.clone())
    monkeypatch.setattr(torch.cuda, "CUDAGraph", ProcessorGraph)
    monkeypatch.setattr(torch.cuda, "Stream", Stream)
    monkeypatch.setattr(step_graph, "_FREE_STREAMS", {})
    monkeypatch.setattr(torch.cuda, "current_stream", Stream)
    monkeypatch.setattr(torch.cuda, "stream", lambda _: contextlib.nullcontext())
    monkeypatch.setattr(torch.cuda, "graph", lambda graph, **_: graph)
    return made
