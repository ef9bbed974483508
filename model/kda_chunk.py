"""The delta rule in chunks: the recurrence of `model/kda.py`, unrolled over 32 rows at a time.

Inside a chunk the written values solve a unit lower triangular system and all else is matrix
products. `total`, G in the formulas, is the log-decay summed from the chunk's start up to a row,
that row included.
"""

from typing import NamedTuple

import torch
from torch import Tensor

CHUNK = 32
BLOCK = 16
SEGMENT = 512
"""Rows worked on at a time; larger temporaries cost more page faults than they save."""

LEAST_BOUND = -5.0
"""A block's half at this log-decay a step keeps `exp` of differences inside float32."""


class ChunkResult(NamedTuple):
    written: Tensor
    read: Tensor
    borders: Tensor
    """`[batch, border, head, value, key]`: the state after each segment, the last one final."""


def chunked_delta_rule(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    log_decay: Tensor,
    beta: Tensor,
    state: Tensor,
    gate_lower_bound: float | None = None,
) -> ChunkResult:
    """Same arguments and results as `delta_rule`, for `[batch, pos, head, …]` and any length.

    `gate_lower_bound` promises that no log-decay lies below it; then products within a block are
    matrix products, otherwise they are taken pair by pair.
    """
    bounded = gate_lower_bound is not None and gate_lower_bound >= LEAST_BOUND
    written, read, borders = [], [], []
    for start in range(0, q.shape[1], SEGMENT):
        rows = slice(start, start + SEGMENT)
        parts = (q[:, rows], k[:, rows], v[:, rows], log_decay[:, rows], beta[:, rows])
        u, o, state = segment(*parts, state, bounded)
        written.append(u)
        read.append(o)
        borders.append(state)
    if len(borders) == 1:
        return ChunkResult(written[0], read[0], borders[0][:, None])
    return ChunkResult(torch.cat(written, 1), torch.cat(read, 1), torch.stack(borders, 1))


def segment(
    q: Tensor, k: Tensor, v: Tensor, log_decay: Tensor, beta: Tensor, state: Tensor, bounded: bool
) -> tuple[Tensor, Tensor, Tensor]:
    batch, pos, heads, _ = q.shape
    q, k, v, log_decay = (into_chunks(x) for x in (q, k, v, log_decay))
    beta = into_chunks(beta[..., None])
    total = log_decay.cumsum(dim=-2)
    kept = total.exp()
    keys_on_keys, keys_on_queries = decayed_products(q, k, total, bounded)

    # (I + β A) [W | U₀] = β [k e^G | v], solved by forward substitution
    right = beta * torch.cat([k * kept, v], dim=-1)
    solved = torch.linalg.solve_triangular(
        beta * keys_on_keys, right, upper=False, unitriangular=True
    )
    recall, fresh = solved.split([k.shape[-1], v.shape[-1]], dim=-1)
    k_to_end = k * (total[..., -1:, :] - total).exp()
    kept_to_end = kept[..., -1:, :]

    state = state.flatten(0, 1)
    before, written = [], []
    for n in range(q.shape[0]):
        before.append(state)
        written.append(torch.baddbmm(fresh[n], recall[n], state.mT, alpha=-1))
        state = torch.baddbmm(kept_to_end[n] * state, written[n].mT, k_to_end[n])
    u = torch.stack(written)
    o = (q * kept) @ torch.stack(before).mT + keys_on_queries @ u
    u, o = out_of_chunks(u, batch, heads, pos), out_of_chunks(o, batch, heads, pos)
    return u, o, state.unflatten(0, (batch, heads))


def decayed_products(q: Tensor, k: Tensor, total: Tensor, bounded: bool) -> tuple[Tensor, Tensor]:
    """`A_ij = Σ k_i k_j e^{G_i − G_j}` and `P_ij = Σ q_i k_j e^{G_i − G_j}`, zero above.

    Decay is never factored over more than a block, since `e^{−G}` of a chunk overflows. Between
    the two blocks the reference is the later one's first row, so that no exponent is positive.
    """
    rows = torch.stack([k, q], dim=-3)
    early, late = slice(0, BLOCK), slice(BLOCK, CHUNK)
    first = total[..., BLOCK : BLOCK + 1, :]
    left = rows[..., late, :] * (total[..., late, :] - first).exp()[..., None, :, :]
    right = k[..., early, :] * (first - total[..., early, :]).exp()
    between = left @ right[..., None, :, :].mT
    rows, k, total = (x.unflatten(-2, (-1, BLOCK)) for x in (rows, k, total))
    within = within_blocks(rows, k, total, bounded)
    top = torch.cat([within[..., 0, :, :], torch.zeros_like(between)], dim=-1)
    bottom = torch.cat([between, within[..., 1, :, :]], dim=-1)
    on_keys, on_queries = torch.cat([top, bottom], dim=-2).unbind(-3)
    return on_keys, on_queries


def within_blocks(rows: Tensor, k: Tensor, total: Tensor, bounded: bool) -> Tensor:
    """The diagonal blocks of both products, `[…, 2, block, row, row]`, zero above the diagonal."""
    row = torch.arange(BLOCK, device=k.device)
    above = row[:, None] < row
    if bounded:
        # half a block of the steepest decay is e^{±40}, which float32 and bfloat16 hold
        middle = total[..., BLOCK // 2 : BLOCK // 2 + 1, :]
        left = rows * (total - middle).exp()[..., None, :, :, :]
        right = k * (middle - total).exp()
        products = left @ right[..., None, :, :, :].mT
    else:
        # clamped, so that what is masked below stays finite
        between = (total[..., :, None, :] - total[..., None, :, :]).clamp(max=0).exp()
        faded = k[..., None, :, :] * between
        products = torch.einsum("xynijc,xyrnic->xyrnij", faded, rows)
    return products.masked_fill(above, 0)


def into_chunks(x: Tensor) -> Tensor:
    """`[batch, pos, head, c]` to `[chunk, batch·head, row, c]`; rows added at the end are zero.

    A zero row decays nothing, writes nothing and reads nothing.
    """
    batch, pos, heads, width = x.shape
    chunks = -(-pos // CHUNK)
    if short := chunks * CHUNK - pos:
        x = torch.nn.functional.pad(x, (0, 0, 0, 0, 0, short))
    x = x.view(batch, chunks, CHUNK, heads, width).permute(1, 0, 3, 2, 4)
    return x.reshape(chunks, batch * heads, CHUNK, width)


def out_of_chunks(x: Tensor, batch: int, heads: int, pos: int) -> Tensor:
    chunks, _, rows, width = x.shape
    x = x.view(chunks, batch, heads, rows, width).permute(1, 0, 3, 2, 4)
    return x.reshape(batch, chunks * rows, heads, width)[:, :pos]
