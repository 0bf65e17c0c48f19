"""One model is built or loaded at a time in a process: transformers changes the process while it does."""

import contextlib
import os
import threading
from collections.abc import Iterator

_LOCK = threading.RLock()
if hasattr(os, "register_at_fork"):  # forked amid a load, a process would keep what the load had changed
    os.register_at_fork(before=_LOCK.acquire, after_in_parent=_LOCK.release, after_in_child=_LOCK.release)


@contextlib.contextmanager
def building_model() -> Iterator[None]:
    """Hold the lock around everything that constructs or loads a model of transformers.

    While `from_pretrained` builds, it puts other functions in the place of `PreTrainedModel.tie_weights`, of
    those in `torch.nn.init` and of `torch.linspace`, and another default dtype, for the whole process
    (`transformers/initialization.py`), and puts back afterwards what it found. Two at once find each other's:
    `tie_weights` then stays an empty function, and every model with tied weights lacks tensors. A model that
    is merely constructed meanwhile would not tie its weights, and its initial weights come from torch's one
    global generator.

    The lock is reentrant. Download before, and compute after: whoever holds it makes all others wait.
    """
    with _LOCK:
        yield
