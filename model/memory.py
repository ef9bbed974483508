"""Keeps pages that a run has freed for the next run, where the C library lets one ask for it."""

import ctypes
import sys
from functools import cache

M_TRIM_THRESHOLD, M_TOP_PAD, M_MMAP_THRESHOLD = -1, -2, -3

MIB = 2**20


@cache
def keep_freed_pages() -> bool:
    """Tell glibc to reuse freed memory; whether it agreed. Once a process.

    A forward pass frees tensors of some hundred kilobytes each, and by default glibc hands every
    one back to the kernel, so that the next pass pays for page faults instead of arithmetic.
    Recording, which holds on to tensors, would pay most. Elsewhere nothing is changed.
    """
    if not sys.platform.startswith("linux"):
        return False
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is None:
        return False
    settings = {M_MMAP_THRESHOLD: 32 * MIB, M_TRIM_THRESHOLD: 512 * MIB, M_TOP_PAD: 64 * MIB}
    accepted = [mallopt(name, size) == 1 for name, size in settings.items()]
    return all(accepted)
