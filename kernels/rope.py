"""Rotary positions: pairs of features turn, and leave the pairs for two halves."""

import math

import torch
import triton
import triton.language as tl
from torch import Tensor

from kernels.operands import check_operands, refuse

TILE = 2048
"""Values that one program turns."""


@triton.jit
def rotate_kernel(
    x_ptr,
    cosine_ptr,
    sine_ptr,
    y_ptr,
    x_batch,
    x_pos,
    x_head,
    turn_batch,
    turn_pos,
    turn_head,
    rows,
    T,
    H,
    R,
    BLOCK: tl.constexpr,
    BLOCK_R: tl.constexpr,
):
    # there are fewer rows than 2³¹, but not fewer values
    row = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    b, t, h = row // H // T, row // H % T, row % H
    b, t, h = b.to(tl.int64), t.to(tl.int64), h.to(tl.int64)
    feature = tl.arange(0, BLOCK_R)
    pair = tl.arange(0, BLOCK_R // 2)
    inside = row[:, None] < rows

    from_x = (b * x_batch + t * x_pos + h * x_head)[:, None] + feature
    x = tl.load(x_ptr + from_x, mask=inside & (feature < R), other=0.0)  # [BLOCK, BLOCK_R]
    from_turn = (b * turn_batch + t * turn_pos + h * turn_head)[:, None] + pair
    half = inside & (pair < R // 2)
    cosine = tl.load(cosine_ptr + from_turn, mask=half, other=0.0).to(tl.float32)
    sine = tl.load(sine_ptr + from_turn, mask=half, other=0.0).to(tl.float32)

    even, odd = tl.split(tl.reshape(x.to(tl.float32), (BLOCK, BLOCK_R // 2, 2)))
    first = even * cosine - odd * sine  # [BLOCK, BLOCK_R / 2]
    second = odd * cosine + even * sine
    to_y = row.to(tl.int64)[:, None] * R + pair
    tl.store(y_ptr + to_y, first.to(y_ptr.dtype.element_ty), mask=half)
    tl.store(y_ptr + to_y + R // 2, second.to(y_ptr.dtype.element_ty), mask=half)


def rotate(x: Tensor, cosine: Tensor, sine: Tensor) -> Tensor:
    """`[…, R]`: features 2m and 2m + 1 turn together, and lie at m and m + R/2 afterwards.

    `cosine` and `sine` are those of each pair's angle, `[…, R/2]`, and may be broadcast. The
    result has the wider of the two dtypes.
    """
    R = x.shape[-1]
    faults = []
    if R % 2:
        faults.append(f"x has an odd number of features, {R!r}")
    if not 1 <= x.ndim <= 4:
        faults.append(f"x has {x.ndim!r} axes, not up to four")
    if cosine.shape != sine.shape or cosine.stride() != sine.stride():
        faults.append(f"cosine and sine differ: {tuple(cosine.shape)} and {tuple(sine.shape)}")
    refuse("rotate", faults)
    check_operands("rotate", x=x, cosine=cosine, sine=sine)
    y = torch.empty(x.shape, dtype=torch.promote_types(x.dtype, cosine.dtype), device=x.device)
    if not y.numel():
        return y
    turn = (cosine.expand(*x.shape[:-1], R // 2), sine.expand(*x.shape[:-1], R // 2))
    missing = (None,) * (4 - x.ndim)
    given, cosine, sine = x[missing], turn[0][missing], turn[1][missing]
    rows = math.prod(given.shape[:3])
    width = triton.next_power_of_2(R)
    block = min(max(TILE // width, 1), triton.next_power_of_2(rows))
    rotate_kernel[(triton.cdiv(rows, block),)](
        given,
        cosine,
        sine,
        y,
        *given.stride()[:3],
        *cosine.stride()[:3],
        rows,
        *given.shape[1:3],
        R,
        BLOCK=block,
        BLOCK_R=width,
    )
    return y
