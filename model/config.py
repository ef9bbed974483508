"""What an upstream `config.json` says about a model, once and checked."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, Self

from model.config_faults import (
    CHECKED,
    REQUIRED,
    refuse_contradictions,
    refuse_what_cannot_be_built,
)
from model.spelling import config_in_house_words

Mixer = Literal["kda", "mla"]
FeedForward = Literal["dense", "moe"]

SILENT_KEYS = frozenset(
    {
        "_name_or_path",
        "architectures",
        "attention_dropout",
        "auto_map",
        "aux_loss_alpha",
        "bad_words_ids",
        "dtype",
        "ep_size",
        "head_dim",
        "initializer_range",
        "model_type",
        "num_nextn_predict_layers",
        "pretraining_tp",
        "quantization_config",
        "seq_aux",
        "topk_method",
        "torch_dtype",
        "transformers_version",
        "use_cache",
        "use_grouped_topk",
    }
)
"""Keys of released files that change nothing about the forward pass we build."""


@dataclass(frozen=True, kw_only=True, slots=True)
class LinearAttnConfig:
    """The part of the configuration that Kimi Delta Attention reads."""

    num_heads: int
    head_dim: int
    short_conv_kernel_size: int
    use_full_rank_gate: bool
    """The *output* gate is one matrix; the decay gate is low rank in every model."""
    gate_lower_bound: float | None
    """Least log-decay of one step; `None` means the unbounded softplus gate."""


@dataclass(frozen=True, kw_only=True, slots=True)
class KimiConfig:
    """One model; field names are those of K3's `config.json`, `text_config`."""

    vocab_size: int
    hidden_size: int
    num_hidden_layers: int
    num_attention_heads: int
    q_lora_rank: int | None
    kv_lora_rank: int
    qk_nope_head_dim: int
    qk_rope_head_dim: int
    v_head_dim: int
    mla_use_nope: bool
    mla_use_output_gate: bool
    linear_attn_config: LinearAttnConfig | None
    attn_res_block_size: int | None
    intermediate_size: int
    first_k_dense_replace: int
    moe_layer_freq: int
    num_experts: int
    num_experts_per_token: int
    num_shared_experts: int
    moe_intermediate_size: int
    routed_expert_hidden_size: int | None
    latent_moe_use_norm: bool
    moe_router_activation_func: str
    num_expert_group: int
    topk_group: int
    moe_renormalize: bool
    routed_scaling_factor: float
    hidden_act: str
    activation_situ_beta: float | None
    activation_situ_linear_beta: float | None
    rms_norm_eps: float
    max_position_embeddings: int
    rope_theta: float | None
    rope_scaling: Mapping[str, Any] | None = field(hash=False)
    tie_word_embeddings: bool
    bos_token_id: int | None
    eos_token_id: int | None
    pad_token_id: int | None
    mixers: tuple[Mixer, ...]
    """One a layer, 0-based; upstream lists layers from 1."""
    feed_forwards: tuple[FeedForward, ...]
    unknown: tuple[str, ...] = field(default=(), compare=False)
    """Keys of the file that no code here reads."""

    @classmethod
    def from_hf(cls, json: Mapping[str, Any]) -> Self:
        """Read an upstream file: its `text_config` where it has one, K2's spelling or K3's.

        Raises ValueError that lists everything in it that cannot be built.
        """
        text = json.get("text_config") or json
        if not isinstance(text, Mapping):
            raise ValueError(f"text_config is {text!r}, and must be a table as the file itself.")
        text = config_in_house_words(text)
        values: dict[str, Any] = {
            name: text[name] if name in text else DEFAULTS.get(name) for name in _FIELDS
        }
        if isinstance(ends := values["eos_token_id"], list) and ends:
            # any of them ends a text; the first is the one that training put there
            values["eos_token_id"] = ends[0]
        if missing := [name for name in _FIELDS if name not in text and name not in DEFAULTS]:
            raise ValueError(f"The configuration lacks {missing}; a released config.json has them.")
        refuse_what_cannot_be_built(text, values)
        linear = values["linear_attn_config"]
        values["linear_attn_config"] = _linear_attn_config(linear)
        values["mixers"] = _mixers(values["num_hidden_layers"], linear)
        values["feed_forwards"] = tuple(
            "moe"
            if i >= values["first_k_dense_replace"] and i % values["moe_layer_freq"] == 0
            else "dense"
            for i in range(values["num_hidden_layers"])
        )
        refuse_contradictions(text, values["mixers"], values["feed_forwards"])
        read = {*_FIELDS, *SILENT_KEYS, *CHECKED, *REQUIRED, "num_key_value_heads"}
        unknown = tuple(sorted(key for key in text if key not in read))
        return cls(**values, unknown=unknown)

    def to_hf(self) -> dict[str, Any]:
        """The same configuration as an upstream file would hold it, in K3's words."""
        json = {name: getattr(self, name) for name in _FIELDS}
        json["num_key_value_heads"] = self.num_attention_heads
        json["model_type"] = "kimi_linear"
        if (linear := self.linear_attn_config) is not None:
            layers = range(self.num_hidden_layers)
            table = {name: getattr(linear, name) for name in LinearAttnConfig.__slots__}
            table["kda_layers"] = [i + 1 for i in layers if self.is_kda(i)]
            table["full_attn_layers"] = [i + 1 for i in layers if not self.is_kda(i)]
            json["linear_attn_config"] = {k: v for k, v in table.items() if v is not None}
        return {key: value for key, value in json.items() if value is not None}

    def is_kda(self, layer: int) -> bool:
        return self.mixers[layer] == "kda"

    @property
    def qk_head_dim(self) -> int:
        """Width of an MLA query or key head: the content part and the shared part."""
        return self.qk_nope_head_dim + self.qk_rope_head_dim

    def seals(self, layer: int) -> bool:
        """Whether the running sum is put into the bank of attention residuals at this layer."""
        return self.attn_res_block_size is not None and layer % self.attn_res_block_size == 0

    def bank_size(self, layer: int) -> int:
        """Sealed blocks after this layer's seal; 0 where residuals are plain."""
        block = self.attn_res_block_size
        return 0 if block is None else layer // block + 1


