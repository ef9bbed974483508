"""The delta rule over many positions: chunks are prepared at once, then memories pass through."""

from typing import NamedTuple

from torch import Tensor

from kernels.kda_operands import check_kda, check_rows
from kernels.kda_prepare import CHUNK, prepare_chunks
from kernels.kda_scan import scan_chunks

SEGMENT = 512
"""Rows between the memories that `chunked_delta_rule` returns."""
ALL_TERMS = 16
"""Rows of a chunk where terms come as float32 and written values go out: more would not fit."""


class ChunkResult(NamedTuple):
    written: Tensor
    read: Tensor
    borders: Tensor
    """`[batch, border, head, value, key]`: the state after each segment, the last one final."""


def kda_prefill(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    gate_logit: Tensor,
    beta_logit: Tensor,
    A_log: Tensor,
    dt_bias: Tensor,
    state: Tensor,
    lower_bound: float | None,
    lengths: Tensor | None = None,
    chunk: int = CHUNK,
) -> tuple[Tensor, Tensor]:
    """Reads `[B, T, H, V]` and the state after them, from raw projections.

    `q` and `k` are `[B, T, H, K]` and not yet normed, `v` `[B, T, H, V]`, the gate's logits
    `[B, T, H, K]` without their bias `[H·K]`, those of beta `[B, T, H]`, `A_log` `[H]` and the
    state `[B, H, V, K]` in float32. Rows from `lengths`, `[B]`, on are padding and read zero.
    """
    given = (q, k, v, gate_logit, beta_logit, A_log, dt_bias, state, lengths)
    check_kda("kda_prefill", *given)
    check_chunk("kda_prefill", chunk)
    if not v.numel():
        return v.new_empty(v.shape), state.clone()
    prepared = prepare_chunks(
        q,
        k,
        gate_logit,
        beta_logit,
        A_log=A_log,
        dt_bias=dt_bias,
        lower_bound=lower_bound,
        lengths=lengths,
        chunk=chunk,
    )
    read, new, _, _ = scan_chunks(prepared, v, state, lengths=lengths)
    return read, new


def chunked_delta_rule(
    q: Tensor, k: Tensor, v: Tensor, log_decay: Tensor, beta: Tensor, state: Tensor
) -> ChunkResult:
    """The function of the same name in `model/kda_chunk.py`, whose terms are computed already."""
    check_rows("chunked_delta_rule", q, k, v, log_decay, beta, state)
    prepared = prepare_chunks(q, k, log_decay, beta, chunk=ALL_TERMS)
    read, new, written, borders = scan_chunks(prepared, v, state, segment=SEGMENT)
    assert written is not None
    assert borders is not None
    borders[:, -1] = new
    return ChunkResult(written, read, borders)


def check_chunk(launcher: str, chunk: int) -> None:
    if chunk not in (16, 32, 64):
        raise ValueError(f"{launcher}: a chunk has 16, 32 or 64 rows, not {chunk!r}.")
