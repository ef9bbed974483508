"""What keeps a configuration from being built, every fault in words."""

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from model import yarn

REQUIRED = {"attention_bias": False, "tie_word_embeddings": False, "rope_interleave": True}
"""Keys for which the released models hold one value and we build no other."""

CHECKED = ("layer_types", "mlp_layer_types")
"""Keys of `transformers` that say again which layer is of which kind."""
MIXER_WORDS = {"kda": "linear_attention", "mla": "full_attention"}
FEED_FORWARD_WORDS = {"dense": "dense", "moe": "sparse"}

ACTIVATIONS = ("situ", "silu")
AT_LEAST_ONE = (
    *("vocab_size", "hidden_size", "num_hidden_layers", "num_attention_heads", "q_lora_rank"),
    *("kv_lora_rank", "qk_nope_head_dim", "v_head_dim", "attn_res_block_size", "moe_layer_freq"),
    *("intermediate_size", "routed_expert_hidden_size", "num_expert_group", "topk_group"),
    "max_position_embeddings",
)
AT_LEAST_NONE = (
    *("qk_rope_head_dim", "first_k_dense_replace", "num_experts", "num_experts_per_token"),
    *("num_shared_experts", "moe_intermediate_size"),
    *("bos_token_id", "eos_token_id", "pad_token_id"),
)
SWITCHES = ("mla_use_nope", "mla_use_output_gate", "latent_moe_use_norm", "moe_renormalize")
POSITIVE = (
    *("routed_scaling_factor", "activation_situ_beta", "activation_situ_linear_beta"),
    *("rms_norm_eps", "rope_theta"),
)
MAY_BE_ABSENT = frozenset(
    {
        *("q_lora_rank", "attn_res_block_size", "routed_expert_hidden_size", "rope_theta"),
        *("activation_situ_beta", "activation_situ_linear_beta"),
        *("bos_token_id", "eos_token_id", "pad_token_id"),
    }
)
"""Keys whose `null` means that a model does without."""

LINEAR_SIZES = ("num_heads", "head_dim", "short_conv_kernel_size")
LISTS = ("kda_layers", "full_attn_layers")
"""Kinds of layer, each a list that counts layers from 1."""


def refuse_what_cannot_be_built(text: Mapping[str, Any], values: Mapping[str, Any]) -> None:
    """Raise ValueError for all faults of a file: `text` as it came, `values` with defaults."""
    faults = [*_other_than_built(text), *_misshapen(values)]
    if not faults:
        # sizes are whole numbers here, so that they can be compared
        faults = [*_layer_lists(values), *_groups(values), *_rotation(values)]
    if faults:
        raise ValueError(f"This configuration cannot be built: {'; '.join(faults)}.")


def refuse_contradictions(
    text: Mapping[str, Any], mixers: Sequence[str], feed_forwards: Sequence[str]
) -> None:
    """Raise ValueError where a list of kinds, layer by layer, is not what the other keys give."""
    given = {
        "layer_types": [MIXER_WORDS[mixer] for mixer in mixers],
        "mlp_layer_types": [FEED_FORWARD_WORDS[kind] for kind in feed_forwards],
    }
    faults = [
        f"{name} is {text[name]!r:.80}, and the other keys give {given[name]!r:.80}"
        for name in CHECKED
        if text.get(name) not in (None, given[name])
    ]
    if faults:
        raise ValueError(f"This configuration contradicts itself: {'; '.join(faults)}.")


def _other_than_built(text: Mapping[str, Any]) -> Iterator[str]:
    for key, value in REQUIRED.items():
        if text.get(key, value) != value:
            yield f"{key} is {text[key]!r}, and only {value!r} is built"
    heads = text.get("num_attention_heads")
    if text.get("num_key_value_heads", heads) != heads:
        yield f"num_key_value_heads {text.get('num_key_value_heads')!r} is not {heads!r}"
    if text.get("hidden_act") not in ACTIVATIONS:
        yield f"hidden_act is {text.get('hidden_act')!r}, and 'situ' or 'silu' is built"


def _misshapen(values: Mapping[str, Any]) -> Iterator[str]:
    """Values that are no size, no switch, no number or no table."""
    for names, least in ((AT_LEAST_ONE, 1), (AT_LEAST_NONE, 0)):
        for name in names:
            if not _absent(name, values) and not _is_whole(values[name], least):
                yield _no_whole(name, values[name], least)
    for name in SWITCHES:
        if type(values[name]) is not bool:
            yield f"{name} is {values[name]!r}, and must be true or false"
    for name in POSITIVE:
        if not _absent(name, values) and not _is_positive(values[name]):
            yield f"{name} is {values[name]!r}, and must be a number above 0"
    for name in ("linear_attn_config", "rope_scaling"):
        if values[name] is not None and not isinstance(values[name], Mapping):
            yield f"{name} is {values[name]!r:.80}, and must be a table"
    if isinstance(linear := values["linear_attn_config"], Mapping):
        yield from _linear_values(linear)


