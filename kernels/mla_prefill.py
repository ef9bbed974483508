"""Attention of many queries: scores of one tile of keys at a time, online softmax, sums out."""

from typing import NamedTuple

import torch
import triton
import triton.language as tl
from torch import Tensor

from kernels.operands import FLOATS, check_operands, check_shapes, on_amd, refuse, tile_width

LOG2_E = 1.4426950408889634
LN_2 = tl.constexpr(0.6931471805599453)


@triton.jit
def load_rows(ptr, row, stride, inside, channel, SIZE: tl.constexpr, EDGE: tl.constexpr):
    """`[row, channel]`, zeros outside; what is whole loads without a mask."""
    at = ptr + (row.to(tl.int64) * stride)[:, None] + channel[None, :]
    if EDGE:
        return tl.load(at, mask=inside[:, None] & (channel < SIZE)[None, :], other=0.0)
    if channel.shape[0] > SIZE:
        return tl.load(at, mask=(channel < SIZE)[None, :], other=0.0)
    return tl.load(at)


@triton.jit
def add_tile(mixed, top, total, scores, v, DOT: tl.constexpr):
    """One step of the online softmax: scores in base two, and the values that they weigh."""
    highest = tl.maximum(top, tl.max(scores, axis=1))
    # a row that has seen no key yet stays at weight zero
    base = tl.where(highest == float("-inf"), 0.0, highest)
    keep, weight = tl.exp2(top - base), tl.exp2(scores - base[:, None])
    total = keep * total + tl.sum(weight, axis=1)
    mixed = tl.dot(weight.to(DOT), v.to(DOT), acc=keep[:, None] * mixed, input_precision="ieee")
    return mixed, highest, total


@triton.jit
def close_softmax(mixed, top, total):
    """The mix and its log-sum-exp; zero and minus infinity where there was no key."""
    seen = total != 0.0
    total = tl.where(seen, total, 1.0)
    return mixed / total[:, None], tl.where(seen, (top + tl.log2(total)) * LN_2, float("-inf"))


