"""The model's own functions in float64, on the tensors that a launcher takes."""

from dataclasses import replace

import torch
from torch import Tensor, nn

from model.attn_res import AttnResidual
from model.mla import KimiMLAAttention
from model.moe import Experts, KimiMoEGate
from model.presets import tiny_k2, tiny_k3
from model.rows import visible_keys


def drawn(*shape: int, seed: int = 0) -> Tensor:
    """Normal values, float32."""
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


def wide(x: Tensor) -> Tensor:
    return x.detach().cpu().double()


def frozen(x: Tensor) -> nn.Parameter:
    return nn.Parameter(wide(x), requires_grad=False)


def mix_of_sources(
    residual: Tensor, bank: Tensor, norm: Tensor, proj: Tensor, eps: float
) -> Tensor:
    layer = AttnResidual(tiny_k3())
    return layer.read_sources(wide(residual), wide(bank), wide(norm), wide(proj), eps)


def chosen_by(
    logits: Tensor,
    bias: Tensor,
    *,
    top: int,
    groups: int = 1,
    top_groups: int = 1,
    renormalize: bool = True,
    scale: float = 1.0,
) -> tuple[Tensor, Tensor]:
    """Experts in ascending order and their weights, `[…, choice]`."""
    chosen = KimiMoEGate(tiny_k3()).choose(
        wide(logits),
        wide(bias),
        top=top,
        groups=groups,
        top_groups=top_groups,
        renormalize=renormalize,
        scale=scale,
    )
    return by_index(*chosen)


def by_index(expert: Tensor, weight: Tensor) -> tuple[Tensor, Tensor]:
    order = expert.argsort(-1)
    return expert.gather(-1, order).cpu(), weight.gather(-1, order).cpu()


def of_experts(
    z: Tensor,
    chosen: Tensor,
    w1: Tensor,
    w2: Tensor,
    w3: Tensor,
    beta: float | None,
    linear_beta: float | None,
) -> tuple[Tensor, Tensor]:
    E, F, Z = w1.shape
    acts = {"hidden_act": "silu"} if beta is None else {"hidden_act": "situ"}
    config = replace(
        tiny_k3(),
        num_experts=E,
        moe_intermediate_size=F,
        routed_expert_hidden_size=Z,
        activation_situ_beta=beta,
        activation_situ_linear_beta=linear_beta,
        **acts,
    )
    experts = Experts(config)
    experts.w1, experts.w2, experts.w3 = frozen(w1), frozen(w2), frozen(w3)
    return experts(wide(z), chosen.cpu())


def attention(
    q: Tensor, k: Tensor, v: Tensor, scale: float, real: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    """The model's read, and the log-sum-exp of the scores it looks at.

    A query that sees no key reads zero here, where a softmax of nothing is not a number.
    """
    _, H, T, _ = q.shape
    P = k.shape[2]
    layer = KimiMLAAttention(replace(tiny_k2(), num_attention_heads=H))
    q, k, v = wide(q), wide(k), wide(v)
    real = None if real is None else real.cpu()
    read = layer.attend(q, k, v, scale, real)
    scores = q @ k.mT * scale
    if (visible := visible_keys(T, P, real, q.device)) is not None:
        scores = scores.masked_fill(~visible, float("-inf"))
    lse = scores.logsumexp(-1)
    return read.masked_fill(lse.isneginf()[..., None], 0.0), lse
