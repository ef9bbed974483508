"""Configurations are read in either spelling, and the released ones count as published."""

import pytest
import torch

from model.config import KimiConfig
from model.dims import DIMS, size
from model.load import build
from model.presets import PRESETS, hf, preset

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
def test_a_released_model_has_its_published_number_of_parameters(name):
    lm = build(name, device="meta")
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


def test_the_small_models_have_every_kind_of_layer():
    for name in ("k3-mini", "tiny-k3"):
        config = preset(name)
        assert {*config.mixers} == {"kda", "mla"}
        assert {*config.feed_forwards} == {"dense", "moe"}
        assert config.mixers[-2:] == ("mla", "mla")


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


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"attention_bias": True}, "attention_bias is True"),
        ({"num_key_value_heads": 1}, "num_key_value_heads 1 is not 2"),
        ({"hidden_act": "gelu"}, "hidden_act is 'gelu'"),
        ({"tie_word_embeddings": True}, "tie_word_embeddings is True"),
        ({"linear_attn_config": {"gate_lower_bound": -9.0}}, "not in"),
    ],
    ids=lambda value: next(iter(value)) if isinstance(value, dict) else "",
)
def test_what_is_not_built_is_refused_in_words(change, words):
    with pytest.raises(ValueError, match=words):
        KimiConfig.from_hf({**hf("tiny-k3"), **change})


def test_layer_lists_must_share_out_the_layers():
    table = {**hf("tiny-k3")["linear_attn_config"], "kda_layers": [1, 2, 3, 4]}
    with pytest.raises(ValueError, match="share out"):
        KimiConfig.from_hf({**hf("tiny-k3"), "linear_attn_config": table})


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
