"""Asks the machine for memory as a forward pass wants it: pages that are kept, and large ones."""

import ctypes
import sys
import time
from functools import cache

import torch
from torch import Tensor

M_TRIM_THRESHOLD, M_TOP_PAD, M_MMAP_THRESHOLD = -1, -2, -3

MIB = 2**20

HUGE_PAGE = 2 * MIB
MADV_HUGEPAGE, MADV_POPULATE_WRITE = 14, 23

AHEAD = 64 * MIB
"""Bytes that are asked for at a time."""
QUICK = 0.5e-3
"""Seconds of work that a huge page takes a machine which has it, several times over."""


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
    page costs a third of the reading. A virtual machine may have to ask its host for every huge
    page, which takes seconds a gigabyte; from where that begins, the pages are small ones.
    """
    wanted = numel * dtype.itemsize
    if not sys.platform.startswith("linux") or device != "cpu" or wanted < HUGE_PAGE:
        return torch.empty(numel, dtype=dtype, device=device)
    spare = HUGE_PAGE // dtype.itemsize
    memory = torch.empty(numel + spare, dtype=dtype)
    first = (-memory.data_ptr() % HUGE_PAGE) // dtype.itemsize
    memory = memory[first : first + numel]
    for part in memory.view(torch.uint8).split(AHEAD):
        start = time.thread_time()
        # either is refused by a kernel that does not know it, which changes nothing else
        advise(part, MADV_HUGEPAGE)
        advise(part, MADV_POPULATE_WRITE)
        if time.thread_time() - start > QUICK * max(1, part.nbytes // HUGE_PAGE):
            break
    return memory


def advise(memory: Tensor, advice: int) -> None:
    start, size = ctypes.c_void_p(memory.data_ptr()), ctypes.c_size_t(memory.nbytes)
    ctypes.CDLL(None).madvise(start, size, advice)
