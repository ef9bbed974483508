"""The only renaming: upstream's keys and weight names to the house spelling, which is K3's."""

import re
from collections.abc import Mapping
from typing import Any

CONFIG_WORDS = {
    "n_routed_experts": "num_experts",
    "num_experts_per_tok": "num_experts_per_token",
    "n_shared_experts": "num_shared_experts",
    "scoring_func": "moe_router_activation_func",
    "n_group": "num_expert_group",
    "norm_topk_prob": "moe_renormalize",
    "model_max_length": "max_position_embeddings",
    "num_local_experts": "num_experts",
}
"""Configuration keys: K2's and those of `transformers` to K3's."""

LINEAR_WORDS = {
    "linear_num_heads": "num_heads",
    "linear_head_dim": "head_dim",
    "linear_conv_kernel_dim": "short_conv_kernel_size",
}
"""Keys that `transformers` writes beside `layer_types`, and the table has inside."""

LAYER_TYPES = {"linear_attention": "kda_layers", "full_attention": "full_attn_layers"}

EXPERT_WORDS = {"gate_proj": "w1", "up_proj": "w3", "down_proj": "w2"}
"""The three matrices of a routed expert: K2's words to K3's."""

_EXPERT = re.compile(r"(?P<moe>.*\.experts)\.(?P<index>\d+)\.(?P<matrix>w[123])\.weight$")
_K2_MOE = re.compile(r"(layers\.\d+)\.mlp\.(gate\.|experts\.|shared_experts\.)")
_K2_EXPERT = re.compile(r"(\.experts\.\d+)\.(gate_proj|up_proj|down_proj)\.")
_ONE_EXPERT = re.compile(r"(\.experts\.\d+)\.(w[123])\.")
_K2_MATRIX = {ours: theirs for theirs, ours in EXPERT_WORDS.items()}
_RESIDUAL = re.compile(r"(self_attention_res|mlp_res|output_attn_res)_(norm|proj)\.weight$")
_OUR_RESIDUAL = re.compile(r"(self_attention_res|mlp_res|output_attn_res)\.(norm|proj)\.weight$")


def config_in_house_words(json: Mapping[str, Any]) -> dict[str, Any]:
    """The same table with K3's keys; a key already in K3's words wins."""
    renamed = {CONFIG_WORDS[key]: json[key] for key in CONFIG_WORDS if key in json}
    text = {**renamed, **{key: value for key, value in json.items() if key not in CONFIG_WORDS}}
    if isinstance(turning := text.pop("rope_parameters", None), Mapping):
        table = {key: value for key, value in turning.items() if key != "rope_theta"}
        text = {"rope_theta": turning.get("rope_theta"), "rope_scaling": table, **text}
    if isinstance(kinds := text.get("layer_types"), list):
        text.setdefault("linear_attn_config", _linear_attn_config(text, kinds))
    if isinstance(kinds := text.get("mlp_layer_types"), list):
        sparse = [i for i, kind in enumerate(kinds) if kind != "dense"]
        text.setdefault("first_k_dense_replace", min(sparse, default=len(kinds)))
    return {key: value for key, value in text.items() if key not in LINEAR_WORDS}


def _linear_attn_config(text: Mapping[str, Any], kinds: list[Any]) -> dict[str, Any] | None:
    """The table with its 1-based lists; a kind without a list keeps its name, `…_layers`."""
    if {*kinds} == {"full_attention"}:
        return None
    table: dict[str, Any] = {ours: text.get(theirs) for theirs, ours in LINEAR_WORDS.items()}
    for name in LAYER_TYPES.values():
        table[name] = []
    for i, kind in enumerate(kinds, 1):
        table.setdefault(LAYER_TYPES.get(kind, f"{kind}_layers"), []).append(i)
    return table


def from_upstream(name: str) -> str:
    """Name in our model of an upstream tensor.

    An expert's matrix keeps its index, as `…experts.7.w1.weight`; `expert_part` says where in the
    stacked parameter it belongs.
    """
    name = name.removeprefix("language_model.").removeprefix("model.")
    name = _K2_MOE.sub(r"\1.block_sparse_moe.\2", name)
    name = _K2_EXPERT.sub(lambda found: f"{found[1]}.{EXPERT_WORDS[found[2]]}.", name)
    return _RESIDUAL.sub(r"\1.\2.weight", name)


def to_upstream(name: str, expert: int | None = None) -> str:
    """Name in K3's checkpoint, without `language_model.`; `expert` picks one of a stack."""
    if expert is not None:
        name = f"{name[: -len('.w1')]}.{expert}.{name[-len('w1') :]}.weight"
    name = _OUR_RESIDUAL.sub(r"\1_\2.weight", name)
    return name if name.startswith("lm_head.") else f"model.{name}"


def in_k2_words(name: str) -> str:
    """K2's name of a tensor that K3's checkpoint calls `name`; Kimi-Linear's is the same."""
    name = name.replace(".block_sparse_moe.", ".mlp.")
    return _ONE_EXPERT.sub(lambda found: f"{found[1]}.{_K2_MATRIX[found[2]]}.", name)


def is_stacked(name: str) -> bool:
    """Whether our parameter holds one matrix for each expert."""
    return re.search(r"\.experts\.w[123]$", name) is not None


def expert_part(name: str) -> tuple[str, int] | None:
    """The stacked parameter and the expert's index of a name in house words, if it has one."""
    found = _EXPERT.match(name)
    return None if found is None else (f"{found['moe']}.{found['matrix']}", int(found["index"]))
