"""The two gated activations: SiTU of K3, and SwiGLU of K2 and Kimi-Linear."""

from collections.abc import Callable
from functools import partial

import torch
import torch.nn.functional as F
from torch import Tensor

from model.config import KimiConfig
from model.kernel_choice import TORCH, Kernels
from model.linear import rounded, wide

Activation = Callable[[Tensor, Tensor], Tensor]


def situ(gate: Tensor, up: Tensor, beta: float, linear_beta: float | None) -> Tensor:
    """`[β₁ tanh(g/β₁) σ(g)] · [β₂ tanh(u/β₂)]`: SwiGLU with both factors bounded."""
    g, u = wide(gate), wide(up)
    # the sigmoid reads the gate before the cap
    capped_gate = beta * torch.tanh(g / beta) * torch.sigmoid(g)
    capped_up = u if linear_beta is None else linear_beta * torch.tanh(u / linear_beta)
    return rounded(capped_gate * capped_up, gate)


def swiglu(gate: Tensor, up: Tensor) -> Tensor:
    return F.silu(gate) * up


def activation(config: KimiConfig, kernels: Kernels = TORCH) -> Activation:
    if config.hidden_act == "silu":
        return kernels.swiglu or swiglu
    return partial(kernels.situ or situ, **caps(config))


def caps(config: KimiConfig) -> dict[str, float | None]:
    """`beta` and `linear_beta` of SiTU; both `None` for SwiGLU."""
    if config.hidden_act == "silu":
        return {"beta": None, "linear_beta": None}
    beta = 1.0 if config.activation_situ_beta is None else config.activation_situ_beta
    return {"beta": beta, "linear_beta": config.activation_situ_linear_beta}
