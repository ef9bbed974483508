"""Attention of few queries to many latents: parts of the positions at once, then one merge.

Keys and values of all heads are the latents themselves, so that each is loaded once for a tile of
heads: its whole width, with the shared key beside it, is scored, and the latent alone is mixed.
"""

import torch
import triton
import triton.language as tl
from torch import Tensor

from kernels.mla_prefill import (
    LOG2_E,
    Read,
    Tiles,
    add_tile,
    as_columns,
    check_real,
    close_softmax,
    load_rows,
)
from kernels.operands import FLOATS, check_operands, check_shapes, on_amd, refuse, tile_width

LEAST_KEYS = 256
"""Positions below which a further part costs more than it saves."""
UNKNOWN_PROCESSORS = 8


@triton.jit
def read_part_kernel(
    q_ptr,
    latents_ptr,
    shared_ptr,
    real_ptr,
    last_ptr,
    part_ptr,
    part_lse_ptr,
    q_batch,
    q_head,
    q_pos,
    latents_batch,
    latents_src,
    shared_batch,
    shared_src,
    H,
    T,
    P,
    part_size,
    parts,
    scale_log2,
    C: tl.constexpr,
    R: tl.constexpr,
    PADDED: tl.constexpr,
    DOT: tl.constexpr,
    BLOCK_H: tl.constexpr,
    BLOCK_P: tl.constexpr,
    BLOCK_C: tl.constexpr,
    BLOCK_R: tl.constexpr,
):
    # a row is one head of one query
    rows = H * T
    tiles = tl.cdiv(rows, BLOCK_H)
    part = tl.program_id(0) % parts
    tile = tl.program_id(0) // parts % tiles
    b = (tl.program_id(0) // parts // tiles).to(tl.int64)
    row = tile * BLOCK_H + tl.arange(0, BLOCK_H)
    inside = row < rows
    query, h = row // H, row % H
    c, r = tl.arange(0, BLOCK_C), tl.arange(0, BLOCK_R)
    q_ptr += b * q_batch + (query.to(tl.int64) * q_pos)[:, None]
    q = load_rows(q_ptr, h, q_head, inside, c, C, True).to(DOT)  # [BLOCK_H, BLOCK_C]
    q_shared = load_rows(q_ptr + C, h, q_head, inside, r, R, True).to(DOT)  # [BLOCK_H, BLOCK_R]
    latents_ptr += b * latents_batch
    shared_ptr += b * shared_batch

    mixed = tl.zeros((BLOCK_H, BLOCK_C), tl.float32)
    top = tl.full((BLOCK_H,), float("-inf"), tl.float32)
    total = tl.zeros((BLOCK_H,), tl.float32)
    begin = part * part_size
    stop = tl.minimum(begin + part_size, P)
    if PADDED:
        stop = tl.minimum(stop, tl.load(last_ptr + b))
    for first in range(begin, stop, BLOCK_P):
        key = first + tl.arange(0, BLOCK_P)
        seen = key < stop
        if PADDED:
            seen = tl.load(real_ptr + b * P + key, mask=seen, other=0) != 0
        latent = load_rows(latents_ptr, key, latents_src, seen, c, C, True).to(DOT)
        shared = load_rows(shared_ptr, key, shared_src, seen, r, R, True).to(DOT)
        scores = tl.dot(q, tl.trans(latent), input_precision="ieee")  # [BLOCK_H, BLOCK_P]
        scores = tl.dot(q_shared, tl.trans(shared), acc=scores, input_precision="ieee")
        causal = seen[None, :] & (key[None, :] <= P - T + query[:, None])
        scores = tl.where(causal, scores * scale_log2, float("-inf"))
        mixed, top, total = add_tile(mixed, top, total, scores, latent, DOT)

    mixed, lse = close_softmax(mixed, top, total)
    to_part = (b * rows + row) * parts + part
    tl.store(part_lse_ptr + to_part, lse, mask=inside)
    # an empty part leaves its place as it is, and the merge does not look there
    written = (inside & (lse != float("-inf")))[:, None] & (c < C)[None, :]
    tl.store(part_ptr + to_part[:, None] * C + c[None, :], mixed, mask=written)


@triton.jit
def merge_parts_kernel(
    part_ptr,
    part_lse_ptr,
    read_ptr,
    lse_ptr,
    H,
    T,
    C,
    parts,
    BLOCK_C: tl.constexpr,
    BLOCK_PARTS: tl.constexpr,
):
    row = tl.program_id(0).to(tl.int64)  # (b, query, h)
    part_ptr += row * parts * C
    part_lse_ptr += row * parts
    index = tl.arange(0, BLOCK_PARTS)
    lses = tl.load(part_lse_ptr + index, mask=index < parts, other=float("-inf"))
    top = tl.max(lses, axis=0)
    base = tl.where(top == float("-inf"), 0.0, top)
    total = tl.sum(tl.exp(lses - base), axis=0)
    c = tl.arange(0, BLOCK_C)
    mixed = tl.zeros((BLOCK_C,), tl.float32)
    for part in range(parts):
        lse = tl.load(part_lse_ptr + part)
        if lse != float("-inf"):
            weight = tl.exp(lse - base) / total
            mixed += weight * tl.load(part_ptr + part * C + c, mask=c < C, other=0.0)
    tl.store(read_ptr + row * C + c, mixed.to(read_ptr.dtype.element_ty), mask=c < C)
    seen = total != 0.0
    lse = tl.where(seen, base + tl.log(tl.where(seen, total, 1.0)), float("-inf"))
    b, query, h = row // (H * T), row // H % T, row % H
    tl.store(lse_ptr + (b * H + h) * T + query, lse)


def read_latents(
    q: Tensor, latents: Tensor, shared: Tensor, scale: float, real: Tensor | None = None
) -> Tensor:
    """Each head's mix of the latents, `[batch, head, pos, d_kv_latent]`.

    `q`, `[batch, head, pos, C + R]`, is the query in the latents' space with its shared part
    behind; `latents` are `[batch, src, C]`, `shared` `[batch, src, R]`. Keys end where the queries
    end; `real`, bool `[batch, src]`, tells them from padding.
    """
    return read_latents_with_lse(q, latents, shared, scale, real).read


def read_latents_with_lse(
    q: Tensor,
    latents: Tensor,
    shared: Tensor,
    scale: float,
    real: Tensor | None = None,
    parts: int | None = None,
    tiles: Tiles | None = None,
) -> Read:
    """As `read_latents`, with the log-sum-exp; `parts` is into how many the positions are cut."""
    check(q, latents, shared, real)
    B, H, T, _ = q.shape
    if not q.numel():
        read = torch.empty(B, H, T, latents.shape[2], dtype=q.dtype, device=q.device)
        return Read(read, torch.empty(B, H, T, dtype=torch.float32, device=q.device))
    tiles = tiles or tiles_for(q.dtype, H * T)
    if parts is None:
        programs = B * triton.cdiv(H * T, tiles.queries)
        parts = parts_for(programs, latents.shape[1], q.device)
    read, lse = read_parts(q, latents, shared, scale, real, parts, tiles)
    return merge_parts(read, lse, q.dtype)


def read_parts(
    q: Tensor,
    latents: Tensor,
    shared: Tensor,
    scale: float,
    real: Tensor | None,
    parts: int,
    tiles: Tiles,
) -> tuple[Tensor, Tensor]:
    """Each part's mix and log-sum-exp, float32 `[batch, pos, head, part, …]`.

    The mix of a part that holds no key for a query is not written.
    """
    B, H, T, _ = q.shape
    P, C = latents.shape[1:]
    R = shared.shape[-1]
    read = torch.empty(B, T, H, parts, C, dtype=torch.float32, device=q.device)
    lse = torch.empty(B, T, H, parts, dtype=torch.float32, device=q.device)
    columns = as_columns(real)
    read_part_kernel[(B * triton.cdiv(H * T, tiles.queries) * parts,)](
        q,
        latents,
        shared,
        columns.real,
        columns.last,
        read,
        lse,
        *q.stride()[:3],
        *latents.stride()[:2],
        *shared.stride()[:2],
        H,
        T,
        P,
        triton.cdiv(triton.cdiv(P, parts), tiles.keys) * tiles.keys,
        parts,
        scale * LOG2_E,
        C=C,
        R=R,
        PADDED=real is not None,
        DOT=FLOATS[q.dtype],
        BLOCK_H=tiles.queries,
        BLOCK_P=tiles.keys,
        BLOCK_C=tile_width(C),
        BLOCK_R=tile_width(R),
        num_warps=tiles.warps,
        num_stages=tiles.stages,
    )
    return read, lse


def merge_parts(part: Tensor, part_lse: Tensor, dtype: torch.dtype) -> Read:
    """The parts joined: each weighs as the scores that it saw."""
    B, T, H, parts, C = part.shape
    read = torch.empty(B, T, H, C, dtype=dtype, device=part.device)
    lse = torch.empty(B, H, T, dtype=torch.float32, device=part.device)
    merge_parts_kernel[(B * T * H,)](
        part,
        part_lse,
        read,
        lse,
        H,
        T,
        C,
        parts,
        BLOCK_C=tile_width(C),
        BLOCK_PARTS=triton.next_power_of_2(parts),
    )
    return Read(read.transpose(1, 2), lse)


def check(q: Tensor, latents: Tensor, shared: Tensor, real: Tensor | None) -> None:
    B, H, T, _ = q.shape
    P, C = latents.shape[1:]
    R = shared.shape[-1]
    check_shapes(
        "read_latents",
        q=(q, (B, H, T, C + R)),
        latents=(latents, (B, P, C)),
        shared=(shared, (B, P, R)),
    )
    if P < T:
        refuse("read_latents", [f"{T!r} queries end at the last of only {P!r} keys"])
    check_operands("read_latents", q=q, latents=latents, shared=shared)
    check_real("read_latents", real, B, P)


def parts_for(tiles: int, P: int, device: torch.device) -> int:
    """Into how many parts the positions are cut, so that every processor has work twice."""
    processors = UNKNOWN_PROCESSORS
    if device.type == "cuda":
        processors = torch.cuda.get_device_properties(device).multi_processor_count
    return max(min(2 * processors // tiles, P // LEAST_KEYS), 1)


def tiles_for(dtype: torch.dtype, rows: int) -> Tiles:
    """Tiles of heads and keys that fit the device at 512 and 64 channels."""
    if dtype == torch.float32:
        return Tiles(16, 16, warps=4 if on_amd() else 8, stages=1)
    if on_amd():
        return Tiles(16, 32, warps=4, stages=1)
    if rows <= 16:
        return Tiles(16, 32, warps=4, stages=2)
    return Tiles(32, 32, warps=8, stages=2)
