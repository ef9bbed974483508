"""Root-mean-square norms: the plain one, and the gated one at the end of a KDA mixer."""

import torch
from torch import Tensor

from model.capture import Quick, Tap
from model.config import KimiConfig
from model.dims import size
from model.kernel_choice import TORCH, Kernels
from model.linear import empty_parameter, rounded, wide

LATENT_NORM_EPS = 1e-6
"""The norms of the query and key-value latents are built without the configuration's epsilon."""


def unit_rms(x: Tensor, eps: float) -> Tensor:
    """Scale the last axis so that its mean square is one."""
    return x * torch.rsqrt(x.square().mean(-1, keepdim=True) + eps)


def rms_norm(x: Tensor, weight: Tensor, eps: float) -> Tensor:
    """`weight` times `x` of `[…, D]` at a mean square of one over the last axis."""
    # back in the input's dtype before the weight, as upstream rounds
    return weight * rounded(unit_rms(wide(x), eps), x)


def gated_rms_norm(read: Tensor, gate: Tensor, weight: Tensor, eps: float) -> Tensor:
    """`weight` times `read` of `[…, H, V]` at a mean square of one a head, times `σ(gate)`."""
    normed = wide(weight) * unit_rms(wide(read), eps)
    return rounded(normed * wide(gate).sigmoid(), read)


class RMSNorm(Quick):
    def __init__(
        self, width: str, config: KimiConfig, eps: float, kernels: Kernels = TORCH
    ) -> None:
        super().__init__()
        self.width = width
        """Word of `model/dims.py` for this instance's `feature`."""
        self.eps = eps
        self.weight = empty_parameter(size(width, config))
        self.kernels = kernels
        self.raw = Tap("batch pos feature")
        self.normed = Tap("batch pos feature")

    def forward(self, x: Tensor) -> Tensor:
        norm = self.kernels.rms_norm or rms_norm
        return self.normed(norm(self.raw(x), self.weight, self.eps))


class GatedRMSNorm(Quick):
    """Norm of each head's read, one weight for all heads, times a sigmoid gate."""

    def __init__(self, width: int, eps: float, kernels: Kernels = TORCH) -> None:
        super().__init__()
        self.eps = eps
        self.weight = empty_parameter(width)
        self.kernels = kernels
        self.gated = Tap("batch pos head d_value")

    def forward(self, read: Tensor, gate: Tensor) -> Tensor:
        norm = self.kernels.gated_rms_norm or gated_rms_norm
        return self.gated(norm(read, gate, self.weight, self.eps))
