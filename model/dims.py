"""The one table of axis names: a word, its letter in equations, and where its size comes from."""

from collections.abc import Mapping
from dataclasses import dataclass

from model.config import KimiConfig


@dataclass(frozen=True, slots=True)
class Dim:
    """One axis of a tensor."""

    word: str
    letter: str
    meaning: str
    field: str | None
    """The configuration field, or the sum or product of fields, that sets the size."""


_ROWS = (
    Dim("batch", "B", "sequences in one call", None),
    Dim("pos", "T", "positions of this call, the queries", None),
    Dim("src", "P", "positions in the cache after this call, the keys", None),
    Dim("source", "S", "sources of a residual mix", None),
    Dim("border", "M", "states kept at segment borders", None),
    Dim("d_model", "D", "width of the residual stream", "hidden_size"),
    Dim("head", "H", "heads", "num_attention_heads"),
    Dim("d_key", "K", "key channels of a KDA head", "linear_attn_config.head_dim"),
    Dim("d_value", "V", "value channels of a head", "v_head_dim"),
    Dim("d_inner", "I", "all KDA heads side by side", "linear heads × head_dim"),
    Dim("d_gate_latent", "G", "rank of the decay gate", "linear_attn_config.head_dim"),
    Dim("d_nope", "N", "content part of a query or key head", "qk_nope_head_dim"),
    Dim("d_shared", "R", "key part that all heads share", "qk_rope_head_dim"),
    Dim("pair", "Ω", "pairs of features that turn together", "qk_rope_head_dim / 2"),
    Dim("d_qk", "X", "query or key head of MLA", "qk_nope_head_dim + qk_rope_head_dim"),
    Dim("d_q_latent", "Q", "query latent", "q_lora_rank"),
    Dim("d_kv_latent", "C", "latent of keys and values", "kv_lora_rank"),
    Dim("d_kv_joint", "J", "latent and shared key part together", "kv_lora_rank + shared"),
    Dim("d_kv_up", "U", "a head's content key and value together", "qk_nope_head_dim + v_head_dim"),
    Dim("d_dense", "L", "hidden width of a dense feed-forward", "intermediate_size"),
    Dim("expert", "E", "routed experts", "num_experts"),
    Dim("choice", "A", "experts chosen for a token", "num_experts_per_token"),
    Dim("d_expert", "F", "hidden width of a routed expert", "moe_intermediate_size"),
    Dim("d_shared_expert", "O", "hidden width of the shared experts", "moe_intermediate × shared"),
    Dim("d_moe_latent", "Z", "width that routed experts work on", "routed_expert_hidden_size"),
    Dim("vocab", "Y", "tokens of the vocabulary", "vocab_size"),
    Dim("lag", "W", "columns that a short convolution keeps", "short_conv_kernel_size"),
    Dim("feature", "", "the width that an instance declares", None),
)

DIMS: Mapping[str, Dim] = {dim.word: dim for dim in _ROWS}

KDA_OWNERS = frozenset({"KimiDeltaAttention", "ShortConvolution", "GatedRMSNorm", "KDAState"})
"""Classes in which `head` and `d_value` mean those of Kimi Delta Attention."""


def size(
    word: str,
    config: KimiConfig,
    *,
    batch: int = 1,
    pos: int = 1,
    src: int = 1,
    source: int = 1,
    border: int = 1,
    owner: str | None = None,
    width: str | None = None,
) -> int:
    """Size of an axis in this model.

    `owner` is the class that holds the tap: heads of KDA and of MLA differ. `width` is the word
    that an instance of RMSNorm or of KimiMLP declares for its `feature`.
    """
    if word == "feature":
        if width is None:
            raise ValueError("The size of 'feature' needs width=, the word its instance declares.")
        word = width
    call = {"batch": batch, "pos": pos, "src": src, "source": source, "border": border}
    if word in call:
        return call[word]
    if owner in KDA_OWNERS and word in ("head", "d_value"):
        word = "kda_head" if word == "head" else "d_key"
    sizes = {**_plain_sizes(config), **_kda_sizes(config)}
    if word not in sizes:
        raise LookupError(f"No axis is called {word!r}; model/dims.py lists {sorted(DIMS)}.")
    if (found := sizes[word]) is None:
        raise ValueError(f"This model has no axis {word!r}: its configuration leaves it out.")
    return found


def _plain_sizes(config: KimiConfig) -> dict[str, int | None]:
    return {
        "d_model": config.hidden_size,
        "head": config.num_attention_heads,
        "d_value": config.v_head_dim,
        "d_nope": config.qk_nope_head_dim,
        "d_shared": config.qk_rope_head_dim,
        "pair": config.qk_rope_head_dim // 2,
        "d_qk": config.qk_head_dim,
        "d_q_latent": config.q_lora_rank,
        "d_kv_latent": config.kv_lora_rank,
        "d_kv_joint": config.kv_lora_rank + config.qk_rope_head_dim,
        "d_kv_up": config.qk_nope_head_dim + config.v_head_dim,
        "d_dense": config.intermediate_size,
        "expert": config.num_experts,
        "choice": config.num_experts_per_token,
        "d_expert": config.moe_intermediate_size,
        "d_shared_expert": config.moe_intermediate_size * config.num_shared_experts,
        # without a latent the routed experts read the stream itself
        "d_moe_latent": config.routed_expert_hidden_size or config.hidden_size,
        "vocab": config.vocab_size,
    }


def _kda_sizes(config: KimiConfig) -> dict[str, int | None]:
    linear = config.linear_attn_config
    if linear is None:
        return dict.fromkeys(("kda_head", "d_key", "d_inner", "d_gate_latent", "lag"))
    return {
        "kda_head": linear.num_heads,
        "d_key": linear.head_dim,
        "d_inner": linear.num_heads * linear.head_dim,
        "d_gate_latent": linear.head_dim,
        "lag": linear.short_conv_kernel_size,
    }
