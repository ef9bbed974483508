"""Short convolution and SiLU: each channel mixed with its own last values, kept between calls."""

import torch
import triton
import triton.language as tl
from torch import Tensor

from kernels.operands import check_operands, check_shapes, refuse
from kernels.sigmoid import sigmoid

TILE = 4096
"""Values that one program convolves."""
LONGEST = 16
"""Positions of such a tile, where there are as many."""


@triton.jit
def short_convolution_kernel(
    x_ptr,
    weight_ptr,
    state_ptr,
    lengths_ptr,
    y_ptr,
    new_ptr,
    x_batch,
    x_pos,
    weight_channel,
    state_batch,
    T,
    D,
    W: tl.constexpr,
    BLOCK_W: tl.constexpr,
    BLOCK_T: tl.constexpr,
    BLOCK_D: tl.constexpr,
):
    # tiles of channels first, so that neighbours read neighbouring memory
    program = tl.program_id(0).to(tl.int64)
    wide, long = tl.cdiv(D, BLOCK_D), tl.cdiv(T, BLOCK_T)
    tile = program // wide % long
    batch = program // wide // long
    channel = program % wide * BLOCK_D + tl.arange(0, BLOCK_D)
    inside = channel < D
    pos = tile * BLOCK_T + tl.arange(0, BLOCK_T)
    x_ptr += batch * x_batch
    state_ptr += batch * state_batch

    total = tl.zeros((BLOCK_T, BLOCK_D), dtype=tl.float32)
    for w in tl.static_range(W):
        at = (pos + (w - W + 1))[:, None]
        x = tl.load(x_ptr + at * x_pos + channel, mask=inside & (at >= 0) & (at < T), other=0.0)
        weight = tl.load(weight_ptr + channel * weight_channel + w, mask=inside, other=0.0)
        total += x.to(tl.float32) * weight.to(tl.float32)  # [BLOCK_T, BLOCK_D]
    if tile == 0:
        # values before the first position are columns of the state, whose last is the newest
        for w in tl.static_range(W - 1):
            early = (pos + (w - W + 1))[:, None]
            column = state_ptr + channel * W + (W + early)
            before = tl.load(column, mask=inside & (early < 0), other=0.0)
            weight = tl.load(weight_ptr + channel * weight_channel + w, mask=inside, other=0.0)
            total += before.to(tl.float32) * weight.to(tl.float32)
    y = (total * sigmoid(total)).to(y_ptr.dtype.element_ty)
    to_y = y_ptr + (batch * T + pos[:, None]) * D + channel
    tl.store(to_y, y, mask=inside & (pos[:, None] < T))

    if tile == 0:
        # the last W columns of state and input together, up to the true length
        length = T
        if lengths_ptr is not None:
            length = tl.load(lengths_ptr + batch).to(tl.int32)
        lag = tl.arange(0, BLOCK_W)[:, None]
        source = (lag + (length - W)).to(tl.int64)
        kept = inside & (lag < W)
        newer = tl.load(x_ptr + source * x_pos + channel, mask=kept & (source >= 0), other=0.0)
        column = state_ptr + channel * W + (W + source)
        older = tl.load(column, mask=kept & (source < 0), other=0.0)
        new = tl.where(source >= 0, newer, older)  # [BLOCK_W, BLOCK_D]
        tl.store(new_ptr + (batch * D + channel) * W + lag, new, mask=kept)


def short_convolution(
    x: Tensor, weight: Tensor, state: Tensor, lengths: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    """The convolved rows of `x`, `[B, T, D]`, and the last `W` raw columns as the state after them.

    `weight` is `[D, W]`, `state` `[B, D, W]`; `lengths`, `[B]`, says where right padding starts.
    """
    B, T, D = x.shape
    W = weight.shape[-1]
    check_shapes("short_convolution", weight=(weight, (D, W)), state=(state, (B, D, W)))
    check_operands("short_convolution", x=x, weight=weight, state=state)
    faults = []
    if state.dtype != x.dtype:
        faults.append(f"state is {state.dtype}, not {x.dtype} as x")
    if D > 1 and state.stride(1) != W:
        faults.append(f"the columns of state are not contiguous: strides {state.stride()}")
    if lengths is not None and (lengths.shape != (B,) or not lengths.is_contiguous()):
        faults.append(f"lengths is {tuple(lengths.shape)}, not a contiguous ({B},)")
    refuse("short_convolution", faults)
    y = torch.empty((B, T, D), dtype=x.dtype, device=x.device)
    new = torch.empty((B, D, W), dtype=x.dtype, device=x.device)
    if not y.numel():
        return y, new.copy_(state)
    long = min(triton.next_power_of_2(T), LONGEST)
    wide = min(triton.next_power_of_2(D), TILE // long // 2 if T > 1 else 512)
    tiles = B * triton.cdiv(T, long) * triton.cdiv(D, wide)
    short_convolution_kernel[(tiles,)](
        x,
        weight,
        state,
        lengths,
        y,
        new,
        *x.stride()[:2],
        weight.stride(0),
        state.stride(0),
        T,
        D,
        W=W,
        BLOCK_W=triton.next_power_of_2(W),
        BLOCK_T=long,
        BLOCK_D=wide,
    )
    return y, new