def _linear_values(linear: Mapping[str, Any]) -> Iterator[str]:
    where = "linear_attn_config"
    for name in LINEAR_SIZES:
        if not _is_whole(linear.get(name), 1):
            yield _no_whole(f"{where}.{name}", linear.get(name), 1)
    if type(switch := linear.get("use_full_rank_gate", False)) is not bool:
        yield f"{where}.use_full_rank_gate is {switch!r}, and must be true or false"
    bound = linear.get("gate_lower_bound")
    if bound is not None and not (_is_number(bound) and -5.0 <= bound < 0.0):
        yield f"{where}.gate_lower_bound {bound!r} is not in [-5, 0)"
    for name in LISTS:
        numbers = linear.get(name, ())
        if not isinstance(numbers, list | tuple) or any(type(i) is not int for i in numbers):
            yield f"{where}.{name} is {numbers!r:.80}, and must be a list of layer numbers"
    for name in linear:
        if name.endswith("_layers") and name not in LISTS:
            yield f"{where}.{name} is no kind of layer that is built, as {' and '.join(LISTS)} are"
    if not any(name in linear for name in LISTS):
        yield f"{where} names no layers: it needs {' and '.join(LISTS)}"


def _layer_lists(values: Mapping[str, Any]) -> Iterator[str]:
    """Every layer stands in one list, once, counted from 1."""
    linear, num_layers = values["linear_attn_config"] or {}, values["num_hidden_layers"]
    for name in LISTS:
        if outside := [i for i in linear.get(name, ()) if not 1 <= i <= num_layers]:
            yield f"{name} counts layers from 1 to {num_layers}, and names {outside}"
    if not all(name in linear for name in LISTS):
        return
    kda, full = (sorted(linear[name]) for name in LISTS)
    if sorted([*kda, *full]) != [*range(1, num_layers + 1)]:
        yield (
            f"kda_layers {kda} and full_attn_layers {full} must share out the layers 1 to "
            f"{num_layers}, each once"
        )


def _groups(values: Mapping[str, Any]) -> Iterator[str]:
    experts, chosen = values["num_experts"], values["num_experts_per_token"]
    groups, best = values["num_expert_group"], values["topk_group"]
    if chosen > experts:
        yield f"num_experts_per_token is {chosen}, and num_experts {experts}"
    if groups == 1:
        return
    if best > groups:
        yield f"topk_group is {best}, and num_expert_group {groups}"
    if experts % groups or experts < 2 * groups:
        yield f"num_experts {experts} does not make {groups} groups of two or more"
    elif chosen > min(best, groups) * (experts // groups):
        yield f"num_experts_per_token is {chosen}, and {best} groups hold fewer experts"


def _rotation(values: Mapping[str, Any]) -> Iterator[str]:
    """What turning needs, where the shared part of a key is turned."""
    if values["mla_use_nope"]:
        return
    width, base, table = (values[k] for k in ("qk_rope_head_dim", "rope_theta", "rope_scaling"))
    if base is None or base <= 1:
        yield f"rope_theta is {base!r}, and must be above 1 where keys are turned"
    if width < 2 or width % 2:
        yield f"qk_rope_head_dim is {width!r}, and features are turned in pairs"
    if (kind := yarn.kind_of(table)) not in (yarn.PLAIN, yarn.STRETCHED):
        yield f"rope_scaling is of the type {kind!r}, and {yarn.STRETCHED!r} or none is built"
    elif kind == yarn.STRETCHED:
        yield from _stretching(table)


def _stretching(table: Mapping[str, Any]) -> Iterator[str]:
    for name in (*yarn.NEEDED, "beta_fast", "beta_slow"):
        value = table.get(name, yarn.DEFAULTS.get(name))
        if not _is_positive(value):
            yield f"rope_scaling.{name} is {value!r}, and must be a number above 0"
    for name in ("mscale", "mscale_all_dim"):
        value = table.get(name, yarn.DEFAULTS[name])
        if not _is_number(value) or value < 0:
            yield f"rope_scaling.{name} is {value!r}, and must be a number from 0 on"
    for name in table.keys() - {*yarn.NEEDED, *yarn.DEFAULTS, "type", "rope_type"}:
        yield f"rope_scaling.{name} is {table[name]!r}, and YaRN is built without it"


def _absent(name: str, values: Mapping[str, Any]) -> bool:
    return name in MAY_BE_ABSENT and values[name] is None


def _is_whole(value: Any, least: int) -> bool:
    return type(value) is int and value >= least


def _no_whole(name: str, value: Any, least: int) -> str:
    return f"{name} is {value!r}, and must be a whole number from {least} on"


def _is_number(value: Any) -> bool:
    return type(value) in (int, float) and not math.isnan(value)


def _is_positive(value: Any) -> bool:
    return _is_number(value) and 0 < value < float("inf")
