"""What every launcher asks of its tensors before it starts a kernel."""

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor
from triton import knobs
from triton.runtime.driver import driver

FLOATS = {torch.float32: tl.float32, torch.bfloat16: tl.bfloat16, torch.float16: tl.float16}
"""Dtypes that the kernels read and write; all of them sum in float32."""


def check_operands(launcher: str, **tensors: Tensor) -> None:
    """Raises one ValueError that lists every tensor the kernels cannot read, and why.

    Rows may lie anywhere; the values of a row must lie side by side.
    """
    faults = []
    device = next(iter(tensors.values())).device
    for name, x in tensors.items():
        if x.dtype not in FLOATS:
            faults.append(f"{name} is {x.dtype}, not float32, bfloat16 or float16")
        if x.device != device:
            faults.append(f"{name} is on {x.device}, others on {device}")
        if x.requires_grad and torch.is_grad_enabled():
            faults.append(f"{name} needs a gradient, which kernels do not give")
        if x.ndim and x.shape[-1] > 1 and x.stride(-1) != 1:
            faults.append(f"the last axis of {name} is not contiguous: strides {x.stride()}")
    if device.type == "cpu" and not knobs.runtime.interpret:
        faults.append("a CPU runs Triton only with TRITON_INTERPRET=1, set before its import")
    refuse(launcher, faults)


def check_shapes(launcher: str, **shapes: tuple[Tensor, tuple[int, ...]]) -> None:
    """Raises one ValueError that lists every tensor of another shape than the one given with it."""
    faults = [
        f"{name} is {tuple(x.shape)}, not {wanted}"
        for name, (x, wanted) in shapes.items()
        if tuple(x.shape) != wanted
    ]
    refuse(launcher, faults)


def refuse(launcher: str, faults: list[str]) -> None:
    if faults:
        raise ValueError(f"{launcher}: {'; '.join(faults)}.")


def tile_width(size: int, least: int = 16) -> int:
    """The power of two that holds `size`; `tl.dot` takes none below 16."""
    return max(int(triton.next_power_of_2(size)), least)


def on_amd() -> bool:
    """Whether kernels go to a GPU of AMD, where a program has less shared memory."""
    if knobs.runtime.interpret:
        return False
    target: Any = driver.active.get_current_target()
    return target.backend == "hip"
