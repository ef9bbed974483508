"""Attention residual: a sub-layer reads a softmax mix of earlier sums instead of the last one."""

import torch
from torch import Tensor, nn

from model.capture import Quick, Tap
from model.config import KimiConfig
from model.kernel_choice import TORCH, Kernels
from model.linear import Linear, empty_parameter, rounded, wide
from model.norm import unit_rms


class KeyScale(nn.Module):
    """Weight of the norm over the sources. It acts only through its product with the query."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.weight = empty_parameter(width)


class AttnResidual(Quick):
    """One read over depth: sealed blocks first, the running sum last."""

    IN_KERNEL = ("sources", "keys", "query", "scores", "weights")
    """Taps that do not fire where a kernel reads the sources."""

    def __init__(self, config: KimiConfig, kernels: Kernels = TORCH) -> None:
        super().__init__()
        self.kernels = kernels
        self.eps = config.rms_norm_eps
        self.norm = KeyScale(config.hidden_size)
        self.proj = Linear(config.hidden_size, 1)
        self.sources = Tap("batch pos source d_model")
        self.keys = Tap("batch pos source d_model")
        self.query = Tap("d_model")
        self.scores = Tap("batch pos source")
        self.weights = Tap("batch pos source")
        self.mixed = Tap("batch pos d_model")

    def forward(self, residual: Tensor, bank: Tensor) -> Tensor:
        read = self.kernels.read_sources or self.read_sources
        mixed = read(residual, bank, self.norm.weight, self.proj.weight[0], self.eps)
        return self.mixed(mixed)

    def read_sources(
        self,
        residual: Tensor,
        bank: Tensor,
        norm_weight: Tensor,
        proj_weight: Tensor,
        eps: float,
    ) -> Tensor:
        """Softmax mix of `bank`, `[…, source, D]`, and the running sum `residual`, `[…, D]`."""
        sources = self.sources(torch.cat([bank, residual[..., None, :]], dim=-2))
        keys = self.keys(unit_rms(wide(sources), eps))
        query = self.query(wide(norm_weight) * wide(proj_weight))
        scores = self.scores(keys @ query)
        weights = self.weights(torch.softmax(scores, dim=-1))
        # the raw sources are mixed: normalized ones only decide how much
        mixed = (weights[..., None] * wide(sources)).sum(-2)
        return rounded(mixed, sources)
