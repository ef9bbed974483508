"""One position of the delta rule, from raw projections to the read, in one pass over the memory."""

import torch
import triton
import triton.language as tl
from torch import Tensor

from kernels.kda_gate import log_decay, unit_length
from kernels.kda_operands import check_kda
from kernels.operands import tile_width
from kernels.sigmoid import sigmoid

VALUES = 32
"""Value channels of one program: its part of the memory stays in registers."""


@triton.jit
def kda_step_kernel(
    q_ptr,
    k_ptr,
    v_ptr,
    z_ptr,
    beta_ptr,
    a_ptr,
    bias_ptr,
    state_ptr,
    lengths_ptr,
    read_ptr,
    new_ptr,
    q_batch,
    q_head,
    k_batch,
    k_head,
    v_batch,
    v_head,
    z_batch,
    z_head,
    beta_batch,
    beta_head,
    state_batch,
    state_head,
    H,
    K,
    V,
    scale,
    lower_bound,
    BOUNDED: tl.constexpr,
    BLOCK_K: tl.constexpr,
    BLOCK_V: tl.constexpr,
):
    program = tl.program_id(0).to(tl.int64)
    tiles = tl.cdiv(V, BLOCK_V)
    row = program // tiles
    batch, head = row // H, row % H
    key = tl.arange(0, BLOCK_K)
    value = program % tiles * BLOCK_V + tl.arange(0, BLOCK_V)
    has_key, has_value = key < K, value < V
    inside = has_value[:, None] & has_key

    q = tl.load(q_ptr + batch * q_batch + head * q_head + key, mask=has_key, other=0.0)
    k = tl.load(k_ptr + batch * k_batch + head * k_head + key, mask=has_key, other=0.0)
    v = tl.load(v_ptr + batch * v_batch + head * v_head + value, mask=has_value, other=0.0)
    z = tl.load(z_ptr + batch * z_batch + head * z_head + key, mask=has_key, other=0.0)
    bias = tl.load(bias_ptr + head * K + key, mask=has_key, other=0.0).to(tl.float32)
    q = unit_length(q.to(tl.float32), 0) * scale  # [BLOCK_K]
    k = unit_length(k.to(tl.float32), 0)  # [BLOCK_K]
    rate = tl.exp(tl.load(a_ptr + head).to(tl.float32))
    retention = tl.exp(log_decay(z.to(tl.float32) + bias, rate, lower_bound, BOUNDED))  # [BLOCK_K]
    beta = sigmoid(tl.load(beta_ptr + batch * beta_batch + head * beta_head).to(tl.float32))

    from_state = state_ptr + batch * state_batch + head * state_head + value[:, None] * K + key
    state = tl.load(from_state, mask=inside, other=0.0)  # [BLOCK_V, BLOCK_K]
    decayed = state * retention
    written = beta * (v.to(tl.float32) - tl.sum(decayed * k, axis=1))  # [BLOCK_V]
    new = decayed + written[:, None] * k  # [BLOCK_V, BLOCK_K]
    read = tl.sum(new * q, axis=1)  # [BLOCK_V]
    if lengths_ptr is not None:
        # padding neither forgets nor writes, and reads nothing
        real = tl.load(lengths_ptr + batch) > 0
        new = tl.where(real, new, state)
        read = tl.where(real, read, 0.0)
    tl.store(new_ptr + (row * V + value[:, None]) * K + key, new, mask=inside)
    tl.store(read_ptr + row * V + value, read.to(read_ptr.dtype.element_ty), mask=has_value)


def kda_step(
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
) -> tuple[Tensor, Tensor]:
    """What `kda_prefill` computes, for one position of each sequence: the read and the new state.

    `q` and `k` are `[B, 1, H, K]` and not yet normed, `v` `[B, 1, H, V]`, the gate's logits
    `[B, 1, H, K]` without their bias `[H·K]`, those of beta `[B, 1, H]`, `A_log` `[H]` and the
    state `[B, H, V, K]` in float32. A sequence whose length is 0 has only padding here.
    """
    given = (q, k, v, gate_logit, beta_logit, A_log, dt_bias, state, lengths)
    B, T, H, K, V = check_kda("kda_step", *given)
    if T != 1:
        raise ValueError(f"kda_step: one position a call, not {T!r}; kda_prefill takes more.")
    read = torch.empty((B, 1, H, V), dtype=v.dtype, device=v.device)
    new = torch.empty((B, H, V, K), dtype=torch.float32, device=v.device)
    if not read.numel():
        return read, new
    kda_step_kernel[(B * H * triton.cdiv(V, VALUES),)](
        q,
        k,
        v,
        gate_logit,
        beta_logit,
        A_log,
        dt_bias,
        state,
        lengths,
        read,
        new,
        *q.stride()[::2],
        *k.stride()[::2],
        *v.stride()[::2],
        *gate_logit.stride()[::2],
        *beta_logit.stride()[::2],
        *state.stride()[:2],
        H,
        K,
        V,
        K**-0.5,
        lower_bound or 0.0,
        BOUNDED=lower_bound is not None,
        BLOCK_K=tile_width(K),
        BLOCK_V=VALUES,
        num_warps=4,
    )
    return read, new
