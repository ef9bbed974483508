"""What chunks of the delta rule need before memories pass through them: all chunks at once.

A chunk's rows meet in `A_ij = β_i Σ k_i k_j e^{G_i − G_j}` and `P_ij = Σ q_i k_j e^{G_i − G_j}`,
where G is the log-decay summed up to a row. Neither can be a product of a factor of row i and one
of row j, since `e^{−G_j}` overflows; nor is one row r a safe place to split every exponent at. So
the pairs are split by halves, as in `model/kda_chunk.py`: late and early halves of the chunk, then
of each half, down to single rows. Of each pair, `e^{G_i − G_r}` and `e^{G_r − G_j}`, with r the
late half's first row, are at most one. Row by row these exponents are sums of log-decays over the
rows between, taken as one matrix product with zeros and ones: sums of one sign cancel nothing.

Within a block of R rows that takes four levels, all blocks at once; between blocks, r is the first
row of the later one. `I + A` is then inverted, so that no memory has to wait for it.
"""

from typing import NamedTuple

import torch
import triton
import triton.language as tl
from torch import Tensor

from kernels.kda_gate import L2_EPS, log_decay
from kernels.kda_inverse import R, along_diagonal, inverse, inverse_own
from kernels.kda_operands import precision_of_float32
from kernels.operands import FLOATS, tile_width
from kernels.sigmoid import sigmoid

CHUNK = 32
KEYS = 32
"""Key channels that one program works on at a time; half of them where they are float32.

A product of float32 is several, whose parts want registers of their own.
"""
LOG2_E = tl.constexpr(1.4426950408889634)
STEEPEST = tl.constexpr(-1000.0)
"""No log-decay is taken to be less, so that none is infinite: its exponential is zero anyway."""