DEFAULTS: dict[str, Any] = {
    "q_lora_rank": None,
    "mla_use_nope": False,
    "mla_use_output_gate": False,
    "linear_attn_config": None,
    "attn_res_block_size": None,
    "first_k_dense_replace": 0,
    "moe_layer_freq": 1,
    "routed_expert_hidden_size": None,
    "latent_moe_use_norm": False,
    "moe_router_activation_func": "sigmoid",
    "num_expert_group": 1,
    "topk_group": 1,
    "moe_renormalize": True,
    "activation_situ_beta": None,
    "activation_situ_linear_beta": None,
    "rope_theta": None,
    "rope_scaling": None,
    "tie_word_embeddings": False,
    "bos_token_id": None,
    "eos_token_id": None,
    "pad_token_id": None,
}
"""What a file means by leaving a key out."""

_FIELDS = tuple(
    name for name in KimiConfig.__slots__ if name not in ("mixers", "feed_forwards", "unknown")
)


def _linear_attn_config(table: Mapping[str, Any] | None) -> LinearAttnConfig | None:
    if table is None:
        return None
    return LinearAttnConfig(
        num_heads=table["num_heads"],
        head_dim=table["head_dim"],
        short_conv_kernel_size=table["short_conv_kernel_size"],
        use_full_rank_gate=table.get("use_full_rank_gate", False),
        gate_lower_bound=table.get("gate_lower_bound"),
    )


def _mixers(num_layers: int, table: Mapping[str, Any] | None) -> tuple[Mixer, ...]:
    """Layer kinds from the 1-based lists of the file, of which either gives the other."""
    if table is None:
        return ("mla",) * num_layers
    if "kda_layers" in table:
        kda = set(table["kda_layers"])
    else:
        kda = set(range(1, num_layers + 1)) - set(table["full_attn_layers"])
    return tuple("kda" if i + 1 in kda else "mla" for i in range(num_layers))
