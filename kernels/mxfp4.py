"""MXFP4 as it lies in a checkpoint: two codes a byte, and one power of two a group of columns."""

import triton
import triton.language as tl

GROUP = tl.constexpr(32)
"""Neighbouring columns that share one scale."""


@triton.jit
def number(code):
    """Float32 of a four-bit code: a sign, two bits of exponent, one of mantissa."""
    magnitude = code & 7
    normal = (magnitude << 22) + (126 << 23)
    bits = tl.where(magnitude < 2, magnitude * (126 << 23), normal) | ((code & 8) << 28)
    return bits.to(tl.float32, bitcast=True)


@triton.jit
def power_of_two(scale):
    """Float32 2^(scale − 127), and NaN for 255."""
    bits = tl.where(scale == 0, 1 << 22, scale << 23)
    return tl.where(scale == 255, float("nan"), bits.to(tl.float32, bitcast=True))


@triton.jit
def load_mxfp4(
    codes_ptr,
    scale_ptr,
    row,
    inside,
    start,
    COLUMNS,
    BLOCK_ROWS: tl.constexpr,
    BLOCK_COLUMNS: tl.constexpr,
):
    """Float32 `[row, column]` of a contiguous matrix, from column `start` on; zeros outside."""
    byte = start // 2 + tl.arange(0, BLOCK_COLUMNS // 2)
    group = start // GROUP + tl.arange(0, BLOCK_COLUMNS // GROUP)
    from_codes = row[:, None] * (COLUMNS // 2) + byte[None, :]
    mask = inside[:, None] & (byte < COLUMNS // 2)[None, :]
    codes = tl.load(codes_ptr + from_codes, mask=mask, other=0).to(tl.int32)
    from_scale = row[:, None] * (COLUMNS // GROUP) + group[None, :]
    mask = inside[:, None] & (group < COLUMNS // GROUP)[None, :]
    scale = power_of_two(tl.load(scale_ptr + from_scale, mask=mask, other=127).to(tl.int32))
    # [row, group] becomes [row, byte]
    scale = tl.broadcast_to(scale[:, :, None], (BLOCK_ROWS, BLOCK_COLUMNS // GROUP, GROUP // 2))
    scale = tl.reshape(scale, (BLOCK_ROWS, BLOCK_COLUMNS // 2))
    # the low half of a byte is the even column
    even, odd = number(codes & 15) * scale, number(codes >> 4) * scale
    return tl.interleave(even, odd)