@triton.jit
def kda_prepare_kernel(
    q_ptr,
    k_ptr,
    gate_ptr,
    beta_ptr,
    a_ptr,
    bias_ptr,
    lengths_ptr,
    queries_ptr,
    keys_ptr,
    keys_to_end_ptr,
    solve_ptr,
    products_ptr,
    kept_ptr,
    q_batch,
    q_pos,
    q_head,
    k_batch,
    k_pos,
    k_head,
    gate_batch,
    gate_pos,
    gate_head,
    beta_batch,
    beta_pos,
    beta_head,
    T,
    H,
    K,
    scale,
    lower_bound,
    RAW: tl.constexpr,
    BOUNDED: tl.constexpr,
    DOT: tl.constexpr,
    PRECISION: tl.constexpr,
    C: tl.constexpr,
    BLOCK_K: tl.constexpr,
):
    # heads of a chunk first: they lie beside each other
    program = tl.program_id(0).to(tl.int64)
    head = program % H
    chunks = tl.cdiv(T, C)
    chunk, batch = program // H % chunks, program // H // chunks
    slot = (batch * chunks + chunk) * H + head
    length = T
    if lengths_ptr is not None:
        length = tl.minimum(tl.load(lengths_ptr + batch).to(tl.int32), T)

    # rows as blocks of R: [N, R], and with keys [N, R, BLOCK_K]
    N: tl.constexpr = C // R
    n = tl.arange(0, N)[:, None]
    row = n * R + tl.arange(0, R)
    pos = chunk * C + row
    real = (pos < length)[:, :, None]
    q_ptr += batch * q_batch + head * q_head
    k_ptr += batch * k_batch + head * k_head
    gate_ptr += batch * gate_batch + head * gate_head
    q_row, k_row = (pos * q_pos)[:, :, None], (pos * k_pos)[:, :, None]
    gate_row = (pos * gate_pos)[:, :, None]
    # what is written here lies together: 32 bits hold offsets within a chunk
    queries_ptr += slot * C * K
    keys_ptr += slot * C * K
    keys_to_end_ptr += slot * C * K
    tile_row = (row * K)[:, :, None]
    q_scale, k_scale = 1.0, 1.0
    if RAW:
        q_scale = inverse_length(q_ptr + q_row, real, K, N, BLOCK_K) * scale  # [N, R, 1]
        k_scale = inverse_length(k_ptr + k_row, real, K, N, BLOCK_K)  # [N, R, 1]
        rate = tl.exp(tl.load(a_ptr + head).to(tl.float32))

    # within blocks, and between them
    own_A, own_P = tl.zeros((N, R, R), dtype=tl.float32), tl.zeros((N, R, R), dtype=tl.float32)
    far_A, far_P = tl.zeros((C, C), dtype=tl.float32), tl.zeros((C, C), dtype=tl.float32)
    for start in tl.range(0, K, BLOCK_K):
        key = start + tl.arange(0, BLOCK_K)
        has_key = key < K
        inside = real & has_key
        q = tl.load(q_ptr + q_row + key, mask=inside, other=0.0).to(tl.float32) * q_scale
        k = tl.load(k_ptr + k_row + key, mask=inside, other=0.0).to(tl.float32) * k_scale
        g = tl.load(gate_ptr + gate_row + key, mask=inside, other=0.0).to(tl.float32)
        if RAW:
            bias = tl.load(bias_ptr + head * K + key, mask=has_key, other=0.0).to(tl.float32)
            # padding does not forget
            g = tl.where(inside, log_decay(g + bias, rate, lower_bound, BOUNDED), 0.0)
        g = tl.maximum(g, STEEPEST, propagate_nan=tl.PropagateNan.ALL) * LOG2_E

        own_A, own_P = add_own(q, k, g, own_A, own_P, N, DOT, PRECISION)
        # how much is left since a block's first row, since the chunk's start, until its end
        first = tl.sum(tl.where((row == n * R)[:, :, None], g, 0.0), axis=1)  # [N, BLOCK_K]
        whole = tl.sum(g, axis=1)  # [N, BLOCK_K]
        i, j = tl.arange(0, R)[None, :, None], tl.arange(0, R)[None, None, :]
        since_first = sums((j <= i) & (j > 0), g, N)
        to_end = sums(j > i, g, N)
        others = tl.arange(0, N)[None, :, None]
        before = tl.sum(tl.where(others < n[:, :, None], whole[None], 0.0), axis=1)  # [N, BLOCK_K]
        after = tl.sum(tl.where(others > n[:, :, None], whole[None], 0.0), axis=1)  # [N, BLOCK_K]
        since_start = tl.exp2(since_first + (first + before)[:, None, :])
        tile = tile_row + key
        tl.store(queries_ptr + tile, (q * since_start).to(DOT), mask=has_key)
        tl.store(keys_ptr + tile, (k * since_start).to(DOT), mask=has_key)
        kept = (k * tl.exp2(to_end + after[:, None, :])).to(DOT)
        tl.store(keys_to_end_ptr + tile, kept, mask=has_key)
        tl.store(kept_ptr + slot * K + key, tl.exp2(tl.sum(whole, axis=0)), mask=has_key)

        for late in tl.static_range(1, N):
            far_A, far_P = add_far(
                q, k, since_first, to_end, first, whole, far_A, far_P, late, N, C, DOT, PRECISION
            )

    at = batch * beta_batch + pos * beta_pos + head * beta_head
    beta = tl.load(beta_ptr + at, mask=pos < length, other=0.0).to(tl.float32)  # [N, R]
    if RAW:
        # padding has no keys to write at, whatever its beta
        beta = sigmoid(beta)
    T_own = inverse_own(beta[:, :, None] * own_A, N)
    flat = tl.reshape(beta, (C,))
    solve = inverse(T_own, flat[:, None] * far_A, N, C, PRECISION) * flat
    i, j = tl.arange(0, C)[:, None], tl.arange(0, C)[None, :]
    square = slot * C * C + i * C + j
    tl.store(solve_ptr + square, solve)
    tl.store(products_ptr + square, (far_P + along_diagonal(own_P, N, C)).to(DOT))


@triton.jit
def inverse_length(x_ptr, real, K, N: tl.constexpr, BLOCK_K: tl.constexpr):
    """Of each row, what scales it to unit length: `[N, R, 1]`."""
    total = tl.zeros((N, R, 1), dtype=tl.float32)
    for start in tl.range(0, K, BLOCK_K):
        key = start + tl.arange(0, BLOCK_K)
        x = tl.load(x_ptr + key, mask=real & (key < K), other=0.0).to(tl.float32)
        total += tl.sum(x * x, axis=2, keep_dims=True)
    return tl.rsqrt(total + L2_EPS)


@triton.jit
def sums(between, g, N: tl.constexpr):
    """Of each row i of each block, `g` summed over the rows j `between`: `[N, R, BLOCK_K]`.

    Products with zeros and ones; two halves in float16 are 22 bits of a log-decay, and all of one
    sign, so that nothing cancels.
    """
    chosen = tl.broadcast_to(between.to(tl.float16), (N, R, R))
    high = g.to(tl.float16)
    total = tl.dot(chosen, high)
    return tl.dot(chosen, (g - high.to(tl.float32)).to(tl.float16), acc=total)