@triton.jit
def attend_kernel(
    q_ptr,
    k_ptr,
    v_ptr,
    real_ptr,
    last_ptr,
    solid_ptr,
    read_ptr,
    lse_ptr,
    q_batch,
    q_head,
    q_pos,
    k_batch,
    k_head,
    k_src,
    v_batch,
    v_head,
    v_src,
    H,
    T,
    P,
    scale_log2,
    X: tl.constexpr,
    V: tl.constexpr,
    PADDED: tl.constexpr,
    DOT: tl.constexpr,
    BLOCK_T: tl.constexpr,
    BLOCK_P: tl.constexpr,
    BLOCK_X: tl.constexpr,
    BLOCK_REST: tl.constexpr,
    BLOCK_V: tl.constexpr,
):
    # neighbouring programs share a head's keys; the longest rows start first
    tiles = tl.cdiv(T, BLOCK_T)
    start = (tiles - 1 - tl.program_id(0) % tiles) * BLOCK_T
    pair = (tl.program_id(0) // tiles).to(tl.int64)
    b, h = pair // H, pair % H
    query = start + tl.arange(0, BLOCK_T)
    inside = query < T
    x, rest, value = tl.arange(0, BLOCK_X), tl.arange(0, BLOCK_REST), tl.arange(0, BLOCK_V)
    q_ptr += b * q_batch + h * q_head
    k_ptr += b * k_batch + h * k_head
    v_ptr += b * v_batch + h * v_head
    q = load_rows(q_ptr, query, q_pos, inside, x, X, True).to(DOT)  # [BLOCK_T, BLOCK_X]
    # a width between two powers of two is read as two parts
    q_rest = load_rows(q_ptr + BLOCK_X, query, q_pos, inside, rest, X - BLOCK_X, True).to(DOT)

    mixed = tl.zeros((BLOCK_T, BLOCK_V), tl.float32)
    top = tl.full((BLOCK_T,), float("-inf"), tl.float32)
    total = tl.zeros((BLOCK_T,), tl.float32)
    past = P - T
    stop = tl.minimum(past + start + BLOCK_T, P)
    whole = (past + start + 1) // BLOCK_P * BLOCK_P
    if PADDED:
        stop = tl.minimum(stop, tl.load(last_ptr + b))
        whole = tl.minimum(whole, tl.load(solid_ptr + b) // BLOCK_P * BLOCK_P)
    for first in range(0, whole, BLOCK_P):
        key = first + tl.arange(0, BLOCK_P)
        k = load_rows(k_ptr, key, k_src, key < P, x, X, False).to(DOT)  # [BLOCK_P, BLOCK_X]
        scores = tl.dot(q, tl.trans(k), input_precision="ieee")  # [BLOCK_T, BLOCK_P]
        if X > BLOCK_X:
            k = load_rows(k_ptr + BLOCK_X, key, k_src, key < P, rest, X - BLOCK_X, False)
            scores = tl.dot(q_rest, tl.trans(k.to(DOT)), acc=scores, input_precision="ieee")
        v = load_rows(v_ptr, key, v_src, key < P, value, V, False)  # [BLOCK_P, BLOCK_V]
        mixed, top, total = add_tile(mixed, top, total, scores * scale_log2, v, DOT)
    for first in range(whole, stop, BLOCK_P):
        key = first + tl.arange(0, BLOCK_P)
        seen = key < stop
        if PADDED:
            seen = tl.load(real_ptr + b * P + key, mask=seen, other=0) != 0
        k = load_rows(k_ptr, key, k_src, seen, x, X, True).to(DOT)  # [BLOCK_P, BLOCK_X]
        scores = tl.dot(q, tl.trans(k), input_precision="ieee")  # [BLOCK_T, BLOCK_P]
        if X > BLOCK_X:
            k = load_rows(k_ptr + BLOCK_X, key, k_src, seen, rest, X - BLOCK_X, True)
            scores = tl.dot(q_rest, tl.trans(k.to(DOT)), acc=scores, input_precision="ieee")
        causal = seen[None, :] & (key[None, :] <= past + query[:, None])
        scores = tl.where(causal, scores * scale_log2, float("-inf"))
        v = load_rows(v_ptr, key, v_src, seen, value, V, True)  # [BLOCK_P, BLOCK_V]
        mixed, top, total = add_tile(mixed, top, total, scores, v, DOT)

    mixed, lse = close_softmax(mixed, top, total)
    to_read = ((b * T + query) * H + h)[:, None] * V + value[None, :]
    mixed = mixed.to(read_ptr.dtype.element_ty)
    tl.store(read_ptr + to_read, mixed, mask=inside[:, None] & (value < V)[None, :])
    tl.store(lse_ptr + pair * T + query, lse, mask=inside)


class Tiles(NamedTuple):
    """How the work of one launch is cut."""

    queries: int
    keys: int
    warps: int
    stages: int


class Read(NamedTuple):
    read: Tensor
    """`[batch, head, pos, d_value]`; zero for a query that sees no key."""
    lse: Tensor
    """Log-sum-exp of the scores, float32 `[batch, head, pos]`; minus infinity without a key."""


def attend(q: Tensor, k: Tensor, v: Tensor, scale: float, real: Tensor | None = None) -> Tensor:
    """`softmax(q kᵀ · scale, over the keys a query may see) v`, all `[batch, head, …]`.

    Keys end where the queries end, so those before the first query are the past. `real`, bool
    `[batch, src]`, tells keys from padding. One head of keys and values may serve all queries.
    """
    return attend_with_lse(q, k, v, scale, real).read


def attend_with_lse(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    scale: float,
    real: Tensor | None = None,
    tiles: Tiles | None = None,
) -> Read:
    """As `attend`, with the log-sum-exp that turns a score into its weight, and joins two reads."""
    B, H, T, X = q.shape
    P, V = k.shape[2], v.shape[3]
    check(q, k, v, real)
    read = torch.empty(B, T, H, V, dtype=q.dtype, device=q.device)
    lse = torch.empty(B, H, T, dtype=torch.float32, device=q.device)
    if not read.numel():
        return Read(read.transpose(1, 2), lse)
    k, v = k.expand(B, H, P, X), v.expand(B, H, P, V)
    tiles = tiles or tiles_for(q.dtype, T)
    block, rest = two_parts(X)
    attend_kernel[(B * H * triton.cdiv(T, tiles.queries),)](
        q,
        k,
        v,
        *as_columns(real),
        read,
        lse,
        *q.stride()[:3],
        *k.stride()[:3],
        *v.stride()[:3],
        H,
        T,
        P,
        scale * LOG2_E,
        X=X,
        V=V,
        PADDED=real is not None,
        DOT=FLOATS[q.dtype],
        BLOCK_T=tiles.queries,
        BLOCK_P=tiles.keys,
        BLOCK_X=block,
        BLOCK_REST=rest,
        BLOCK_V=tile_width(V),
        num_warps=tiles.warps,
        num_stages=tiles.stages,
    )
    return Read(read.transpose(1, 2), lse)


def check(q: Tensor, k: Tensor, v: Tensor, real: Tensor | None) -> None:
    B, H, T, X = q.shape
    heads, P, V = k.shape[1], k.shape[2], v.shape[3]
    faults = []
    if heads not in (1, H):
        faults.append(f"k has {heads!r} heads, q has {H!r}")
    if P < T:
        faults.append(f"{T!r} queries end at the last of only {P!r} keys")
    refuse("attend", faults)
    check_shapes("attend", k=(k, (B, heads, P, X)), v=(v, (B, heads, P, V)))
    check_operands("attend", q=q, k=k, v=v)
    check_real("attend", real, B, P)


def check_real(launcher: str, real: Tensor | None, B: int, P: int) -> None:
    if real is None:
        return
    check_shapes(launcher, real=(real, (B, P)))
    if real.dtype != torch.bool:
        raise ValueError(f"{launcher}: real must be bool, not {real.dtype}.")


class Columns(NamedTuple):
    """Which keys of each sequence are real."""

    real: Tensor | None
    """`[batch, src]`, in bytes; `None` where all are."""
    last: Tensor | None
    """How many there are up to the last real one, int32 `[batch]`."""
    solid: Tensor | None
    """How many there are before the first that is not, int32 `[batch]`."""


def as_columns(real: Tensor | None) -> Columns:
    if real is None:
        return Columns(None, None, None)
    column = torch.arange(1, real.shape[1] + 1, device=real.device)
    last, solid = (real * column).amax(1), real.cumprod(1).sum(1)
    return Columns(real.contiguous().view(torch.uint8), last.int(), solid.int())


def two_parts(width: int) -> tuple[int, int]:
    """Powers of two that hold `width`: its largest, and one for the rest; both at least 16."""
    first = max(1 << width.bit_length() - 1, 16)
    return first, tile_width(max(width - first, 0))


def tiles_for(dtype: torch.dtype, T: int) -> Tiles:
    """Tiles that fit the registers and the shared memory of the device at 192 and 128 channels."""
    queries = tile_width(T)
    if dtype == torch.float32:
        return Tiles(16, 32, warps=8, stages=1)
    if on_amd():
        return Tiles(min(queries, 64), 32, warps=4, stages=1)
    if queries <= 64:
        return Tiles(queries, 32, warps=4, stages=2)
    return Tiles(128, 64, warps=8, stages=2)
