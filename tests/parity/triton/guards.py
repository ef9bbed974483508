"""Memory with borders: beside a tensor lies NaN, and it is noticed when that is written over."""

import sys
from collections.abc import Callable
from pathlib import Path

import torch
from torch import Tensor

KERNELS = str(Path(__file__).parents[3] / "kernels")
BORDER = 256
"""Values on either side; a power of two, so that a tensor starts where memory is aligned."""
POISON_INT = -(2**30) - 7


class Guards:
    def __init__(self, device: torch.device) -> None:
        self.device = device
        self.kept: list[tuple[Tensor, Tensor]] = []
        """Each guarded buffer, and where in it a kernel may write."""

    def empty(self, *shape: int, dtype: torch.dtype = torch.float32, gap: int = 0) -> Tensor:
        """Poison of this shape; with a `gap`, the last axis ends that many values before the next.

        Writing into the gap counts as damage too.
        """
        *rows, width = shape or (1,)
        count = width + gap
        for size in rows:
            count *= size
        buffer = torch.empty(BORDER + count + BORDER, dtype=dtype, device=self.device)
        buffer.fill_(poison(dtype))
        wide = buffer[BORDER : BORDER + count].view(*rows, width + gap)
        writable = torch.zeros_like(buffer, dtype=torch.bool)
        writable[BORDER : BORDER + count].view(*rows, width + gap)[..., :width] = True
        self.kept.append((buffer, writable))
        return wide[..., :width].view(shape)

    def copy(self, x: Tensor, gap: int = 0) -> Tensor:
        """The values of `x` in guarded memory."""
        y = self.empty(*x.shape, dtype=x.dtype, gap=gap)
        return y.copy_(x)

    def check(self) -> None:
        """Raises where a border or a gap was written over."""
        for buffer, writable in self.kept:
            outside = buffer[~writable]
            if outside.is_floating_point():
                spoilt = ~outside.isnan()
            else:
                spoilt = outside != poison(buffer.dtype)
            count = int(spoilt.sum())
            assert not count, (
                f"{count} values beside a tensor of {writable.sum()} were written over"
            )


def poison(dtype: torch.dtype) -> float | int | bool:
    if dtype.is_floating_point:
        return float("nan")
    if dtype is torch.bool:
        return True
    return POISON_INT if torch.iinfo(dtype).bits >= 32 else torch.iinfo(dtype).max


def poisoned(allocate: Callable[..., Tensor], guards: Guards) -> Callable[..., Tensor]:
    """`allocate` as before, but guarded where a launcher asks for memory on the tests' device."""

    def allocation(*args: object, **options: object) -> Tensor:
        x = allocate(*args, **options)
        asker = sys._getframe(1).f_code.co_filename
        if not asker.startswith(KERNELS) or x.device.type != guards.device.type:
            return x
        if not x.is_contiguous():
            raise AssertionError(f"{asker} asks for memory with strides {x.stride()}.")
        return guards.empty(*x.shape, dtype=x.dtype) if x.numel() else x

    return allocation
