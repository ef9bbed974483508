"""The inverse of `I + A` for a chunk: how its rows' corrections depend on each other, solved once.

Powers of `A` may grow beyond any float where keys repeat, while the inverse never does: blocks of
R rows are solved row by row in float32, and pairs of them joined.
"""

import triton
import triton.language as tl

R = tl.constexpr(16)
"""Rows of a block."""


@triton.jit
def inverse_own(A, N: tl.constexpr):
    """`(I + A)⁻¹` of strictly lower triangular blocks, `[N, R, R]`, by forward substitution."""
    # turned, so that a row's sums stay within a warp: [N, column, row]
    A = tl.permute(A, (0, 2, 1))
    column, row = tl.arange(0, R)[None, :, None], tl.arange(0, R)[None, None, :]
    square = tl.zeros((N, R, R), dtype=tl.float32)
    T = tl.where(column == row, 1.0, square)
    for r in tl.range(R - 1):
        # row r is known, and is taken out of all rows below
        A_r = tl.gather(A, square.to(tl.int32) + r, axis=1)
        T -= tl.sum(tl.where(row == r, T, 0.0), axis=2, keep_dims=True) * A_r
    return tl.permute(T, (0, 2, 1))


@triton.jit
def inverse(T_own, A, N: tl.constexpr, C: tl.constexpr, PRECISION: tl.constexpr):
    """`(I + A)⁻¹` in one piece, from that of its blocks and what `A` holds between them."""
    i, j = tl.arange(0, C)[:, None] // R, tl.arange(0, C)[None, :] // R
    T = along_diagonal(T_own, N, C)
    if N >= 2:
        T = join(T, tl.where((i // 2 == j // 2) & (i > j), A, 0.0), PRECISION)
    if N >= 4:
        T = join(T, tl.where(i // 2 > j // 2, A, 0.0), PRECISION)
    return T


@triton.jit
def join(T, below, PRECISION: tl.constexpr):
    """The inverse of pairs of neighbouring blocks: what lies below meets both of theirs."""
    return T - tl.dot(tl.dot(T, below, input_precision=PRECISION), T, input_precision=PRECISION)


@triton.jit
def along_diagonal(blocks, N: tl.constexpr, C: tl.constexpr):
    """`[N, R, R]` to `[C, C]`, zero beside the blocks."""
    wide = tl.reshape(tl.broadcast_to(blocks[:, :, None, :], (N, R, N, R)), (C, C))
    i, j = tl.arange(0, C)[:, None], tl.arange(0, C)[None, :]
    return tl.where(i // R == j // R, wide, 0.0)
