"""Kimi Delta Attention: a memory of fixed size that forgets by channel and corrects by error."""

from collections.abc import Callable
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from model.cache import KDAState
from model.capture import Quick, Tap
from model.config import KimiConfig, LinearAttnConfig
from model.conv import ShortConvolution, ShortConvolutions
from model.kda_chunk import ChunkResult, chunked_delta_rule
from model.kernel_choice import TORCH, Kernels
from model.linear import Linear, empty_parameter, rounded, wide
from model.norm import GatedRMSNorm
from model.packed import Packed
from model.rows import Rows

L2_EPS = 1e-6
"""Added to the sum of squares, inside the root."""

Recurrence = Callable[[Tensor, Tensor, Tensor, Tensor, Tensor, Tensor], ChunkResult]


class Step(NamedTuple):
    """The terms of the delta rule at one position."""

    retention: Tensor
    decayed_state: Tensor
    recalled: Tensor
    written: Tensor
    state: Tensor
    read: Tensor


def delta_step(
    q: Tensor, k: Tensor, v: Tensor, log_decay: Tensor, beta: Tensor, state: Tensor
) -> Step:
    """One position of `[…, head, …]`; the state is `[…, head, value, key]`."""
    k_row = k[..., None, :]
    retention = log_decay.exp()
    decayed_state = retention[..., None, :] * state
    recalled = (decayed_state * k_row).sum(-1)
    written = beta[..., None] * (v - recalled)
    state = torch.addcmul(decayed_state, written[..., :, None], k_row)
    read = (state * q[..., None, :]).sum(-1)
    return Step(retention, decayed_state, recalled, written, state, read)


def delta_rule(
    q: Tensor, k: Tensor, v: Tensor, log_decay: Tensor, beta: Tensor, state: Tensor
) -> ChunkResult:
    """The recurrence, row by row: what every faster path must equal."""
    written, read = [], []
    for t in range(q.shape[1]):
        step = delta_step(q[:, t], k[:, t], v[:, t], log_decay[:, t], beta[:, t], state)
        state = step.state
        written.append(step.written)
        read.append(step.read)
    return ChunkResult(torch.stack(written, 1), torch.stack(read, 1), state[:, None])


def unit_length(x: Tensor) -> Tensor:
    return x * torch.rsqrt(x.square().sum(-1, keepdim=True) + L2_EPS)


