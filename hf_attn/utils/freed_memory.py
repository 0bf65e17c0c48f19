"""What the C library does with the memory that tensors free."""

import ctypes
import platform
import threading

TRIM_THRESHOLD, MMAP_THRESHOLD, MOST_HEAPS = -1, -3, -8  # parameters of mallopt, from glibc's malloc.h
KEPT = 2**26  # bytes at the end of the heap: a step of our recipes frees less
LARGEST_REUSED = 2**25  # bytes of one tensor: the most that mallopt takes
SOON = 10.0  # seconds
_is_due = threading.Lock()  # held while it is


def keep_freed_memory(*, one_heap: bool = False) -> bool:
    """Let this process keep what tensors free, for the next ones; whether the C library can.

    glibc gives the end of its heap back to the system whenever some megabytes of it are free, so that each
    step of training, which ends in freeing all it made, gets the same pages again, emptied. Nothing that is
    computed depends on this. Other C libraries stay as they are.

    Args:
        one_heap: whether all threads share a heap, as in a server: of a thread's own the end could not be
            given back.
    """
    if platform.libc_ver()[0] != "glibc":
        return False
    mallopt = ctypes.CDLL(None).mallopt
    wanted = {MMAP_THRESHOLD: LARGEST_REUSED, TRIM_THRESHOLD: KEPT} | ({MOST_HEAPS: 1} if one_heap else {})
    return all(mallopt(name, value) for name, value in wanted.items())


def give_freed_memory_back() -> bool:
    """Give what this process keeps for the next tensors back to the system; whether the C library can."""
    if platform.libc_ver()[0] != "glibc":
        return False
    ctypes.CDLL(None).malloc_trim(0)
    return True


def give_freed_memory_back_soon() -> None:
    """The same in some seconds, once, however often it is asked for meanwhile: it holds all threads up."""
    if not _is_due.acquire(blocking=False):
        return

    def give() -> None:
        _is_due.release()
        give_freed_memory_back()

    timer = threading.Timer(SOON, give)
    timer.daemon = True
    timer.start()
