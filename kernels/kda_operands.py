"""What the launchers of the delta rule ask of their tensors."""

from typing import Any

import torch
from torch import Tensor
from triton import knobs
from triton.runtime.driver import driver

from kernels.operands import check_operands, check_shapes, on_amd, refuse

WIDEST = 256
"""Key channels that one program can hold."""


def check_kda(
    launcher: str,
    q: Tensor,
    k: Tensor,
    v: Tensor,
    gate_logit: Tensor,
    beta_logit: Tensor,
    A_log: Tensor,
    dt_bias: Tensor,
    state: Tensor,
    lengths: Tensor | None,
) -> tuple[int, int, int, int, int]:
    """Raises one ValueError for what is wrong with raw projections, or returns `B, T, H, K, V`."""
    sizes = check_rows(launcher, q, k, v, gate_logit, beta_logit, state)
    B, _, H, K, _ = sizes
    check_shapes(launcher, A_log=(A_log, (H,)), dt_bias=(dt_bias, (H * K,)))
    check_operands(launcher, A_log=A_log, dt_bias=dt_bias)
    if lengths is not None and (lengths.shape != (B,) or not lengths.is_contiguous()):
        refuse(launcher, [f"lengths is {tuple(lengths.shape)}, not a contiguous ({B},)"])
    return sizes


def check_rows(
    launcher: str, q: Tensor, k: Tensor, v: Tensor, gate: Tensor, beta: Tensor, state: Tensor
) -> tuple[int, int, int, int, int]:
    if q.ndim != 4 or v.ndim != 4:
        shapes = f"{tuple(q.shape)} and {tuple(v.shape)}"
        refuse(launcher, [f"q and v are {shapes}, not [batch, pos, head, channel]"])
    B, T, H, K = q.shape
    V = v.shape[-1]
    check_shapes(
        launcher,
        k=(k, (B, T, H, K)),
        v=(v, (B, T, H, V)),
        gate=(gate, (B, T, H, K)),
        beta=(beta, (B, T, H)),
        state=(state, (B, H, V, K)),
    )
    # a beta of every second column is read where it lies
    check_operands(launcher, q=q, k=k, v=v, gate=gate, state=state, beta=beta[..., None])
    faults = []
    if K > WIDEST:
        faults.append(f"{K!r} key channels, of which a program holds up to {WIDEST}")
    if state.dtype != torch.float32:
        faults.append(f"state is {state.dtype}, not float32")
    if V > 1 and state.stride(2) != K:
        faults.append(f"the rows of state are not contiguous: strides {state.stride()}")
    refuse(launcher, faults)
    return B, T, H, K, V


def precision_of_float32(dtype: torch.dtype) -> str:
    """How products of float32 are taken where the rows are of `dtype`.

    Beside bfloat16 rows, 10 bits of a factor are plenty; beside float32 rows, none may be lost.
    """
    if knobs.runtime.interpret or on_amd():
        return "ieee"
    return "tf32x3" if dtype == torch.float32 else "tf32"


def architecture() -> int | str | None:
    """Of the GPU that kernels go to, as in 90 or "gfx942"; `None` in the interpreter."""
    if knobs.runtime.interpret:
        return None
    target: Any = driver.active.get_current_target()
    return target.arch
