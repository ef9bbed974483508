"""Grouped products of the routed experts: each tile of tokens meets the matrices of one expert.

Rows are the pairs of a token and a choice, sorted by expert; a tile holds rows of one expert only.
Matrices are dense, or MXFP4 that becomes numbers on its way in.
"""

from typing import NamedTuple

import torch
import triton
import triton.language as tl
from torch import Tensor

from kernels.mxfp4 import GROUP, load_mxfp4
from kernels.operands import FLOATS, check_operands, check_shapes, on_amd, refuse
from kernels.situ import gated

Matrices = Tensor | tuple[Tensor, Tensor]
"""`[expert, out, in]`, or uint8 codes of half that width with uint8 scales of a 32nd of it."""


@triton.jit
def load_matrix(
    w_ptr,
    scale_ptr,
    expert,
    w_expert,
    w_out,
    w_in,
    column,
    inside,
    start,
    IN,
    MXFP4: tl.constexpr,
    BLOCK_N: tl.constexpr,
    BLOCK_K: tl.constexpr,
):
    """`[BLOCK_N, BLOCK_K]` of one expert's matrix, whose offset may pass 2³¹."""
    w_ptr += expert * w_expert
    if MXFP4:
        scale_ptr += expert * (w_expert // (GROUP // 2))
        w = load_mxfp4(w_ptr, scale_ptr, column, inside, start, IN, BLOCK_N, BLOCK_K)
    else:
        k = start + tl.arange(0, BLOCK_K).to(tl.int64)
        at = column[:, None] * w_out + k[None, :] * w_in
        w = tl.load(w_ptr + at, mask=inside[:, None] & (k < IN)[None, :], other=0.0)
    return w


@triton.jit
def through_experts_kernel(
    x_ptr,
    gate_ptr,
    gate_scale_ptr,
    up_ptr,
    up_scale_ptr,
    y_ptr,
    order_ptr,
    expert_ptr,
    first_tile_ptr,
    first_row_ptr,
    x_row,
    gate_expert,
    gate_out,
    gate_in,
    up_expert,
    up_out,
    up_in,
    choices,
    E,
    IN,
    OUT,
    beta,
    linear_beta,
    GATED: tl.constexpr,
    SITU: tl.constexpr,
    CAPS_UP: tl.constexpr,
    MXFP4: tl.constexpr,
    DOT: tl.constexpr,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
    BLOCK_K: tl.constexpr,
):
    tile = tl.program_id(0) // tl.cdiv(OUT, BLOCK_N)
    expert = tl.load(expert_ptr + tile)
    if expert >= E:
        # there are as many tiles as the worst routing needs
        return
    nth = tl.load(first_row_ptr + expert) + tl.arange(0, BLOCK_M)
    nth += (tile - tl.load(first_tile_ptr + expert)) * BLOCK_M
    exists = nth < tl.load(first_row_ptr + expert + 1)
    pair = tl.load(order_ptr + nth, mask=exists, other=0)  # [BLOCK_M]
    x_ptr += (pair // choices)[:, None] * x_row
    column = tl.program_id(0) % tl.cdiv(OUT, BLOCK_N) * BLOCK_N
    column = column + tl.arange(0, BLOCK_N).to(tl.int64)
    inside = column < OUT

    y = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
    up = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
    for start in range(0, IN, BLOCK_K):
        k = start + tl.arange(0, BLOCK_K)
        x = tl.load(x_ptr + k[None, :], mask=exists[:, None] & (k < IN)[None, :], other=0.0)
        x = x.to(DOT)  # [BLOCK_M, BLOCK_K]
        w = load_matrix(
            gate_ptr,
            gate_scale_ptr,
            expert,
            gate_expert,
            gate_out,
            gate_in,
            column,
            inside,
            start,
            IN,
            MXFP4,
            BLOCK_N,
            BLOCK_K,
        )
        y = tl.dot(x, tl.trans(w.to(DOT)), acc=y, input_precision="ieee")
        if GATED:
            w = load_matrix(
                up_ptr,
                up_scale_ptr,
                expert,
                up_expert,
                up_out,
                up_in,
                column,
                inside,
                start,
                IN,
                MXFP4,
                BLOCK_N,
                BLOCK_K,
            )
            up = tl.dot(x, tl.trans(w.to(DOT)), acc=up, input_precision="ieee")
    if GATED:
        y = gated(y, up, beta, linear_beta, SITU, CAPS_UP)
    to_y = pair[:, None] * OUT + column[None, :]
    y = y.to(y_ptr.dtype.element_ty)
    tl.store(y_ptr + to_y, y, mask=exists[:, None] & inside[None, :])


class Tiles(NamedTuple):
    """How the work of one launch is cut."""

    rows: int
    columns: int
    depth: int
    warps: int
    stages: int


class Sorted(NamedTuple):
    """Pairs of a token and a choice, by expert, in tiles; made on the device without waiting."""

    order: Tensor
    """The pair at each place, int64 `[token · choice]`."""
    expert: Tensor
    """Whose rows a tile holds, int64 `[tile]`; the number of experts for a tile without rows."""
    first_tile: Tensor
    """By expert and one more, int64."""
    first_row: Tensor
    """By expert and one more, int64."""


def through_experts(
    z: Tensor,
    chosen: Tensor,
    w1: Matrices,
    w2: Matrices,
    w3: Matrices,
    *,
    beta: float | None = None,
    linear_beta: float | None = None,
    tiles: Tiles | None = None,
) -> tuple[Tensor, Tensor]:
    """Hidden values and outputs of `[token, choice]` experts on `z`, `[token, width]`.

    Hidden is SwiGLU of `w1 z` and `w3 z`, or SiTU where `beta` is given; the output `w2` of it.
    """
    E, F, Z = size_of(w1)
    check(z, chosen, w1, w2, w3)
    tokens, choices = chosen.shape
    hidden = torch.empty(tokens, choices, F, dtype=z.dtype, device=z.device)
    out = torch.empty(tokens, choices, Z, dtype=z.dtype, device=z.device)
    if not chosen.numel():
        return hidden, out
    tiles = tiles or tiles_for(z.dtype, chosen.numel(), E)
    by_expert = sort_by_expert(chosen, E, tiles.rows)
    launch(z, w1, w3, hidden, by_expert, choices, tiles, beta, linear_beta)
    launch(hidden.view(-1, F), w2, None, out, by_expert, 1, tiles, None, None)
    return hidden, out


def launch(
    x: Tensor,
    gate: Matrices,
    up: Matrices | None,
    y: Tensor,
    by_expert: Sorted,
    choices: int,
    tiles: Tiles,
    beta: float | None,
    linear_beta: float | None,
) -> None:
    """`y`, by pair, of the row of `x` that each pair's token has: gated where there is `up`."""
    E, OUT, IN = size_of(gate)
    gate_values, gate_scale = gate if isinstance(gate, tuple) else (gate, None)
    up_values, up_scale = up if isinstance(up, tuple) else (up, None)
    grid = (len(by_expert.expert) * triton.cdiv(OUT, tiles.columns),)
    through_experts_kernel[grid](
        x,
        gate_values,
        gate_scale,
        up_values,
        up_scale,
        y,
        *by_expert,
        x.stride(0),
        *gate_values.stride(),
        *(gate_values if up_values is None else up_values).stride(),
        choices,
        E,
        IN,
        OUT,
        1.0 if beta is None else beta,
        1.0 if linear_beta is None else linear_beta,
        GATED=up is not None,
        SITU=beta is not None,
        CAPS_UP=linear_beta is not None,
        MXFP4=gate_scale is not None,
        DOT=FLOATS[x.dtype],
        BLOCK_M=tiles.rows,
        BLOCK_N=tiles.columns,
        BLOCK_K=tiles.depth,
        num_warps=tiles.warps,
        num_stages=tiles.stages,
    )


def sort_by_expert(chosen: Tensor, E: int, rows: int) -> Sorted:
    flat = chosen.flatten()
    counts = torch.zeros(E, dtype=torch.int64, device=flat.device)
    counts.scatter_add_(0, flat, torch.ones_like(flat))
    first_row = starts(counts)
    first_tile = starts((counts + rows - 1) // rows)
    most = len(flat) // rows + min(E, len(flat))
    tile = torch.arange(most, device=flat.device)
    expert = torch.searchsorted(first_tile[1:], tile, right=True)
    return Sorted(flat.argsort(stable=True), expert, first_tile, first_row)


def starts(counts: Tensor) -> Tensor:
    return torch.cat([counts.new_zeros(1), counts.cumsum(0)])


def size_of(matrices: Matrices) -> tuple[int, int, int]:
    """Experts, out and in."""
    if isinstance(matrices, tuple):
        E, out, packed = matrices[0].shape
        return E, out, 2 * packed
    E, out, width = matrices.shape
    return E, out, width


def check(z: Tensor, chosen: Tensor, w1: Matrices, w2: Matrices, w3: Matrices) -> None:
    E, F, Z = size_of(w1)
    faults = []
    for name, matrices, wanted in (("w2", w2, (E, Z, F)), ("w3", w3, (E, F, Z))):
        if size_of(matrices) != wanted:
            faults.append(f"{name} is {size_of(matrices)}, not {wanted}")
        if isinstance(matrices, tuple) != isinstance(w1, tuple):
            faults.append(f"w1 and {name} must both be packed, or neither")
    for name, matrices in (("w1", w1), ("w2", w2), ("w3", w3)):
        faults += faults_of(name, matrices)
    if chosen.dtype != torch.int64 or chosen.ndim != 2:
        faults.append(f"chosen must be int64 [token, choice], not {chosen.dtype} {chosen.ndim}-d")
    refuse("through_experts", faults)
    check_shapes("through_experts", z=(z, (len(chosen), Z)))
    check_operands("through_experts", z=z)


def faults_of(name: str, matrices: Matrices) -> list[str]:
    if isinstance(matrices, Tensor):
        if matrices.dtype in FLOATS:
            return []
        return [f"{name} is {matrices.dtype}, not float32, bfloat16 or float16"]
    E, out, width = size_of(matrices)
    _, scale = matrices
    faults = []
    if width % GROUP.value or tuple(scale.shape) != (E, out, width // GROUP.value):
        faults.append(
            f"{name} has scales {tuple(scale.shape)} for {width!r} columns in groups of 32"
        )
    for part in matrices:
        if part.dtype != torch.uint8 or not part.is_contiguous():
            faults.append(f"{name} must be contiguous uint8, not {part.dtype} {part.stride()}")
    return faults


def tiles_for(dtype: torch.dtype, pairs: int, E: int) -> Tiles:
    """Tiles for about as many rows as an expert that is hit gets."""
    each = pairs // min(E, pairs)
    if dtype == torch.float32:
        return Tiles(16 if each <= 16 else 32, 32, 32, warps=4, stages=1)
    if each <= 16:
        return Tiles(16, 64, 128, warps=4, stages=2)
    if each <= 32 or on_amd():
        return Tiles(32, 64, 64, warps=4, stages=2)
    if each <= 64:
        return Tiles(64, 64, 64, warps=4, stages=3)
    return Tiles(128, 64, 64, warps=8, stages=3)
