"""The whole decoder: tokens in, logits out."""

from typing import Any, Literal

import torch
from torch import Tensor, nn

from model.attn_res import AttnResidual
from model.block import KimiDecoderLayer
from model.cache import KimiCache, MLACache
from model.capture import Tap
from model.config import KimiConfig
from model.fingerprint import weights_hash
from model.kda import Recurrence
from model.kernel_choice import IN_TORCH, IN_TRITON, TORCH, Kernels
from model.linear import Linear, empty_parameter, wide
from model.norm import RMSNorm
from model.rows import Rows


class Embedding(nn.Module):
    def __init__(self, vocab: int, width: int) -> None:
        super().__init__()
        self.weight = empty_parameter(vocab, width)

    def forward(self, token_ids: Tensor) -> Tensor:
        return self.weight[token_ids]


class KimiLM(nn.Module):
    """K3, K2 or Kimi-Linear, as the configuration says. Parameters are born without storage."""

    def __init__(
        self,
        config: KimiConfig,
        recurrence: Recurrence | None = None,
        kernels: Kernels = TORCH,
    ) -> None:
        super().__init__()
        self.config = config
        self.source = "a configuration"
        self.weights_note = ""
        """What a reader must know about the weights, as that they are random."""
        self.kernels = kernels.path
        self.kernel_path = IN_TORCH if self.kernels == "torch" else IN_TRITON
        """How values are computed, in words that begin with that of `kernels`."""
        self.tokenizer: Any = None
        self.embed_tokens = Embedding(config.vocab_size, config.hidden_size)
        self.layers = nn.ModuleList(
            KimiDecoderLayer(config, i, recurrence, kernels)
            for i in range(config.num_hidden_layers)
        )
        if config.attn_res_block_size is not None:
            self.output_attn_res = AttnResidual(config, kernels)
        self.norm = RMSNorm("d_model", config, config.rms_norm_eps, kernels)
        self.lm_head = Linear(config.hidden_size, config.vocab_size)
        self.embedding = Tap("batch pos d_model")
        self.logits = Tap("batch pos vocab")
        for module in self.modules():
            # found at once as plain attributes, where torch would search a table for each
            vars(module).update(module._modules)

    def forward(
        self,
        token_ids: Tensor,
        cache: KimiCache | None = None,
        lengths: Tensor | None = None,
        logits: Literal["all", "last"] = "all",
    ) -> Tensor:
        """Logits `[batch, pos, vocab]`, float32 or wider, of right-padded `token_ids`.

        `lengths` are the true lengths of this call's rows; logits of padded rows mean nothing.
        `"last"` gives the last true position of each sequence alone, `[batch, 1, vocab]`.
        """
        if logits not in ("all", "last"):
            raise ValueError(f"logits={logits!r}: a call gives 'all' positions or the 'last'.")
        rows = self.rows(token_ids, cache, lengths)
        residual = self.embedding(self.embed_tokens(token_ids))
        bank = None
        for i, layer in enumerate(self.layers):
            kept = None if cache is None else cache.layers[i]
            residual, bank = layer(residual, bank, kept, rows)
        if cache is not None:
            cache.positions += rows.pos
            cache.real = rows.real_after

        if logits == "last":
            residual = last_real(residual, rows)
            bank = None if bank is None else last_real(bank, rows)
        h = residual if bank is None else self.output_attn_res(residual, bank)
        return self.logits(wide(self.lm_head(self.norm(h))))

    def new_cache(self, batch: int = 1, mla: MLACache = "expanded") -> KimiCache:
        """An empty cache; `mla="latent"` keeps one latent a position and decodes absorbed."""
        weight = self.embed_tokens.weight
        return KimiCache(self.config, batch, mla, weight.device, weight.dtype)

    def rows(self, token_ids: Tensor, cache: KimiCache | None, lengths: Tensor | None) -> Rows:
        if token_ids.ndim != 2 or token_ids.numel() == 0:
            raise ValueError(
                f"token_ids must be [batch, pos], each >= 1, and came as {[*token_ids.shape]}."
            )
        batch, pos = token_ids.shape
        if not token_ids.is_meta:
            self.refuse_unknown(token_ids)
        if cache is not None and cache.batch != batch:
            raise ValueError(f"The cache was made for a batch of {cache.batch}, not of {batch}.")
        if lengths is not None:
            lengths = torch.as_tensor(lengths, device=token_ids.device)
            if lengths.shape != (batch,) or int(lengths.min()) < 1 or int(lengths.max()) > pos:
                raise ValueError(
                    f"lengths must hold {batch} values from 1 to {pos}, and are {lengths.tolist()}."
                )
            lengths = None if bool((lengths == pos).all()) else lengths
        past = 0 if cache is None else cache.positions
        real = None if cache is None else cache.real
        return Rows(batch, pos, past, token_ids.device, lengths, real)

    def refuse_unknown(self, token_ids: Tensor) -> None:
        low, high = (int(end) for end in token_ids.aminmax())
        if low < 0 or high >= self.config.vocab_size:
            raise ValueError(
                f"token_ids run from {low} to {high}; this model's tokens are 0 to "
                f"{self.config.vocab_size - 1}."
            )

    @property
    def weights_hash(self) -> str:
        """Hash of every parameter's name, dtype, shape and bytes."""
        return weights_hash(self)


def last_real(x: Tensor, rows: Rows) -> Tensor:
    """`[batch, 1, …]`: the last row of each sequence that holds a token."""
    if rows.lengths is None:
        return x[:, -1:]
    return x[torch.arange(rows.batch, device=x.device), rows.lengths - 1][:, None]
