"""Root-mean-square norm: each row is scaled to a mean square of one, then channel by channel."""

import torch
import triton
import triton.language as tl
from torch import Tensor

from kernels.operands import check_operands, check_shapes

TILE = 4096
"""Values that one program scales, where rows are shorter than that."""


@triton.jit
def rms_norm_kernel(
    x_ptr, weight_ptr, y_ptr, x_row, rows, D, eps, ROWS: tl.constexpr, BLOCK: tl.constexpr
):
    row = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)
    channel = tl.arange(0, BLOCK)
    inside = (row[:, None] < rows) & (channel < D)
    # other=0 so that the padding adds nothing to the mean
    x = tl.load(x_ptr + row[:, None] * x_row + channel, mask=inside, other=0.0)  # [ROWS, BLOCK]
    wide = x.to(tl.float32)
    scale = tl.rsqrt(tl.sum(wide * wide, axis=1) / D + eps)  # [ROWS]
    # back in the input's dtype before the weight, as upstream rounds
    unit = (wide * scale[:, None]).to(x.dtype).to(tl.float32)
    weight = tl.load(weight_ptr + channel, mask=channel < D, other=0.0).to(tl.float32)  # [BLOCK]
    y = (unit * weight).to(y_ptr.dtype.element_ty)
    tl.store(y_ptr + row[:, None] * D + channel, y, mask=inside)


def rms_norm(x: Tensor, weight: Tensor, eps: float) -> Tensor:
    """`weight` times `x` of `[…, D]` at a mean square of one over the last axis."""
    D = x.shape[-1]
    check_shapes("rms_norm", weight=(weight, (D,)))
    check_operands("rms_norm", x=x, weight=weight)
    y = torch.empty(x.shape, dtype=torch.promote_types(x.dtype, weight.dtype), device=x.device)
    if not y.numel():
        return y
    given = x.reshape(-1, D)
    block = triton.next_power_of_2(D)
    height = min(max(TILE // block, 1), triton.next_power_of_2(len(given)))
    rms_norm_kernel[(triton.cdiv(len(given), height),)](
        given,
        weight,
        y,
        given.stride(0),
        len(given),
        D,
        eps,
        ROWS=height,
        BLOCK=block,
        num_warps=min(max(block // 512, 4), 16),
    )
    return y