@triton.jit
def add_own(q, k, g, A, P, N: tl.constexpr, DOT: tl.constexpr, PRECISION: tl.constexpr):
    """Products of rows of the same block, the later half with the earlier down to single rows."""
    i, j = tl.arange(0, R)[None, :, None], tl.arange(0, R)[None, None, :]
    # a row meets itself without any decay
    P += tl.where(i == j, tl.sum(q * k, axis=2)[:, :, None], 0.0)
    for level in tl.range(4):
        # from the later half's first row to a row of it, or from a row of the earlier half to it
        half = 1 << level
        first = (i | half) & ~(half - 1)
        fade = tl.exp2(sums((j > tl.minimum(i, first)) & (j <= tl.maximum(i, first)), g, N))
        met = (((i ^ j) >> level) == 1) & (i > j)
        faded = (k * fade).to(DOT)
        turned = tl.permute(faded, (0, 2, 1))
        A += tl.where(met, tl.dot(faded, turned, input_precision=PRECISION), 0.0)
        P += tl.where(met, tl.dot((q * fade).to(DOT), turned, input_precision=PRECISION), 0.0)
    return A, P


@triton.jit
def add_far(
    q,
    k,
    since_first,
    to_end,
    first,
    whole,
    A,
    P,
    late: tl.constexpr,
    N: tl.constexpr,
    C: tl.constexpr,
    DOT: tl.constexpr,
    PRECISION: tl.constexpr,
):
    """Products of the rows of block `late` with all rows of the blocks before it."""
    BLOCK_K: tl.constexpr = q.shape[2]
    n = tl.arange(0, N)[:, None]
    # from a block's end to the first row of the late one
    others = tl.arange(0, N)[None, :, None]
    passed = (others > n[:, :, None]) & (others < late)
    way = tl.sum(tl.where(passed, whole[None], 0.0), axis=1)  # [N, BLOCK_K]
    way += tl.sum(tl.where(n == late, first, 0.0), axis=0)
    early = tl.where((n < late)[:, :, None], k * tl.exp2(to_end + way[:, None, :]), 0.0)
    fade = tl.exp2(since_first)
    turned = tl.trans(tl.reshape(early.to(DOT), (C, BLOCK_K)))
    mine = tl.arange(0, C)[:, None] // R == late
    keys = tl.reshape((k * fade).to(DOT), (C, BLOCK_K))
    A += tl.where(mine, tl.dot(keys, turned, input_precision=PRECISION), 0.0)
    queries = tl.reshape((q * fade).to(DOT), (C, BLOCK_K))
    P += tl.where(mine, tl.dot(queries, turned, input_precision=PRECISION), 0.0)
    return A, P


class Prepared(NamedTuple):
    """Of each chunk and head, in the order in which memories pass: `[B, chunk, H, …]`."""

    queries: Tensor
    """`[…, C, K]`: scaled, and faded since the chunk's start."""
    keys: Tensor
    """`[…, C, K]`: faded since the chunk's start."""
    keys_to_end: Tensor
    """`[…, C, K]`: faded until the chunk's end."""
    solve: Tensor
    """`[…, C, C]`: `(I + A)⁻¹ diag(β)`, which makes written values of errors; float32."""
    products: Tensor
    """`[…, C, C]`: P."""
    kept: Tensor
    """`[…, K]`: what a whole chunk keeps of the memory; float32."""


def prepare_chunks(
    q: Tensor,
    k: Tensor,
    gate: Tensor,
    beta: Tensor,
    *,
    A_log: Tensor | None = None,
    dt_bias: Tensor | None = None,
    lower_bound: float | None = None,
    lengths: Tensor | None = None,
    chunk: int = CHUNK,
) -> Prepared:
    """Of `q`, `k` and `gate`, `[B, T, H, K]`, and `beta`, `[B, T, H]`, cut into chunks of rows.

    With `A_log` and `dt_bias` these are raw: q and k are brought to unit length here, q is scaled,
    and gate and beta are logits. Without, they are the terms of `delta_rule` themselves.
    """
    B, T, H, K = q.shape
    chunks = triton.cdiv(T, chunk)
    slots = (B, chunks, H)
    dtype, device = q.dtype, q.device
    prepared = Prepared(
        *(torch.empty((*slots, chunk, K), dtype=dtype, device=device) for _ in range(3)),
        torch.empty((*slots, chunk, chunk), dtype=torch.float32, device=device),
        torch.empty((*slots, chunk, chunk), dtype=dtype, device=device),
        torch.empty((*slots, K), dtype=torch.float32, device=device),
    )
    kda_prepare_kernel[(B * chunks * H,)](
        q,
        k,
        gate,
        beta,
        A_log,
        dt_bias,
        lengths,
        *prepared,
        *q.stride()[:3],
        *k.stride()[:3],
        *gate.stride()[:3],
        *beta.stride(),
        T,
        H,
        K,
        K**-0.5,
        lower_bound or 0.0,
        RAW=A_log is not None,
        BOUNDED=lower_bound is not None,
        DOT=FLOATS[dtype],
        PRECISION=precision_of_float32(dtype),
        C=chunk,
        BLOCK_K=min(tile_width(K), KEYS // 2 if dtype == torch.float32 else KEYS),
        # a warp to each block of rows
        num_warps=chunk // R.value,
        num_stages=1,
    )
    return prepared
