"""Makes torch code that asks for float32 compute in float64, so that both sides can be exact.

For processes that run somebody else's model; loaded by path, as they find nothing of ours by name.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from types import ModuleType
from typing import Any

import torch


class WideTorch:
    """`torch`, but for what its names for float32 mean."""

    float = float32 = torch.float64

    def __getattr__(self, name: str) -> Any:
        return getattr(torch, name)


@contextmanager
def widened(*modules: ModuleType) -> Iterator[None]:
    """Within, `torch.float32` in these modules is float64, and so is what `Tensor.float` gives."""
    narrow = torch.Tensor.float
    torch.Tensor.float = torch.Tensor.double
    for module in modules:
        vars(module)["torch"] = WideTorch()
    try:
        yield
    finally:
        torch.Tensor.float = narrow
        for module in modules:
            vars(module)["torch"] = torch
