"""A kernel at the sizes of a released model: what is compiled without a GPU, and timed on one."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from kernels.work import Work


@dataclass(frozen=True)
class Draw:
    """Makes tensors: values on a device, or only shapes on the meta device."""

    device: torch.device
    dtype: torch.dtype
    """Of activations and weights."""

    @property
    def item(self) -> int:
        return self.dtype.itemsize

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

    @property
    def name(self) -> str:
        return f"{self.kernel}, {self.sizes}"

    def call(self, draw: Draw) -> object:
        return self.launcher(**self.arguments(draw))
