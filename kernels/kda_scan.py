"""Memories pass through prepared chunks: what each chunk reads, and what it leaves behind.

The memory of a head stays in registers, value by value and key by key, for some of its value
channels a program. It is the left side of every product, so that nothing turned is multiplied.
"""

import torch
import triton
import triton.language as tl
from torch import Tensor

from kernels.kda_operands import architecture, precision_of_float32
from kernels.kda_prepare import Prepared
from kernels.operands import FLOATS, tile_width

HOPPER = 90


def tiling(dtype: torch.dtype, with_terms: bool) -> tuple[int, int, int]:
    """Value channels, warps and stages of a program, so that its memory stays in registers.

    64 rows are the smallest product that a warpgroup can make. On Hopper one warpgroup holds that
    many and leaves room for a second program beside it; elsewhere it takes twice the registers.
    Products of float32 are several products each, and take them all.
    """
    if dtype == torch.float32:
        return 16, 8, 1
    return 64, 4 if architecture() == HOPPER and not with_terms else 8, 2


@triton.jit
def kda_scan_kernel(
    queries_ptr,
    keys_ptr,
    keys_to_end_ptr,
    solve_ptr,
    products_ptr,
    kept_ptr,
    v_ptr,
    state_ptr,
    lengths_ptr,
    read_ptr,
    new_ptr,
    written_ptr,
    borders_ptr,
    v_batch,
    v_pos,
    v_head,
    state_batch,
    state_head,
    T,
    H,
    K,
    V,
    DOT: tl.constexpr,
    PRECISION: tl.constexpr,
    C: tl.constexpr,
    SEGMENT: tl.constexpr,
    BLOCK_K: tl.constexpr,
    BLOCK_V: tl.constexpr,
):
    # tiles of values first: those of one head read the same chunks at the same time
    program = tl.program_id(0).to(tl.int64)
    tiles = tl.cdiv(V, BLOCK_V)
    batch, head = program // tiles // H, program // tiles % H
    value = program % tiles * BLOCK_V + tl.arange(0, BLOCK_V)
    row = tl.arange(0, C)
    key = tl.arange(0, BLOCK_K)
    has_value, has_key = value < V, key < K
    in_memory = has_value[:, None] & has_key
    at_memory = value[:, None] * K + key
    square = row[:, None] * C + row
    length = T
    if lengths_ptr is not None:
        length = tl.minimum(tl.load(lengths_ptr + batch).to(tl.int32), T)

    from_state = state_ptr + batch * state_batch + head * state_head + at_memory
    state = tl.load(from_state, mask=in_memory, other=0.0)  # [BLOCK_V, BLOCK_K]
    chunks = tl.cdiv(T, C)
    for chunk in tl.range(0, tl.cdiv(length, C)):
        slot = (batch * chunks + chunk) * H + head
        tile = slot * C * K + row[:, None] * K + key
        keys = tl.load(keys_ptr + tile, mask=has_key, other=0.0)  # [C, BLOCK_K]
        queries = tl.load(queries_ptr + tile, mask=has_key, other=0.0)  # [C, BLOCK_K]
        pos = chunk * C + row
        here = has_value[:, None] & (pos < length)
        at = batch * v_batch + pos.to(tl.int64) * v_pos + head * v_head + value[:, None]
        v = tl.load(v_ptr + at, mask=here, other=0.0).to(tl.float32)  # [BLOCK_V, C]

        # what a row expects is what the chunk's first memory recalls, faded up to the row
        narrow = state.to(DOT)
        error = v - tl.dot(narrow, tl.trans(keys), input_precision=PRECISION)
        solve = tl.load(solve_ptr + slot * C * C + square)  # [C, C]
        written = tl.dot(error, tl.trans(solve), input_precision=PRECISION)  # [BLOCK_V, C]
        read = tl.dot(narrow, tl.trans(queries), input_precision=PRECISION)
        products = tl.load(products_ptr + slot * C * C + square)  # [C, C]
        read = tl.dot(written.to(DOT), tl.trans(products), acc=read, input_precision=PRECISION)
        kept = tl.load(kept_ptr + slot * K + key, mask=has_key, other=0.0)  # [BLOCK_K]
        keys_to_end = tl.load(keys_to_end_ptr + tile, mask=has_key, other=0.0)  # [C, BLOCK_K]
        state = tl.dot(written.to(DOT), keys_to_end, acc=state * kept, input_precision=PRECISION)

        to_read = ((batch * T + pos) * H + head) * V + value[:, None]
        tl.store(read_ptr + to_read, read.to(read_ptr.dtype.element_ty), mask=here)
        if written_ptr is not None:
            tl.store(written_ptr + to_read, written, mask=here)
            if (chunk + 1) * C % SEGMENT == 0:
                border = (batch * tl.cdiv(T, SEGMENT) + chunk * C // SEGMENT) * H + head
                tl.store(borders_ptr + border * V * K + at_memory, state, mask=in_memory)
    tl.store(new_ptr + (batch * H + head) * V * K + at_memory, state, mask=in_memory)


def scan_chunks(
    prepared: Prepared,
    v: Tensor,
    state: Tensor,
    *,
    lengths: Tensor | None = None,
    segment: int = 0,
) -> tuple[Tensor, Tensor, Tensor | None, Tensor | None]:
    """Reads `[B, T, H, V]` and the state after them; with a `segment`, what else the rule gives.

    That is, the written values, and the memory after each segment of so many rows that is full.
    """
    B, T, H, V = v.shape
    chunk, K = prepared.keys.shape[-2:]
    if segment % chunk:
        raise ValueError(f"segment {segment!r} is not a multiple of the chunk, {chunk!r} rows.")
    # chunks of padding alone are passed over, and read zero as other padding does
    allocate = torch.empty if lengths is None else torch.zeros
    read = allocate(v.shape, dtype=v.dtype, device=v.device)
    new = torch.empty((B, H, V, K), dtype=torch.float32, device=v.device)
    written = borders = None
    if segment:
        written = allocate(v.shape, dtype=torch.float32, device=v.device)
        full = (B, triton.cdiv(T, segment), H, V, K)
        borders = torch.empty(full, dtype=torch.float32, device=v.device)
    dtype = prepared.keys.dtype
    values, warps, stages = tiling(dtype, with_terms=segment > 0)
    block = min(tile_width(V), values)
    kda_scan_kernel[(B * H * triton.cdiv(V, block),)](
        *prepared,
        v,
        state,
        lengths,
        read,
        new,
        written,
        borders,
        *v.stride()[:3],
        *state.stride()[:2],
        T,
        H,
        K,
        V,
        DOT=FLOATS[dtype],
        PRECISION=precision_of_float32(dtype),
        C=chunk,
        SEGMENT=segment,
        BLOCK_K=tile_width(K),
        BLOCK_V=block,
        num_warps=warps,
        num_stages=stages,
    )
    return read, new, written, borders
