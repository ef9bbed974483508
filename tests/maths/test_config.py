"""Configurations are read in either spelling, and the released ones count as published."""

import contextlib
import dataclasses
import time

import pytest
import torch

from model.config import KimiConfig
from model.dims import DIMS, size
from model.load import build
from model.presets import PRESETS, TINY, hf, preset, tiny_k2, tiny_kimi_linear
from model.yarn import frequencies, score_scale

TOTALS = {"k3": 2_779_484_476_000, "k2": 1_026_408_232_448, "kimi-linear": 49_122_681_728}


def count(lm):
    return sum(parameter.numel() for parameter in lm.parameters())


def active(lm):
    """Parameters that one token meets, its row of the embedding not counted."""
    config = lm.config
    idle = 1 - config.num_experts_per_token / config.num_experts
    routed = sum(p.numel() for n, p in lm.named_parameters() if ".experts.w" in n)
    return count(lm) - round(routed * idle) - lm.embed_tokens.weight.numel()


@pytest.mark.parametrize("name", TOTALS)
def test_a_released_model_has_its_published_number_of_parameters(name, measured):
    begun = time.monotonic()
    lm = build(name, device="meta")
    measured(f"{name} built on meta in {time.monotonic() - begun:.2f} s")
    assert count(lm) == TOTALS[name]
    assert {p.device.type for p in lm.parameters()} == {"meta"}


def test_the_parameters_that_one_token_meets_are_as_published():
    assert active(build("k3", device="meta")) == 104_189_612_640
    assert active(build("kimi-linear", device="meta")) == 3_106_972_544


def test_k3_ends_with_two_mla_layers_and_begins_dense():
    config = preset("k3")
    assert [i for i in range(93) if not config.is_kda(i)] == [*range(3, 92, 4), 92]
    assert config.feed_forwards == ("dense", *["moe"] * 92)
    assert [i for i in range(93) if config.seals(i)] == [*range(0, 93, 12)]
    assert config.bank_size(92) == 8


@pytest.mark.parametrize("name", PRESETS)
def test_a_configuration_survives_the_way_through_a_file(name):
    config = preset(name)
    assert KimiConfig.from_hf(config.to_hf()) == config
    assert config.unknown == ()


@pytest.mark.parametrize(
    ("small", "released"),
    [("k3-mini", "k3"), *zip(TINY, ("k3", "k2", "kimi-linear"), strict=True)],
)
def test_a_small_model_has_what_its_released_one_has(small, released):
    config, model = preset(small), preset(released)
    assert {*config.mixers} == {*model.mixers}
    assert config.mixers[-1] == model.mixers[-1] == "mla"
    assert config.feed_forwards[:2] == model.feed_forwards[:2] == ("dense", "moe")
    for name in ("mla_use_nope", "mla_use_output_gate", "hidden_act", "routed_scaling_factor"):
        assert getattr(config, name) == getattr(model, name), name
    for name in ("q_lora_rank", "attn_res_block_size", "routed_expert_hidden_size", "rope_scaling"):
        assert (getattr(config, name) is None) == (getattr(model, name) is None), name
    a, b = config.linear_attn_config, model.linear_attn_config
    if a is not None and b is not None:
        assert a.use_full_rank_gate == b.use_full_rank_gate
        assert a.gate_lower_bound == b.gate_lower_bound


@pytest.mark.parametrize("config", [tiny_k2(), tiny_kimi_linear()], ids=TINY[1:])
def test_no_two_widths_of_a_tiny_model_are_alike_where_they_could_be(config):
    by_nature = {"d_moe_latent", "d_shared_expert", "d_gate_latent"}
    sizes = {}
    for word in DIMS.keys() - by_nature - {"batch", "pos", "src", "source", "border", "feature"}:
        with contextlib.suppress(ValueError):
            sizes.setdefault(size(word, config), []).append(word)
    assert [words for words in sizes.values() if len(words) > 1] == []


def test_k2_words_and_a_text_config_are_understood():
    k2 = hf("k2")
    theirs = {
        "num_experts": "n_routed_experts",
        "num_experts_per_token": "num_experts_per_tok",
        "num_shared_experts": "n_shared_experts",
        "moe_router_activation_func": "scoring_func",
        "num_expert_group": "n_group",
        "moe_renormalize": "norm_topk_prob",
    }
    spelled = {theirs.get(key, key): value for key, value in k2.items()}
    assert KimiConfig.from_hf({"text_config": spelled, "vision_config": {}}) == preset("k2")


def test_unknown_keys_are_listed():
    assert KimiConfig.from_hf({**hf("tiny-k3"), "new_trick": 3}).unknown == ("new_trick",)


def without(name, *keys):
    return {key: value for key, value in hf(name).items() if key not in keys}


def k3(**change):
    return hf("tiny-k3") | change


def k2(**change):
    return hf("tiny-k2") | change


def lists(**change):
    """The tiny K3 with other values in its table of linear attention; `None` leaves a key out."""
    table = hf("tiny-k3")["linear_attn_config"] | change
    kept = {key: value for key, value in table.items() if value is not None}
    return k3(linear_attn_config=kept)


