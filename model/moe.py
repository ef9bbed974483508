"""Feed-forward layers: the plain MLP, the router, and experts that work on a narrow latent."""

from collections.abc import Sequence
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from model.capture import Quick, Tap
from model.config import KimiConfig
from model.dims import size
from model.kernel_choice import TORCH, Kernels
from model.linear import Linear, empty_matrix, empty_parameter, rounded, wide
from model.norm import RMSNorm
from model.packed import Packed
from model.situ import activation, caps

SUM_EPS = 1e-20
"""Keeps the renormalization of router weights finite."""


class KimiMLP(Quick):
    """`W_down act(W_gate x, W_up x)`, of the hidden width that `width` names."""

    def __init__(self, width: str, config: KimiConfig, kernels: Kernels = TORCH) -> None:
        super().__init__()
        self.width = width
        """Word of `model/dims.py` for this instance's `feature`."""
        hidden = size(width, config)
        self.activation = activation(config, kernels)
        self.gate_proj = Linear(config.hidden_size, hidden)
        self.up_proj = Linear(config.hidden_size, hidden)
        self.down_proj = Linear(hidden, config.hidden_size)
        self.gate_and_up = Packed((self.gate_proj, "weight"), (self.up_proj, "weight"))
        self.gate = Tap("batch pos feature")
        self.up = Tap("batch pos feature")
        self.activated = Tap("batch pos feature")
        self.out = Tap("batch pos d_model")

    def forward(self, x: Tensor) -> Tensor:
        gate, up = self.gate_and_up(x)
        gate, up = self.gate(gate), self.up(up)
        return self.out(self.down_proj(self.activated(self.activation(gate, up))))


class Chosen(NamedTuple):
    expert: Tensor
    """`[batch, pos, choice]`, in no particular order."""
    weight: Tensor


class KimiMoEGate(Quick):
    """Router: a bias decides who is chosen, and never how much a chosen expert weighs."""

    IN_KERNEL = ("scores", "scores_for_choice")
    """Taps that do not fire where a kernel chooses."""

    def __init__(self, config: KimiConfig, kernels: Kernels = TORCH) -> None:
        super().__init__()
        self.kernels = kernels
        self.top = config.num_experts_per_token
        self.groups, self.top_groups = config.num_expert_group, config.topk_group
        self.renormalize = config.moe_renormalize
        self.scale = config.routed_scaling_factor
        if config.moe_router_activation_func != "sigmoid":
            raise ValueError(
                f"The router scores by {config.moe_router_activation_func!r}; 'sigmoid' is built."
            )
        self.weight = empty_matrix(config.num_experts, config.hidden_size)
        self.e_score_correction_bias = empty_parameter(config.num_experts)
        self.logits = Tap("batch pos expert")
        self.scores = Tap("batch pos expert")
        self.scores_for_choice = Tap("batch pos expert")
        self.chosen = Tap("batch pos choice")
        self.chosen_weight = Tap("batch pos choice")

    def forward(self, x: Tensor) -> Chosen:
        logits = self.logits(wide(x) @ wide(self.weight).T)
        choose = self.kernels.choose or self.choose
        chosen, weight = choose(
            logits,
            self.e_score_correction_bias,
            top=self.top,
            groups=self.groups,
            top_groups=self.top_groups,
            renormalize=self.renormalize,
            scale=self.scale,
        )
        return Chosen(self.chosen(chosen), self.chosen_weight(weight))

    def choose(
        self,
        logits: Tensor,
        bias: Tensor,
        *,
        top: int,
        groups: int = 1,
        top_groups: int = 1,
        renormalize: bool = True,
        scale: float = 1.0,
    ) -> Chosen:
        """`top` of `[…, expert]` by `σ(logit) + bias`, and their weights by `σ(logit)` alone."""
        scores = self.scores(logits.sigmoid())
        for_choice = self.scores_for_choice(scores + wide(bias))
        if groups > 1:
            for_choice = best_groups_only(for_choice, groups, top_groups)
        chosen = for_choice.topk(top, dim=-1).indices
        weight = scores.gather(-1, chosen)
        if renormalize and top > 1:
            weight = weight / (weight.sum(-1, keepdim=True) + SUM_EPS)
        return Chosen(chosen, weight * scale)


def best_groups_only(scores: Tensor, groups: int, kept: int) -> Tensor:
    """A group counts by the sum of its two best experts; the others' experts are out.

    K2's file gives them zero instead, which is the same while no biased score is negative.
    """
    by_group = scores.unflatten(-1, (groups, -1))
    best = by_group.topk(2, dim=-1).values.sum(-1).topk(kept, dim=-1).indices
    out = torch.ones_like(by_group[..., 0], dtype=torch.bool).scatter(-1, best, False)
    return by_group.masked_fill(out[..., None], float("-inf")).flatten(-2)


