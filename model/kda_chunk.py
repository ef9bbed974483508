"""The delta rule in chunks: the recurrence of `model/kda.py`, unrolled over 32 rows at a time.

Inside a chunk the written values solve a unit lower triangular system and all else is matrix
products. `total`, G in the formulas, is the log-decay summed from the chunk's start up to a row,
that row included.

Products of rows i > j carry `e^{G_i − G_j}`, which must be split into a factor of each row before
it can be a matrix product. A chunk is filled by halves: its rows 16 to 31 meet rows 0 to 15 in one
product of 16 × 16, then both halves are halved, down to single rows; row i meets itself without
any decay. Each product splits the exponent at its own later half's first row r, which lies between
j and i, so that `e^{G_i − G_r}` and `e^{G_r − G_j}` are at most one: none can overflow, and one is
lost to underflow only where the whole is. Larger sub-blocks, filled pair by pair from one
exponential each, hold a `[row, row, key]` tensor, take two to five times as long and come as close
to float64, within rounding (`docs/benchmarks.md`).
"""

from typing import NamedTuple

import torch
from torch import Tensor

CHUNK = 32
SEGMENT = 512
"""Rows worked on at a time; larger temporaries cost more page faults than they save."""


class ChunkResult(NamedTuple):
    written: Tensor
    read: Tensor
    borders: Tensor
    """`[batch, border, head, value, key]`: the state after each segment, the last one final."""


def chunked_delta_rule(
    q: Tensor, k: Tensor, v: Tensor, log_decay: Tensor, beta: Tensor, state: Tensor
) -> ChunkResult:
    """Same arguments and results as `delta_rule`, for `[batch, pos, head, …]` and any length."""
    written, read, borders = [], [], []
    for start in range(0, q.shape[1], SEGMENT):
        rows = slice(start, start + SEGMENT)
        parts = (q[:, rows], k[:, rows], v[:, rows], log_decay[:, rows], beta[:, rows])
        u, o, state = segment(*parts, state)
        written.append(u)
        read.append(o)
        borders.append(state)
    if len(borders) == 1:
        return ChunkResult(written[0], read[0], borders[0][:, None])
    return ChunkResult(torch.cat(written, 1), torch.cat(read, 1), torch.stack(borders, 1))


def segment(
    q: Tensor, k: Tensor, v: Tensor, log_decay: Tensor, beta: Tensor, state: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    batch, pos, heads, _ = q.shape
    q, k, v, log_decay = (into_chunks(x) for x in (q, k, v, log_decay))
    beta = into_chunks(beta[..., None])
    # summed in float64: a difference of two long sums must be as exact as a step's own log-decay
    total = log_decay.double().cumsum(dim=-2)
    kept = fade(total, k)
    keys_on_keys, keys_on_queries = decayed_products(q, k, total)

    # (I + β A) [W | U₀] = β [k e^G | v], solved by forward substitution
    right = beta * torch.cat([k * kept, v], dim=-1)
    solved = torch.linalg.solve_triangular(
        beta * keys_on_keys, right, upper=False, unitriangular=True
    )
    recall, fresh = solved.split([k.shape[-1], v.shape[-1]], dim=-1)
    k_to_end = k * fade(total[..., -1:, :] - total, k)
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


def decayed_products(q: Tensor, k: Tensor, total: Tensor) -> tuple[Tensor, Tensor]:
    """`A_ij = Σ k_i k_j e^{G_i − G_j}` and `P_ij = Σ q_i k_j e^{G_i − G_j}`, zero above.

    Rows of a chunk's later half meet those of its earlier half, and then each half is halved in
    the same way. Measured from the first row of the later half, no exponent is positive, however
    steep the decay.
    """
    rows = torch.stack([k, q], dim=-3)
    products = rows.new_zeros(*rows.shape[:-1], CHUNK)
    products.diagonal(dim1=-2, dim2=-1).copy_((rows * k[..., None, :, :]).sum(-1))
    size = CHUNK
    while size > 1:
        half = size // 2
        row, key, sums = (x.unflatten(-2, (-1, size)) for x in (rows, k, total))
        first = sums[..., half : half + 1, :]
        late = row[..., half:, :] * fade(sums[..., half:, :] - first, k)[..., None, :, :, :]
        early = key[..., :half, :] * fade(first - sums[..., :half, :], k)
        blocks = on_diagonal(products, size)
        blocks[..., half:, :half] = late @ early[..., None, :, :, :].mT
        size = half
    on_keys, on_queries = products.unbind(-3)
    return on_keys, on_queries


def fade(log: Tensor, like: Tensor) -> Tensor:
    """What is left after the log-decay `log`, in the dtype of `like`."""
    return log.to(like.dtype).exp()


def on_diagonal(square: Tensor, size: int) -> Tensor:
    """A view of the blocks along the diagonal: `[…, row, row]` to `[…, block, size, size]`."""
    tiles = square.unflatten(-1, (-1, size)).unflatten(-3, (-1, size))
    return tiles.diagonal(dim1=-4, dim2=-2).movedim(-1, -3)


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
