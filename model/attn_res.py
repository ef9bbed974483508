"""Attention residual: a sub-layer reads a softmax mix of earlier sums instead of the last one."""

import torch
from torch import Tensor, nn

from model.capture import Quick, Tap
from model.config import KimiConfig
from model.linear import Linear, empty_parameter, rounded, wide
from model.norm import unit_rms


class KeyScale(nn.Module):
    """Weight of the norm over the sources. It acts only through its product with the query."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.weight = empty_parameter(width)


class AttnResidual(Quick):
    """One read over depth: sealed blocks first, the running sum last."""

    def __init__(self, config: KimiConfig) -> None:
        super().__init__()
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
        sources = self.sources(torch.cat([bank, residual[..., None, :]], dim=-2))
        keys = self.keys(unit_rms(wide(sources), self.eps))
        query = self.query(wide(self.norm.weight) * wide(self.proj.weight[0]))
        scores = self.scores(keys @ query)
        weights = self.weights(torch.softmax(scores, dim=-1))
        # the raw sources are mixed: normalized ones only decide how much
        mixed = (weights[..., None] * wide(sources)).sum(-2)
        return self.mixed(rounded(mixed, sources))
