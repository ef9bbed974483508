"""Matrices that read the same input lie side by side in memory, so that one product serves all."""

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from model.memory import block

ALIGNED = 64
"""Values after which the next parameter may begin: a whole number of cache lines."""


class Packed:
    """Some matrices `[out, in]`, which stay parameters of their owners under their own names.

    They are multiplied one by one where they do not lie in one storage, as in a model that was
    moved to another dtype, and where each of them needs a gradient. Fused optimizers must not step
    on them: they take memory for dense, and these have gaps (`model/training/weights_in_row.py`).
    """

    def __init__(self, *places: tuple[nn.Module, str], stacked: bool = False) -> None:
        self.places = [(owner._parameters, name) for owner, name in places]
        self.stacked = stacked
        """Whether each parameter is `[expert, out, in]`."""
        self.whole: Tensor | None = None
        """`[sum of out, in]`, column after column in memory, as each matrix alone is."""
        self.widths: list[int] = []
        self.offsets: list[int] = []

    def __call__(self, x: Tensor) -> tuple[Tensor, ...]:
        """`x Wᵀ` of each matrix; at a single position in one product."""
        if x.shape[1] > 1:
            return tuple(F.linear(x, matrix) for matrix in self.matrices())
        return self.through(lambda matrix: F.linear(x, matrix))

    def through(self, product: Callable[[Tensor], Tensor]) -> tuple[Tensor, ...]:
        """`product`, whose last axis is `out`, of each matrix: by one call where that will do."""
        if (whole := self.as_one()) is None:
            return tuple(product(matrix) for matrix in self.matrices())
        return torch.split_with_sizes(product(whole), self.widths, dim=-1)

    def as_one(self) -> Tensor | None:
        if self.whole is None:
            return None
        start = self.whole.data_ptr()
        for matrix, offset in zip(self.matrices(), self.offsets, strict=True):
            if matrix.data_ptr() != start + offset or matrix.requires_grad:
                return None
        return self.whole

    def matrices(self) -> list[Tensor]:
        return [parameters[name] for parameters, name in self.places]  # pyright: ignore[reportReturnType]

    def lie_in(self, memory: Tensor) -> None:
        """Move to `memory`, without the values."""
        matrices = self.matrices()
        if len(matrices) == 1:
            parts = [memory.as_strided(matrices[0].shape, matrices[0].stride())]
        else:
            stack = matrices[0].shape[: int(self.stacked)]
            self.widths = [matrix.shape[len(stack)] for matrix in matrices]
            self.offsets = [memory.itemsize * sum(self.widths[:i]) for i in range(len(matrices))]
            side_by_side = memory.view(*stack, -1, sum(self.widths))
            self.whole = side_by_side.mT
            parts = [part.mT for part in side_by_side.split(self.widths, dim=-1)]
        for (parameters, name), old, part in zip(self.places, matrices, parts, strict=True):
            parameters[name] = nn.Parameter(part.view(old.shape), requires_grad=False)


def lay_out(model: nn.Module, device: str) -> None:
    """Give the parameters of a model memory on `device`, one block of it for each dtype."""
    modules = list(model.modules())
    packs = [x for module in modules for x in vars(module).values() if isinstance(x, Packed)]
    packed = {id(matrix) for pack in packs for matrix in pack.matrices()}
    for module in modules:
        alone = [name for name, p in module._parameters.items() if p is not None]
        packs += [Packed((module, n)) for n in alone if id(module._parameters[n]) not in packed]
    for dtype in {pack.matrices()[0].dtype for pack in packs}:
        group = [pack for pack in packs if pack.matrices()[0].dtype == dtype]
        sizes = [sum(matrix.numel() for matrix in pack.matrices()) for pack in group]
        room = [-(-size // ALIGNED) * ALIGNED for size in sizes]
        pieces = block(sum(room), dtype, device).split(room)
        for pack, size, piece in zip(group, sizes, pieces, strict=True):
            pack.lie_in(piece[:size])
