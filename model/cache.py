"""What a model keeps between calls, by kind of layer."""

from dataclasses import dataclass
from typing import ClassVar, Literal

import torch
from torch import Tensor

from model.config import KimiConfig

MLACache = Literal["expanded", "latent"]


class Kept:
    """The tensors of one layer."""

    kind: ClassVar[str]
    held: ClassVar[tuple[str, ...]]

    def tensors(self) -> dict[str, Tensor]:
        return {name: getattr(self, name) for name in self.held}

    def values(self) -> int:
        return sum(tensor.numel() for tensor in self.tensors().values())

    def bytes(self) -> int:
        return sum(tensor.nbytes for tensor in self.tensors().values())


@dataclass
class ExpandedKV(Kept):
    """Keys `[batch, head, src, d_qk]` and values `[batch, head, src, d_value]`, as upstream."""

    k: Tensor
    v: Tensor
    kind: ClassVar[str] = "mla expanded"
    held: ClassVar[tuple[str, ...]] = ("k", "v")

    def append(self, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
        self.k = torch.cat([self.k, k], dim=2)
        self.v = torch.cat([self.v, v], dim=2)
        return self.k, self.v


@dataclass
class LatentKV(Kept):
    """One normed latent `[batch, src, d_kv_latent]` and one shared key part for all heads."""

    latent: Tensor
    shared: Tensor
    kind: ClassVar[str] = "mla latent"
    held: ClassVar[tuple[str, ...]] = ("latent", "shared")

    def append(self, latent: Tensor, shared: Tensor) -> tuple[Tensor, Tensor]:
        self.latent = torch.cat([self.latent, latent], dim=1)
        self.shared = torch.cat([self.shared, shared], dim=1)
        return self.latent, self.shared


@dataclass
class KDAState(Kept):
    """The memory `[batch, head, value, key]` in float32, and three convolutions' last columns."""

    recurrent: Tensor
    conv_q: Tensor
    conv_k: Tensor
    conv_v: Tensor
    kind: ClassVar[str] = "kda"
    held: ClassVar[tuple[str, ...]] = ("recurrent", "conv_q", "conv_k", "conv_v")


class KimiCache:
    """One `Kept` a layer. A call of the model fills it; a cache serves one batch."""

    def __init__(
        self,
        config: KimiConfig,
        batch: int,
        mla: MLACache,
        device: torch.device,
        dtype: torch.dtype,
    ) -> None:
        if mla not in ("expanded", "latent"):
            raise ValueError(f"mla={mla!r}: an MLA layer keeps 'expanded' heads or a 'latent'.")
        self.batch = batch
        self.mla = mla
        self.positions = 0
        """Columns held; where sequences are padded, padding counts."""
        self.real: Tensor | None = None
        """`[batch, positions]`: columns that hold a token; `None` where all do."""
        kinds = {"kda": _kda_state, "mla": _expanded if mla == "expanded" else _latent}
        self.layers = [kinds[mixer](config, batch, device, dtype) for mixer in config.mixers]

    def values(self) -> int:
        return sum(layer.values() for layer in self.layers)

    def bytes(self) -> int:
        return sum(layer.bytes() for layer in self.layers)

    def values_by_kind(self) -> dict[str, int]:
        """Values held, by kind of layer and tensor, as in `kda recurrent`."""
        total: dict[str, int] = {}
        for layer in self.layers:
            for name, tensor in layer.tensors().items():
                key = f"{layer.kind} {name}"
                total[key] = total.get(key, 0) + tensor.numel()
        return total


def _kda_state(
    config: KimiConfig, batch: int, device: torch.device, dtype: torch.dtype
) -> KDAState:
    linear = config.linear_attn_config
    assert linear is not None
    heads, width = linear.num_heads, linear.head_dim
    columns = (batch, heads * width, linear.short_conv_kernel_size)
    wide = torch.float64 if dtype == torch.float64 else torch.float32
    return KDAState(
        torch.zeros(batch, heads, width, width, device=device, dtype=wide),
        *(torch.zeros(columns, device=device, dtype=dtype) for _ in range(3)),
    )


def _expanded(
    config: KimiConfig, batch: int, device: torch.device, dtype: torch.dtype
) -> ExpandedKV:
    heads = config.num_attention_heads
    return ExpandedKV(
        torch.empty(batch, heads, 0, config.qk_head_dim, device=device, dtype=dtype),
        torch.empty(batch, heads, 0, config.v_head_dim, device=device, dtype=dtype),
    )


def _latent(config: KimiConfig, batch: int, device: torch.device, dtype: torch.dtype) -> LatentKV:
    return LatentKV(
        torch.empty(batch, 0, config.kv_lora_rank, device=device, dtype=dtype),
        torch.empty(batch, 0, config.qk_rope_head_dim, device=device, dtype=dtype),
    )
