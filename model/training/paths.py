"""The same sums, gradients cheaper: attention, experts, gates and reads over depth."""

from collections.abc import Callable, Sequence
from functools import partial

import torch
import torch.nn.functional as F
from torch import Tensor

from model.attn_res import AttnResidual
from model.config import KimiConfig
from model.kimi import KimiLM
from model.mla import KimiMLAAttention
from model.moe import Experts, KimiMLP
from model.rows import visible_keys
from model.situ import caps

STEP = 64
"""Rows of a batch of experts come in steps: each new shape costs the matrix library a plan."""


SHORT = 256
"""Positions up to which plain products are faster than the fused attention."""


def take_training_paths(lm: KimiLM) -> None:
    """Let `lm` compute as this module does. Taps of scores and patterns then fire no more."""
    for part in lm.modules():
        # an attribute of the instance stands before the method of its class
        if isinstance(part, Experts):
            vars(part)["on_sorted"] = partial(side_by_side, part)
        elif isinstance(part, KimiMLAAttention):
            vars(part)["attend"] = without_scores
        elif isinstance(part, AttnResidual):
            vars(part)["read_sources"] = read_sources
        if isinstance(part, Experts | KimiMLP) and lm.config.hidden_act == "situ":
            part.activation = situ_for(lm.config)


def situ_for(config: KimiConfig) -> Callable[[Tensor, Tensor], Tensor]:
    """SiTU whose tanh is a sigmoid, which torch computes faster."""
    beta, linear_beta = caps(config).values()
    assert beta is not None

    def situ(gate: Tensor, up: Tensor) -> Tensor:
        capped = capped_by(gate, beta) * torch.sigmoid(gate)
        return capped * (up if linear_beta is None else capped_by(up, linear_beta))

    return situ


def capped_by(x: Tensor, beta: float) -> Tensor:
    """`β tanh(x/β)`, as `tanh y = 2 σ(2y) − 1`."""
    return beta * (2 * torch.sigmoid(x * (2 / beta)) - 1)


def read_sources(
    residual: Tensor, bank: Tensor, norm_weight: Tensor, proj_weight: Tensor, eps: float
) -> Tensor:
    """As `AttnResidual.read_sources`, without keys: a source's length divides its score."""
    sources = torch.cat([bank, residual[..., None, :]], dim=-2).flatten(0, -3)
    mean_square = torch.linalg.vecdot(sources, sources) / sources.shape[-1]
    scores = (sources @ (norm_weight * proj_weight)) * torch.rsqrt(mean_square + eps)
    weights = torch.softmax(scores, dim=-1)
    return torch.bmm(weights[:, None], sources).view(residual.shape)


def side_by_side(
    experts: Experts, z: Tensor, chosen: Sequence[int], counts: Sequence[int]
) -> tuple[Tensor, Tensor]:
    """As `Experts.on_sorted` for all experts: one batched product, with empty rows to fill up."""
    room = -(-max(counts) // STEP) * STEP
    places = torch.cat([torch.arange(n) + j * room for j, n in enumerate(counts)])
    filled = z.new_zeros(len(counts) * room, z.shape[-1]).index_copy(0, places, z)
    rows = filled.unflatten(0, (len(counts), room))
    hidden = experts.activation(rows @ experts.w1.mT, rows @ experts.w3.mT)
    out = hidden @ experts.w2.mT
    return hidden.flatten(0, 1)[places], out.flatten(0, 1)[places]


def without_scores(
    q: Tensor, k: Tensor, v: Tensor, scale: float, real: Tensor | None = None
) -> Tensor:
    """As `KimiMLAAttention.attend` for whole rows, without a cache or padding."""
    if k.shape[2] > q.shape[2] or real is not None:
        raise ValueError("Training reads whole rows: no cache, and no lengths.")
    if q.shape[2] <= SHORT:
        scores = (q * scale) @ k.mT
        visible = visible_keys(q.shape[2], k.shape[2], None, q.device)
        if visible is not None:
            scores = scores.masked_fill(~visible, float("-inf"))
        return torch.softmax(scores, dim=-1) @ v
    # the fused attention wants values as wide as keys
    wide_v = F.pad(v, (0, q.shape[-1] - v.shape[-1]))
    read = F.scaled_dot_product_attention(q, k, wide_v, is_causal=True, scale=scale)
    return read[..., : v.shape[-1]]
