"""Random weights under which every part of the model does something to look at."""

import math

import torch
from torch import Tensor, nn

from model.config import KimiConfig
from model.packed import lay_out

ROUTER_BIAS = 0.05
RESIDUAL_SCORE = 0.5
"""Spread of the scores of a residual mix: near uniform, and not equal."""

FLOAT32 = ("A_log", "dt_bias", "e_score_correction_bias", "conv1d.weight", "o_norm.weight")
"""Endings of the parameters that the checkpoint keeps in float32 beside bfloat16 matrices."""


def give_storage(model: nn.Module, device: str, dtype: torch.dtype) -> None:
    """Give meta parameters memory with nothing in it, in the dtypes a checkpoint has."""
    for module in model.modules():
        for name, parameter in module.named_parameters(recurse=False):
            setattr(module, name, nn.Parameter(parameter.to(dtype), requires_grad=False))
    for name, parameter in model.named_parameters():
        if name.endswith(FLOAT32) and dtype.itemsize < 4:
            parameter.data = parameter.data.float()
    if device != "meta":
        lay_out(model, device)


def fill(model: nn.Module, config: KimiConfig, seed: int) -> None:
    """Draw every parameter on the CPU in float32, so that a seed means the same everywhere."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            parameter.copy_(drawn(name, parameter, config, generator))


def drawn(name: str, parameter: Tensor, config: KimiConfig, generator: torch.Generator) -> Tensor:
    def normal(deviation: float) -> Tensor:
        return torch.randn(parameter.shape, generator=generator) * deviation

    def uniform(low: float, high: float) -> Tensor:
        return low + torch.rand(parameter.shape, generator=generator) * (high - low)

    if name.endswith("A_log"):
        linear = config.linear_attn_config
        bounded = linear is not None and linear.gate_lower_bound is not None
        return torch.zeros(parameter.shape) if bounded else uniform(1, 16).log()
    if name.endswith("dt_bias"):
        # the softplus of the bias is a step size between a thousandth and a tenth
        step = uniform(math.log(1e-3), math.log(1e-1)).exp()
        return step + torch.log(-torch.expm1(-step))
    if name.endswith("e_score_correction_bias"):
        return normal(ROUTER_BIAS)
    if name.endswith("_res.proj.weight"):
        return normal(RESIDUAL_SCORE * parameter.shape[-1] ** -0.5)
    if name.endswith("embed_tokens.weight"):
        return normal(1.0)
    if parameter.ndim == 1:
        return torch.ones(parameter.shape)
    return normal(parameter.shape[-1] ** -0.5)
