"""The delta rule for training: in chunks, in a form whose gradient is cheap.

Inference fills a chunk by halves, so that no decay however steep can overflow, and that costs many
small products with a gradient each. Where a log-decay is bounded below by −5, one product is
enough: measured from a chunk's middle row, the sums G of sixteen rows lie within ±80, and e^{±80}
is a float32. Only products above the diagonal can overflow, and those are struck out before
anything reads them.
"""

import torch
from torch import Tensor

from model.kda_chunk import CHUNK, ChunkResult, into_chunks, out_of_chunks

STEEPEST = 80.0
"""Largest exponent that occurs; the float32 range ends beyond 88."""


def middle_delta_rule(
    q: Tensor, k: Tensor, v: Tensor, log_decay: Tensor, beta: Tensor, state: Tensor
) -> ChunkResult:
    """Same arguments and results as `delta_rule`, for log-decays of at least −5 a step.

    `borders` holds the last state alone.
    """
    batch, pos, heads, _ = q.shape
    q, k, v, log_decay, beta = (into_chunks(x) for x in (q, k, v, log_decay, beta[..., None]))
    total = log_decay.cumsum(dim=-2)
    middle = total[..., CHUNK // 2 - 1 : CHUNK // 2, :]
    since_middle = (total - middle).exp()
    k_back = k * (middle - total).exp()
    k_on, q_on = k * since_middle, q * since_middle
    keys_on_keys = (k_on @ k_back.mT).tril(-1)
    keys_on_queries = (q_on @ k_back.mT).tril()

    # (I + β A) [W | U₀] = β [k e^G | v], solved by forward substitution
    to_middle = middle.exp()
    right = beta * torch.cat([k_on * to_middle, v], dim=-1)
    solved = torch.linalg.solve_triangular(
        beta * keys_on_keys, right, upper=False, unitriangular=True
    )
    recall, fresh = solved.split([k.shape[-1], v.shape[-1]], dim=-1)
    last = since_middle[..., -1:, :]
    k_to_end, kept_to_end = (k_back * last).mT, (last * to_middle).mT

    state = state.flatten(0, 1).mT
    before, written = [], []
    parts = (recall, fresh, k_to_end, kept_to_end)
    for recall_n, fresh_n, k_n, kept_n in zip(*(x.unbind() for x in parts), strict=True):
        before.append(state)
        written.append(torch.baddbmm(fresh_n, recall_n, state, alpha=-1))
        state = torch.baddbmm(kept_n * state, k_n, written[-1])
    u = torch.stack(written)
    o = (q_on * to_middle) @ torch.stack(before) + keys_on_queries @ u
    u, o = out_of_chunks(u, batch, heads, pos), out_of_chunks(o, batch, heads, pos)
    return ChunkResult(u, o, state.mT.unflatten(0, (batch, heads))[:, None])
