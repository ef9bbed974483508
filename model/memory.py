"""Asks the machine for memory as a forward pass wants it: pages that are kept, and large ones."""

import ctypes
import sys
from functools import cache

import torch
from torch import Tensor

M_TRIM_THRESHOLD, M_TOP_PAD, M_MMAP_THRESHOLD = -1, -2, -3

MIB = 2**20

HUGE_PAGE = 2 * MIB
MADV_HUGEPAGE = 14


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


def block(numel: int, dtype: torch.dtype, device: str) -> Tensor:
    """Memory in one piece, with nothing in it, on huge pages where Linux gives them.

    Weights are read once a token and from end to end: with pages of four kilobytes, finding a
    page costs a third of the reading.
    """
    wanted = numel * dtype.itemsize
    if not sys.platform.startswith("linux") or device != "cpu" or wanted < HUGE_PAGE:
        return torch.empty(numel, dtype=dtype, device=device)
    spare = HUGE_PAGE // dtype.itemsize
    memory = torch.empty(numel + spare, dtype=dtype)
    before = -memory.data_ptr() % HUGE_PAGE
    # refused by a kernel without huge pages, which changes nothing else
    advise = ctypes.CDLL(None).madvise
    advise(ctypes.c_void_p(memory.data_ptr() + before), ctypes.c_size_t(wanted), MADV_HUGEPAGE)
    first = before // dtype.itemsize
    return memory[first : first + numel]