class KimiDeltaAttention(Quick):
    RECOMPUTED = ("retention", "decayed_state", "recalled")
    """Taps that prefill does not fire: chunks never hold these values."""
    IN_KERNEL = ("q", "k", "v", "gate_logit", "log_decay", "beta", "written")
    """Taps that, beside those, a kernel does not fire which goes from projections to the read."""

    def __init__(
        self,
        config: KimiConfig,
        recurrence: Recurrence | None = None,
        kernels: Kernels = TORCH,
    ) -> None:
        super().__init__()
        linear = config.linear_attn_config
        if linear is None:
            raise ValueError("KimiDeltaAttention needs a configuration with linear_attn_config.")
        self.heads, self.width = linear.num_heads, linear.head_dim
        self.gate_lower_bound = linear.gate_lower_bound
        self.gate_is_low_rank = not linear.use_full_rank_gate
        self.kernels = kernels
        self.recurrence = recurrence or kernels.chunked_delta_rule or chunked_delta_rule
        self.make_parameters(linear, config)
        self.make_taps()

    def make_parameters(self, linear: LinearAttnConfig, config: KimiConfig) -> None:
        d_model, d_inner = config.hidden_size, self.heads * self.width
        self.q_proj = Linear(d_model, d_inner)
        self.k_proj = Linear(d_model, d_inner)
        self.v_proj = Linear(d_model, d_inner)
        self.q_conv1d = ShortConvolution(d_inner, linear.short_conv_kernel_size, self.kernels)
        self.k_conv1d = ShortConvolution(d_inner, linear.short_conv_kernel_size, self.kernels)
        self.v_conv1d = ShortConvolution(d_inner, linear.short_conv_kernel_size, self.kernels)
        self.f_a_proj = Linear(d_model, self.width)
        self.f_b_proj = Linear(self.width, d_inner)
        self.dt_bias = empty_parameter(d_inner)
        self.A_log = empty_parameter(self.heads)
        self.b_proj = Linear(d_model, self.heads)
        if linear.use_full_rank_gate:
            self.g_proj = Linear(d_model, d_inner)
        else:
            self.g_a_proj = Linear(d_model, self.width)
            self.g_b_proj = Linear(self.width, d_inner)
        self.o_norm = GatedRMSNorm(self.width, config.rms_norm_eps, self.kernels)
        self.o_proj = Linear(d_inner, d_model)
        gate = self.g_proj if linear.use_full_rank_gate else self.g_a_proj
        reading_x = (self.q_proj, self.k_proj, self.v_proj, self.f_a_proj, self.b_proj, gate)
        self.projections = Packed(*((projection, "weight") for projection in reading_x))
        self.convolutions = ShortConvolutions(
            self.q_conv1d, self.k_conv1d, self.v_conv1d, kernels=self.kernels
        )

    def make_taps(self) -> None:
        self.q = Tap("batch pos head d_key")
        self.k = Tap("batch pos head d_key")
        self.v = Tap("batch pos head d_value")
        self.gate_latent = Tap("batch pos d_gate_latent")
        self.gate_logit = Tap("batch pos head d_key")
        self.log_decay = Tap("batch pos head d_key")
        self.retention = Tap("batch pos head d_key")
        self.beta = Tap("batch pos head")
        self.decayed_state = Tap("batch pos head d_value d_key")
        self.recalled = Tap("batch pos head d_value")
        self.written = Tap("batch pos head d_value")
        self.state = Tap("batch border head d_value d_key")
        self.read = Tap("batch pos head d_value")
        self.output_gate = Tap("batch pos head d_value")
        self.out = Tap("batch pos d_model")

    def forward(self, x: Tensor, kept: KDAState | None, rows: Rows) -> Tensor:
        q, k, v, gate_latent, beta_logit, gate = self.projections(x)
        columns = None if kept is None else (kept.conv_q, kept.conv_k, kept.conv_v)
        (q, k, v), columns = self.convolutions.convolve((q, k, v), columns, rows)
        q, k, v = self.by_head(q), self.by_head(k), self.by_head(v)
        state = self.empty_state(x) if kept is None else kept.recurrent
        if (in_one_pass := self.kernel_for(kept, rows)) is not None:
            gate_logit = self.by_head(self.f_b_proj(self.gate_latent(gate_latent)))
            gates = (gate_logit, beta_logit, self.A_log, self.dt_bias)
            read, state = in_one_pass(q, k, v, *gates, state, self.gate_lower_bound, rows.lengths)
            if kept is not None:
                # after a step, whose only border it is
                state = self.state(state[:, None])[:, 0]
        else:
            q = self.q(unit_length(wide(q)) * self.width**-0.5)
            k = self.k(unit_length(wide(k)))
            v = self.v(wide(v))

            log_decay = self.forget_gate(gate_latent)
            beta = self.beta(wide(beta_logit).sigmoid())

            # a padded row neither forgets nor writes
            terms = (q, k, v, rows.only_real(log_decay), rows.only_real(beta), state)
            is_step = kept is not None and rows.pos == 1
            read, state = self.step(*terms) if is_step else self.sequence(*terms)
        if kept is not None:
            kept.recurrent = state
            kept.conv_q, kept.conv_k, kept.conv_v = columns

        read = self.read(rounded(read, x))
        gate = self.output_gate(self.by_head(self.gate_of_output(gate)))
        return self.out(self.o_proj(self.o_norm(read, gate).flatten(-2)))

    def kernel_for(self, kept: KDAState | None, rows: Rows) -> Callable[..., Any] | None:
        """One that goes from the projections to the reads, where nobody needs what lies between.

        A prompt that is kept leaves the states at its borders, which such a kernel does not hold.
        """
        if kept is None:
            return self.kernels.kda_prefill
        return self.kernels.kda_step if rows.pos == 1 else None

    def empty_state(self, x: Tensor) -> Tensor:
        return wide(x.new_zeros(x.shape[0], self.heads, self.width, self.width))

    def forget_gate(self, latent: Tensor) -> Tensor:
        """Log-decay of every channel: `g_min σ(e^A z)`, or `−e^A softplus(z)` without a bound."""
        latent = self.gate_latent(latent)
        z = self.gate_logit(self.by_head(wide(self.f_b_proj(latent)) + wide(self.dt_bias)))
        rate = wide(self.A_log).exp()[:, None]
        if self.gate_lower_bound is None:
            return self.log_decay(-rate * F.softplus(z))
        return self.log_decay(self.gate_lower_bound * torch.sigmoid(rate * z))

    def gate_of_output(self, gate: Tensor) -> Tensor:
        return self.g_b_proj(gate) if self.gate_is_low_rank else gate

    def sequence(
        self, q: Tensor, k: Tensor, v: Tensor, log_decay: Tensor, beta: Tensor, state: Tensor
    ) -> tuple[Tensor, Tensor]:
        written, read, borders = self.recurrence(q, k, v, log_decay, beta, state)
        self.written(written)
        return read, self.state(borders)[:, -1]

    def step(
        self, q: Tensor, k: Tensor, v: Tensor, log_decay: Tensor, beta: Tensor, state: Tensor
    ) -> tuple[Tensor, Tensor]:
        step = delta_step(q, k, v, log_decay, beta, state[:, None])
        self.retention(step.retention)
        self.decayed_state(step.decayed_state)
        self.recalled(step.recalled)
        self.written(step.written)
        return step.read, self.state(step.state)[:, 0]

    def by_head(self, x: Tensor) -> Tensor:
        return x.unflatten(-1, (self.heads, self.width))