def yarn(**change):
    table = hf("tiny-k2")["rope_scaling"] | change
    return k2(rope_scaling={key: value for key, value in table.items() if value is not None})


FAULTS = {
    "a bias": (k3(attention_bias=True), "attention_bias is True"),
    "grouped keys": (k3(num_key_value_heads=1), "num_key_value_heads 1 is not 2"),
    "another activation": (k3(hidden_act="gelu"), "hidden_act is 'gelu'"),
    "tied embeddings": (k3(tie_word_embeddings=True), "tie_word_embeddings is True"),
    "a gate too low": (lists(gate_lower_bound=-9.0), r"gate_lower_bound -9.0 is not in \[-5, 0\)"),
    "a gate in words": (lists(gate_lower_bound="low"), "gate_lower_bound 'low' is not in"),
    "a missing key": (without("tiny-k3", "vocab_size"), r"lacks \['vocab_size'\]"),
    "no linear heads": (lists(num_heads=None), "linear_attn_config.num_heads is None"),
    "no lists": (lists(full_attn_layers=None), "names no layers: it needs kda_layers and full_a"),
    "a list that is a number": (
        lists(full_attn_layers=4),
        "full_attn_layers is 4, and must be a l",
    ),
    "a list of words": (
        lists(full_attn_layers=["4"]),
        r"is \['4'\], and must be a list of layer nu",
    ),
    "layer 0": (lists(full_attn_layers=[0, 4]), r"counts layers from 1 to 5, and names \[0\]"),
    "a layer beyond the last": (lists(full_attn_layers=[5, 6]), r"from 1 to 5, and names \[6\]"),
    "a layer in no list": (lists(kda_layers=[1, 2]), "must share out the layers 1 to 5"),
    "a layer in both lists": (lists(kda_layers=[1, 2, 3, 4]), "must share out the layers 1 to 5"),
    "a layer twice in a list": (
        lists(full_attn_layers=[4, 4, 5], kda_layers=[1, 2, 3]),
        "each once",
    ),
    "an unknown list": (lists(mamba_layers=[1]), "mamba_layers is no kind of layer that is built"),
    "an unknown kind": (
        without("tiny-k3", "linear_attn_config")
        | {"layer_types": ["linear_attention"] * 3 + ["sliding"] * 2},
        "sliding_layers is no kind of layer",
    ),
    "kinds that disagree": (
        k3(layer_types=["full_attention"] * 5),
        "contradicts itself: layer_types is .* and the other keys give",
    ),
    "feed-forwards that disagree": (k3(mlp_layer_types=["sparse"] * 5), "mlp_layer_types is"),
    "a table that is a list": (
        k3(linear_attn_config=[1]),
        "linear_attn_config is .*must be a table",
    ),
    "a size in words": (k3(hidden_size="32"), "hidden_size is '32', and must be a whole number"),
    "a size that is a truth": (k3(hidden_size=True), "hidden_size is True"),
    "a size that is a fraction": (k3(v_head_dim=6.0), "v_head_dim is 6.0"),
    "a size of nothing": (k3(kv_lora_rank=None), "kv_lora_rank is None"),
    "no layers": (k3(num_hidden_layers=0), "num_hidden_layers is 0"),
    "a switch in words": (
        k3(mla_use_nope="yes"),
        "mla_use_nope is 'yes', and must be true or false",
    ),
    "a scale in words": (
        k3(routed_scaling_factor="1"),
        "routed_scaling_factor is '1', and must be",
    ),
    "an epsilon of nothing": (
        k3(rms_norm_eps=0.0),
        "rms_norm_eps is 0.0, and must be a number abo",
    ),
    "an endless epsilon": (k3(rms_norm_eps=float("nan")), "rms_norm_eps is nan"),
    "a token that is a word": (k3(bos_token_id="<s>"), "bos_token_id is '<s>'"),
    "more chosen than there are": (k3(num_experts_per_token=7), "num_experts_per_token is 7, and"),
    "groups of one": (k3(num_expert_group=6), "num_experts 6 does not make 6 groups of two"),
    "uneven groups": (k3(num_expert_group=4), "num_experts 6 does not make 4 groups"),
    "more groups than there are": (
        k3(num_expert_group=2, topk_group=3),
        "topk_group is 3, and num",
    ),
    "too few experts in the groups": (
        k3(num_expert_group=3, topk_group=1, num_experts_per_token=3),
        "num_experts_per_token is 3, and 1 groups hold fewer",
    ),
    "no base of the angles": (without("tiny-k2", "rope_theta"), "rope_theta is None, and must be"),
    "a base of one": (k2(rope_theta=1.0), "rope_theta is 1.0, and must be above 1"),
    "an odd width to turn": (
        k2(qk_rope_head_dim=5),
        "qk_rope_head_dim is 5, and features are turned",
    ),
    "halves that turn": (k2(rope_interleave=False), "rope_interleave is False, and only True"),
    "another stretching": (
        yarn(type="longrope"),
        "of the type 'longrope', and 'yarn' or none is b",
    ),
    "a stretching without a type": (yarn(type=None), "rope_scaling is of the type None"),
    "a stretching that is a word": (
        k2(rope_scaling="yarn"),
        "rope_scaling is 'yarn', and must be a",
    ),
    "a stretching without a factor": (yarn(factor=None), "rope_scaling.factor is None"),
    "a stretching from nothing": (
        yarn(original_max_position_embeddings=0),
        "rope_scaling.original_max_position_embeddings is 0, and must be a number above 0",
    ),
    "no turns": (yarn(beta_slow=0), "rope_scaling.beta_slow is 0"),
    "a magnitude in words": (yarn(mscale="1"), "rope_scaling.mscale is '1'"),
    "an unknown word of the stretching": (
        yarn(attention_factor=2.0),
        "attention_factor is 2.0, and",
    ),
}


