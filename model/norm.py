"""Root-mean-square norms: the plain one, and the gated one at the end of a KDA mixer."""

import torch
from torch import Tensor

from model.capture import Quick, Tap
from model.config import KimiConfig
from model.dims import size
from model.linear import empty_parameter, rounded, wide

LATENT_NORM_EPS = 1e-6
"""The norms of the query and key-value latents are built without the configuration's epsilon."""


def unit_rms(x: Tensor, eps: float) -> Tensor:
    """Scale the last axis so that its mean square is one."""
    return x * torch.rsqrt(x.square().mean(-1, keepdim=True) + eps)


class RMSNorm(Quick):
    def __init__(self, width: str, config: KimiConfig, eps: float) -> None:
        super().__init__()
        self.width = width
        """Word of `model/dims.py` for this instance's `feature`."""
        self.eps = eps
        self.weight = empty_parameter(size(width, config))
        self.raw = Tap("batch pos feature")
        self.normed = Tap("batch pos feature")

    def forward(self, x: Tensor) -> Tensor:
        x = self.raw(x)
        # back in the input's dtype before the weight, as upstream rounds
        return self.normed(self.weight * rounded(unit_rms(wide(x), self.eps), x))


class GatedRMSNorm(Quick):
    """Norm of each head's read, one weight for all heads, times a sigmoid gate."""

    def __init__(self, width: int, eps: float) -> None:
        super().__init__()
        self.eps = eps
        self.weight = empty_parameter(width)
        self.gated = Tap("batch pos head d_value")

    def forward(self, read: Tensor, gate: Tensor) -> Tensor:
        normed = wide(self.weight) * unit_rms(wide(read), self.eps)
        return self.gated(rounded(normed * wide(gate).sigmoid(), read))
