"""One decoder layer: a mixer and a feed-forward, each reading what the residual rule gives it."""

import torch
from torch import Tensor

from model.attn_res import AttnResidual
from model.cache import Kept
from model.capture import Quick, Tap
from model.config import KimiConfig
from model.kda import KimiDeltaAttention, Recurrence
from model.kernel_choice import TORCH, Kernels
from model.mla import KimiMLAAttention
from model.moe import KimiMLP, KimiSparseMoE
from model.norm import RMSNorm
from model.rows import Rows


class KimiDecoderLayer(Quick):
    def __init__(
        self,
        config: KimiConfig,
        layer: int,
        recurrence: Recurrence | None,
        kernels: Kernels = TORCH,
    ) -> None:
        super().__init__()
        self.layer = layer
        self.mixes_depth = config.attn_res_block_size is not None
        self.seals = config.seals(layer)
        if config.is_kda(layer):
            self.self_attn = KimiDeltaAttention(config, recurrence, kernels)
        else:
            self.self_attn = KimiMLAAttention(config, kernels)
        self.sparse = config.feed_forwards[layer] == "moe"
        if self.sparse:
            self.block_sparse_moe = KimiSparseMoE(config, kernels)
        else:
            self.mlp = KimiMLP("d_dense", config, kernels)
        self.input_layernorm = RMSNorm("d_model", config, config.rms_norm_eps, kernels)
        self.post_attention_layernorm = RMSNorm("d_model", config, config.rms_norm_eps, kernels)
        if self.mixes_depth:
            self.self_attention_res = AttnResidual(config, kernels)
            self.mlp_res = AttnResidual(config, kernels)
        self.residual_in = Tap("batch pos d_model")
        self.bank = Tap("batch pos source d_model")
        self.residual_mid = Tap("batch pos d_model")
        self.residual_out = Tap("batch pos d_model")

    def forward(
        self, residual: Tensor, bank: Tensor | None, kept: Kept | None, rows: Rows
    ) -> tuple[Tensor, Tensor | None]:
        """The running sum, and the bank of sealed sums; `None` where residuals are plain."""
        residual = self.residual_in(residual)
        if not self.mixes_depth:
            return self.plain(residual, kept, rows), None

        # layer 0 has nothing to read: the bank is empty until its seal
        h = residual if bank is None else self.self_attention_res(residual, bank)
        if self.seals:
            sealed = residual[..., None, :]
            bank = sealed if bank is None else torch.cat([bank, sealed], dim=-2)
        assert bank is not None
        bank = self.bank(bank)
        a = self.self_attn(self.input_layernorm(h), kept, rows)
        residual = self.residual_mid(a if self.seals else residual + a)

        h = self.mlp_res(residual, bank)
        m = self.feed_forward(self.post_attention_layernorm(h))
        return self.residual_out(residual + m), bank

    def plain(self, residual: Tensor, kept: Kept | None, rows: Rows) -> Tensor:
        a = self.self_attn(self.input_layernorm(residual), kept, rows)
        residual = self.residual_mid(residual + a)
        m = self.feed_forward(self.post_attention_layernorm(residual))
        return self.residual_out(residual + m)

    def feed_forward(self, x: Tensor) -> Tensor:
        return self.block_sparse_moe(x) if self.sparse else self.mlp(x)
