"""SiTU of K3 and SwiGLU of K2 and Kimi-Linear: gate and up in, their product out, in one pass."""

import torch
import triton
import triton.language as tl
from torch import Tensor

from kernels.operands import check_operands, check_shapes
from kernels.sigmoid import sigmoid_fraction, tanh_fraction

BLOCK = 2048


@triton.jit
def gated(g, u, beta, linear_beta, SITU: tl.constexpr, CAPS_UP: tl.constexpr):
    """The activation on float32 tiles; `experts.py` calls it on its accumulators."""
    # the sigmoid reads the gate before the cap
    y, below = sigmoid_fraction(g)
    caps = 1.0
    if SITU:
        capped, denominator = tanh_fraction(g * (1.0 / beta))
        y, below, caps = y * capped, below * denominator, beta
    else:
        y = y * g
    if CAPS_UP:
        capped, denominator = tanh_fraction(u * (1.0 / linear_beta))
        y, below, caps = y * capped, below * denominator, caps * linear_beta
    else:
        y = y * u
    return y * (caps / below)


@triton.jit
def gated_kernel(
    gate_ptr,
    up_ptr,
    y_ptr,
    gate_row,
    up_row,
    F,
    beta,
    linear_beta,
    SITU: tl.constexpr,
    CAPS_UP: tl.constexpr,
    BLOCK: tl.constexpr,
):
    blocks = tl.cdiv(F, BLOCK)
    row = (tl.program_id(0) // blocks).to(tl.int64)
    start = (tl.program_id(0) % blocks).to(tl.int64) * BLOCK
    feature = tl.arange(0, BLOCK)
    inside = feature < F - start
    g = tl.load(gate_ptr + row * gate_row + start + feature, mask=inside, other=0.0)  # [BLOCK]
    u = tl.load(up_ptr + row * up_row + start + feature, mask=inside, other=0.0)  # [BLOCK]
    y = gated(g.to(tl.float32), u.to(tl.float32), beta, linear_beta, SITU, CAPS_UP)
    tl.store(y_ptr + row * F + start + feature, y.to(y_ptr.dtype.element_ty), mask=inside)


def situ(gate: Tensor, up: Tensor, beta: float, linear_beta: float | None) -> Tensor:
    """`[β₁ tanh(g/β₁) σ(g)] · [β₂ tanh(u/β₂)]`; without `linear_beta` the second factor is `u`."""
    if not beta > 0 or not (linear_beta is None or linear_beta > 0):
        raise ValueError(
            f"situ: beta and linear_beta must be positive, not {beta!r}, {linear_beta!r}."
        )
    return launch("situ", gate, up, beta, linear_beta)


def swiglu(gate: Tensor, up: Tensor) -> Tensor:
    """`g σ(g) · u`."""
    return launch("swiglu", gate, up, None, None)


def launch(
    name: str, gate: Tensor, up: Tensor, beta: float | None, linear_beta: float | None
) -> Tensor:
    check_shapes(name, up=(up, tuple(gate.shape)))
    check_operands(name, gate=gate, up=up)
    y = torch.empty(gate.shape, dtype=gate.dtype, device=gate.device)
    if not y.numel():
        return y
    g, u = as_rows(gate, up)
    rows, F = g.shape
    gated_kernel[(rows * triton.cdiv(F, BLOCK),)](
        g,
        u,
        y,
        g.stride(0),
        u.stride(0),
        F,
        1.0 if beta is None else beta,
        1.0 if linear_beta is None else linear_beta,
        SITU=beta is not None,
        CAPS_UP=linear_beta is not None,
        BLOCK=BLOCK,
    )
    return y


def as_rows(gate: Tensor, up: Tensor) -> tuple[Tensor, Tensor]:
    """Both as `[rows, F]`: one long row where neither has gaps."""
    if gate.is_contiguous() and up.is_contiguous():
        return gate.reshape(1, -1), up.reshape(1, -1)
    F = gate.shape[-1]
    return gate.reshape(-1, F), up.reshape(-1, F)