@pytest.mark.parametrize(("json", "words"), FAULTS.values(), ids=FAULTS)
def test_what_is_not_built_is_refused_in_words(json, words):
    with pytest.raises(ValueError, match=words):
        KimiConfig.from_hf(json)


def test_every_fault_of_a_configuration_is_said_at_once():
    with pytest.raises(ValueError, match="attention_bias") as caught:
        KimiConfig.from_hf(k3(attention_bias=True, hidden_size=0, moe_renormalize=2))
    assert str(caught.value).count(";") == 2


def test_a_model_that_turns_nothing_does_not_mind_what_its_file_says_of_turning():
    config = KimiConfig.from_hf(k3(rope_theta=10000.0, rope_scaling={"type": "longrope"}))
    assert config.mla_use_nope


def test_either_list_of_layers_gives_the_other():
    table = {**hf("tiny-k3")["linear_attn_config"], "kda_layers": [1, 2, 3]}
    del table["full_attn_layers"]
    assert KimiConfig.from_hf(k3(linear_attn_config=table)) == preset("tiny-k3")


def test_the_words_of_transformers_are_understood():
    linear = hf("tiny-kimi-linear")
    table = linear.pop("linear_attn_config")
    theirs = linear | {
        "layer_types": ["full_attention" if i in (3, 5) else "linear_attention" for i in range(6)],
        "mlp_layer_types": ["dense", *["sparse"] * 5],
        "linear_num_heads": table["num_heads"],
        "linear_head_dim": table["head_dim"],
        "linear_conv_kernel_dim": table["short_conv_kernel_size"],
        "num_local_experts": linear.pop("num_experts"),
        "rope_parameters": {"rope_type": "default", "rope_theta": linear.pop("rope_theta")},
    }
    del theirs["first_k_dense_replace"]
    read, ours = KimiConfig.from_hf(theirs), preset("tiny-kimi-linear")
    assert dataclasses.replace(read, rope_scaling=None) == ours
    assert read.unknown == ()


def test_the_rotation_of_k2_is_read_from_either_table():
    k2 = hf("tiny-k2")
    table = {"rope_theta": k2.pop("rope_theta"), "rope_type": "yarn", **k2.pop("rope_scaling")}
    del table["type"]
    read = KimiConfig.from_hf(k2 | {"rope_parameters": table})
    assert frequencies(read) == frequencies(preset("tiny-k2"))
    assert score_scale(read) == score_scale(preset("tiny-k2"))


def test_the_first_of_several_ends_of_text_is_kept():
    assert KimiConfig.from_hf(k3(eos_token_id=[257, 3])) == preset("tiny-k3")


def test_an_unknown_preset_offers_the_nearest():
    with pytest.raises(LookupError, match="Did you mean 'k3-mini'"):
        preset("k3-mni")


def test_letters_of_dims_are_unique():
    letters = [dim.letter for dim in DIMS.values() if dim.letter]
    assert len(letters) == len(set(letters))


@pytest.mark.parametrize("word", DIMS)
def test_every_dim_has_a_size_in_k3(word):
    assert size(word, preset("k3"), width="d_model") >= 1


def test_a_head_is_another_in_each_mixer():
    config = preset("tiny-k3")
    assert size("head", config, owner="KimiDeltaAttention") == 3
    assert size("head", config, owner="KimiMLAAttention") == 2
    assert size("d_value", config, owner="KimiDeltaAttention") == 8
    assert size("d_value", config, owner="KimiMLAAttention") == 6


def test_a_model_without_an_axis_says_so():
    with pytest.raises(ValueError, match="no axis 'd_key'"):
        size("d_key", preset("k2"))


def test_a_seed_means_the_same_weights():
    a, b, c = (build("tiny-k3", seed=seed) for seed in (1, 1, 2))
    assert a.weights_hash == b.weights_hash != c.weights_hash
    assert all(torch.equal(p, q) for p, q in zip(a.parameters(), b.parameters(), strict=True))
    a.norm.weight.data.mul_(2)
    a.norm.weight.add_(1)
    assert a.weights_hash != b.weights_hash
