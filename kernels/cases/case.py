"""A kernel at the sizes of a released model: what is compiled without a GPU, and timed on one."""

import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from kernels.targets import TARGETS
from kernels.work import Work

EVERY_TARGET = (
    *itertools.product(TARGETS, ["bfloat16"]),
    ("sm_90", "float32"),
    ("sm_100", "float32"),
)
"""Released models compute in bfloat16."""


@dataclass(frozen=True)
class Draw:
    """Makes tensors: values on a device, or only shapes on the meta device."""

    device: torch.device
    dtype: torch.dtype
    """Of activations and weights."""

    @property
    def item(self) -> int:
        return self.dtype.itemsize

    @property
    def wide(self) -> torch.dtype:
        """Of what stays in float32 whatever the activations are."""
        return torch.float32

    def normal(self, *shape: int, scale: float = 1.0, dtype: torch.dtype | None = None) -> Tensor:
        x = torch.randn(shape, device=self.device, dtype=torch.float32) * scale
        return x.to(dtype or self.dtype)

    def integers(self, end: int, *shape: int, dtype: torch.dtype = torch.int64) -> Tensor:
        return torch.randint(end, shape, device=self.device, dtype=dtype)


@dataclass(frozen=True, kw_only=True)
class Case:
    kernel: str
    """The kernel's file, without `.py`."""
    sizes: str
    """The sizes in words, as in `8192 tokens of 7168`."""
    launcher: Callable[..., object]
    arguments: Callable[[Draw], Mapping[str, object]]
    work: Callable[[int], Work]
    """Of the bytes of an activation."""
    compiled_for: Sequence[tuple[str, str]] = EVERY_TARGET
    """Targets and dtypes; fewer where another case compiles the same code for the rest."""

    @property
    def name(self) -> str:
        return f"{self.kernel}, {self.sizes}"

    @property
    def dtypes(self) -> list[torch.dtype]:
        """Those it is compiled for, or both where it is compiled for nothing."""
        names = {dtype for _, dtype in self.compiled_for or EVERY_TARGET}
        return [getattr(torch, name) for name in sorted(names)]

    def call(self, draw: Draw) -> object:
        return self.launcher(**self.arguments(draw))
