"""Norm of each head's read, times a sigmoid gate: what leaves a KDA mixer."""

import torch
import triton
import triton.language as tl
from torch import Tensor

from kernels.operands import check_operands, check_shapes
from kernels.sigmoid import sigmoid

TILE = 4096
"""Values that one program scales, where heads are narrower than that."""


@triton.jit
def gated_rms_norm_kernel(
    read_ptr,
    gate_ptr,
    weight_ptr,
    y_ptr,
    read_row,
    read_head,
    gate_row,
    gate_head,
    rows,
    H,
    V,
    eps,
    ROWS: tl.constexpr,
    BLOCK: tl.constexpr,
):
    # a row of the tile is one head of one position
    row = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)
    position, head = row // H, row % H
    channel = tl.arange(0, BLOCK)
    inside = (row[:, None] < rows) & (channel < V)
    from_read = (position * read_row + head * read_head)[:, None] + channel
    # other=0 so that the padding adds nothing to the mean
    read = tl.load(read_ptr + from_read, mask=inside, other=0.0).to(tl.float32)  # [ROWS, BLOCK]
    from_gate = (position * gate_row + head * gate_head)[:, None] + channel
    gate = tl.load(gate_ptr + from_gate, mask=inside, other=0.0).to(tl.float32)  # [ROWS, BLOCK]
    weight = tl.load(weight_ptr + channel, mask=channel < V, other=0.0).to(tl.float32)  # [BLOCK]
    scale = tl.rsqrt(tl.sum(read * read, axis=1) / V + eps)  # [ROWS]
    y = weight * (read * scale[:, None]) * sigmoid(gate)
    tl.store(y_ptr + row[:, None] * V + channel, y.to(y_ptr.dtype.element_ty), mask=inside)


def gated_rms_norm(read: Tensor, gate: Tensor, weight: Tensor, eps: float) -> Tensor:
    """`weight` times `read` of `[…, H, V]` at a mean square of one a head, times `σ(gate)`."""
    H, V = read.shape[-2:]
    check_shapes("gated_rms_norm", gate=(gate, tuple(read.shape)), weight=(weight, (V,)))
    check_operands("gated_rms_norm", read=read, gate=gate, weight=weight)
    y = torch.empty(read.shape, dtype=read.dtype, device=read.device)
    if not y.numel():
        return y
    # views wherever positions lie evenly, as in slices of one wide projection
    read, gate = read.reshape(-1, H, V), gate.reshape(-1, H, V)
    rows = len(read) * H
    block = triton.next_power_of_2(V)
    height = min(max(TILE // block, 1), triton.next_power_of_2(rows))
    gated_rms_norm_kernel[(triton.cdiv(rows, height),)](
        read,
        gate,
        weight,
        y,
        *read.stride()[:2],
        *gate.stride()[:2],
        rows,
        H,
        V,
        eps,
        ROWS=height,
        BLOCK=block,
    )
    return y