class Experts(Quick):
    """Every routed expert's three matrices, stacked `[expert, out, in]`."""

    def __init__(self, config: KimiConfig, kernels: Kernels = TORCH) -> None:
        super().__init__()
        self.kernels, self.caps = kernels, caps(config)
        width, hidden = size("d_moe_latent", config), config.moe_intermediate_size
        self.activation = activation(config)
        self.w1 = empty_matrix(config.num_experts, hidden, width)
        self.w2 = empty_matrix(config.num_experts, width, hidden)
        self.w3 = empty_matrix(config.num_experts, hidden, width)
        self.w1_and_w3 = Packed((self, "w1"), (self, "w3"), stacked=True)

    def forward(self, z: Tensor, chosen: Tensor) -> tuple[Tensor, Tensor]:
        """Hidden values and outputs of `[token, choice]` experts on `[token, width]`."""
        if (in_kernel := self.kernels.through_experts) is not None:
            return in_kernel(z, chosen, self.w1, self.w2, self.w3, **self.caps)
        tokens, choices = chosen.shape
        flat = chosen.flatten()
        if tokens == 1:
            return self.one_by_one(z, flat.tolist())
        order = flat.argsort(stable=True)
        back = order.argsort()
        counts = torch.bincount(flat, minlength=len(self.w1)).tolist()
        hidden, out = self.on_sorted(z[order // choices], range(len(counts)), counts)
        return hidden[back].view(tokens, choices, -1), out[back].view(tokens, choices, -1)

    def one_by_one(self, z: Tensor, experts: Sequence[int]) -> tuple[Tensor, Tensor]:
        """As `forward`, for one token: expert by expert, without sorting."""
        rows = [z] * len(experts)
        gate, up = self.w1_and_w3.through(lambda w: each_row(rows, w, experts))
        hidden = self.activation(gate, up)
        return hidden[None], each_row(hidden.split(1), self.w2, experts)[None]

    def on_sorted(
        self, z: Tensor, experts: Sequence[int], counts: Sequence[int]
    ) -> tuple[Tensor, Tensor]:
        """Hidden values and outputs where the first `counts[0]` rows are for `experts[0]`, …"""
        gate, up = self.w1_and_w3.through(lambda w: by_expert(z, w, experts, counts))
        hidden = self.activation(gate, up)
        return hidden, by_expert(hidden, self.w2, experts, counts)


def each_row(rows: Sequence[Tensor], weights: Tensor, experts: Sequence[int]) -> Tensor:
    given = zip(rows, experts, strict=True)
    return torch.cat([F.linear(row, weights[j]) for row, j in given])


def by_expert(x: Tensor, weights: Tensor, experts: Sequence[int], counts: Sequence[int]) -> Tensor:
    parts = x.split(counts)
    return torch.cat(
        [part @ weights[j].T for j, part in zip(experts, parts, strict=True) if len(part)]
    )


class KimiSparseMoE(Quick):
    """Chosen experts on the latent, and shared experts on the full width, added."""

    def __init__(self, config: KimiConfig, kernels: Kernels = TORCH) -> None:
        super().__init__()
        self.gate = KimiMoEGate(config, kernels)
        self.experts = Experts(config, kernels)
        self.has_latent = config.routed_expert_hidden_size is not None
        if self.has_latent:
            width = size("d_moe_latent", config)
            self.routed_expert_down_proj = Linear(config.hidden_size, width)
            self.routed_expert_up_proj = Linear(width, config.hidden_size)
        self.has_norm = config.latent_moe_use_norm
        if self.has_norm:
            self.routed_expert_norm = RMSNorm("d_moe_latent", config, config.rms_norm_eps, kernels)
        self.shared_experts = KimiMLP("d_shared_expert", config, kernels)
        self.latent = Tap("batch pos d_moe_latent")
        self.expert_hidden = Tap("batch pos choice d_expert")
        self.expert_out = Tap("batch pos choice d_moe_latent")
        self.combined = Tap("batch pos d_moe_latent")
        self.routed = Tap("batch pos d_model")
        self.out = Tap("batch pos d_model")

    def forward(self, x: Tensor) -> Tensor:
        chosen, weight = self.gate(x)
        z = self.latent(self.routed_expert_down_proj(x)) if self.has_latent else x
        hidden, out = self.experts(z.flatten(0, 1), chosen.flatten(0, 1))
        self.expert_hidden(hidden.unflatten(0, x.shape[:2]))
        out = self.expert_out(out.unflatten(0, x.shape[:2]))
        combined = (weight[..., None] * wide(out)).sum(-2)
        routed = self.combined(rounded(combined, x))
        if self.has_norm:
            routed = self.routed_expert_norm(routed)
        if self.has_latent:
            routed = self.routed_expert_up_proj(routed)
        return self.out(self.routed(routed) + self.shared_experts(x))
