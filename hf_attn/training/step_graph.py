"""A step of training as a CUDA graph: recorded once, then launched as a whole.

A tiny model's step is some hundred kernels of a few microseconds each: a GPU waits for the processor to
launch them one by one. A graph of them is one launch (Nguyen, Carilli et al. 2021,
pytorch.org/blog/accelerating-pytorch-with-cuda-graphs). It computes on the same memory each time, so that
the shapes must not change, and nothing in it may wait for a value.
"""

import logging
import threading
import weakref
from collections.abc import Callable

import torch
from accelerate import Accelerator
from transformers import PreTrainedModel
from transformers.utils import is_torch_greater_or_equal

# Before the recording, as in torch's notes on CUDA graphs: kernels are chosen, the optimizer's state is made.
CALLS_BEFORE = 3
# Ids of a batch, estimated: above, a step is arithmetic more than launches, and computing padding costs more.
MOST_TOKENS = 2**15
FIRST_SAFE = "2.13"  # before this torch, whatever draws while another thread records raises an error
_RECORDING = threading.Lock()  # one graph at a time is recorded in a process
# Device → a graph whose recording failed there. The device's allocator may still use it: it is kept, and no
# other is recorded on that device.
_FAILED: dict[torch.device, torch.cuda.CUDAGraph] = {}
# Device → streams of graphs that are gone, for the next ones: cuBLAS keeps tens of megabytes for every stream
# that it has multiplied on, as long as the process lives.
_FREE_STREAMS: dict[torch.device, list[torch.cuda.Stream]] = {}


def can_record(
    model: PreTrainedModel, optimizer: torch.optim.Optimizer, tokens: int, accelerator: Accelerator
) -> bool:
    """Whether a step on so many ids can be a graph: one GPU, and nothing in it that waits for a value.

    What waits: a recurrent model for the lengths of its rows, Adafactor for the norms of its weights, float16
    for whether its gradients overflowed.
    """
    return (
        accelerator.device.type == "cuda"
        and is_torch_greater_or_equal(FIRST_SAFE, accept_dev=True)
        and accelerator.num_processes == 1
        and accelerator.mixed_precision != "fp16"
        and "capturable" in optimizer.defaults
        and model._can_compile_fullgraph
        and tokens <= MOST_TOKENS
    )


class StepGraph:
    """One function of tensors, recorded after its first calls and replayed from then on.

    The function itself is the plain twin: it is called as it is first, and always where recording fails.

    Args:
        device: the GPU.
    """

    def __init__(self, device: torch.device):
        self.device = device
        free = _FREE_STREAMS.setdefault(device, [])
        try:
            self.stream = free.pop()  # where it is called first, and recorded
        except IndexError:
            self.stream = torch.cuda.Stream(device)
        weakref.finalize(self, free.append, self.stream)
        self.inputs: dict[str, torch.Tensor] = {}
        self.calls = 0
        self.graph: torch.cuda.CUDAGraph | None = None

    def run(self, function: Callable[..., None], inputs: dict[str, torch.Tensor]) -> None:
        """Call the function, or replay what it did; the processor does not wait for the GPU.

        Args:
            function: takes tensors on the GPU by name, and leaves what it computes in tensors that were there
                before. Always the same one; it is not kept, so that it may own this graph.
            inputs: what it takes, in the machine's own memory; the same names each time. Where the shapes are
                others than the first ones, the function is called as it is.
        """
        pinned = {name: value.pin_memory() for name, value in inputs.items()}
        given = {name: value.to(self.device, non_blocking=True) for name, value in pinned.items()}
        self.inputs = self.inputs or given
        if any(value.shape != self.inputs[name].shape for name, value in given.items()):
            function(**given)
            return
        for name, value in given.items():
            self.inputs[name].copy_(value)
        self.calls += 1
        if self.graph is None and self.device not in _FAILED and self.calls > CALLS_BEFORE:
            self._record(function)
        if self.graph is not None:
            self.graph.replay()
        elif self.device in _FAILED:
            function(**self.inputs)
        else:
            self._call_aside(function)

    def _call_aside(self, function: Callable[..., None]) -> None:
        """Call the function on the stream on which it will be recorded."""
        here = torch.cuda.current_stream(self.device)
        self.stream.wait_stream(here)
        with torch.cuda.stream(self.stream):
            function(**self.inputs)
        here.wait_stream(self.stream)

    def _record(self, function: Callable[..., None]) -> None:
        """Record the function; where that fails, say so and go on without."""
        graph = torch.cuda.CUDAGraph()
        recording = torch.cuda.graph(graph, stream=self.stream, capture_error_mode="thread_local")
        with _RECORDING:
            if self.device in _FAILED:  # another one, meanwhile
                return
            try:
                # The outer `stream` puts back the stream where the inner one fails to.
                with torch.cuda.stream(torch.cuda.current_stream(self.device)), recording:
                    function(**self.inputs)
                self.graph = graph
            except RuntimeError as error:
                _FAILED[self.device] = graph
                logging.getLogger(__name__).warning(
                    "A step cannot be a CUDA graph, and is taken as it is: %s", error
                )
