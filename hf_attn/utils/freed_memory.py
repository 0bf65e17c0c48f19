"""What the C library does with the memory that tensors free."""

import ctypes
import platform

TRIM_THRESHOLD, MMAP_THRESHOLD = -1, -3  # parameters of mallopt, from glibc's malloc.h
KEPT = 2**26  # bytes at the end of the heap: a step of our recipes frees less
LARGEST_REUSED = 2**25  # bytes of one tensor: the most that mallopt takes


def keep_freed_memory() -> bool:
    """Let this process keep what tensors free, for the next ones; whether the C library can.

    glibc gives the end of its heap back to the system whenever some megabytes of it are free, so that each
    step of training, which ends in freeing all it made, gets the same pages again, emptied. Nothing that is
    computed depends on this. Other C libraries stay as they are.
    """
    if platform.libc_ver()[0] != "glibc":
        return False
    mallopt = ctypes.CDLL(None).mallopt
    return bool(mallopt(MMAP_THRESHOLD, LARGEST_REUSED)) and bool(mallopt(TRIM_THRESHOLD, KEPT))
