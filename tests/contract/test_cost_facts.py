"""Every published number that a formula gives, and the words that come with it."""

import dataclasses

import pytest

from model.config import KimiConfig
from model.cost import FACTS, fact, kept, parameter_sizes, parameters
from model.presets import hf, preset, tiny_k2, tiny_k3

K3 = {
    "kv_values_per_position": 30_720,
    "kv_bytes_per_position": 61_440,
    "latent_values_per_position": 576,
    "latent_bytes_per_position": 1_152,
    "kv_values_per_position_all_layers": 737_280,
    "latent_values_per_position_all_layers": 13_824,
    "latent_bytes_per_position_all_layers": 27_648,
    "kda_recurrent_values": 1_572_864,
    "kda_conv_values": 147_456,
    "kda_state_values": 1_720_320,
    "kda_state_bytes": 6_586_368,
    "kda_state_values_all_layers": 118_702_080,
    "kda_recurrent_bytes_all_layers": 414 * 2**20,
    "kv_equals_kda_at": 56,
    "kv_exceeds_kda_from": 57,
    "latent_exceeds_kda_from": 2_987,
    "kv_bytes_exceed_kda_from": 108,
    "latent_bytes_exceed_kda_from": 5_718,
    "num_layers": 93,
    "num_mla_layers": 24,
    "num_kda_layers": 69,
    "num_moe_layers": 92,
    "num_dense_layers": 1,
    "max_positions": 1_048_576,
    "d_qk": 192,
    "d_kv_joint": 576,
    "d_shared_expert": 6_144,
    "shared_key_first": 513,
    "shared_key_last": 576,
    "residual_seals": 8,
    "residual_reads": 186,
    "residual_sources_out": 9,
    "residual_last_block": 9,
    "residual_parameters": 2_680_832,
    "expert_sparsity": 56,
    "situ_bound": 100,
    "tensors": 497_052,
    "embedding_parameters": 1_174_405_120,
    "kda_parameters": 443_740_384,
    "mla_parameters": 232_196_096,
    "expert_parameters": 33_030_144,
    "experts_parameters": 29_595_009_024,
    "shared_parameters": 132_120_576,
    "router_parameters": 6_423_424,
    "latent_moe_parameters": 51_383_808,
    "moe_parameters": 29_784_936_832,
    "moe_active_parameters": 718_410_112,
    "dense_parameters": 726_663_168,
    "routed_parameters": 2_722_740_830_208,
    "text_parameters": 2_779_484_476_000,
    "active_parameters": 104_189_612_640,
    "active_parameters_with_embedding": 105_364_017_760,
    "active_parameters_without_embedding_and_head": 103_015_207_520,
}
KIMI_LINEAR = {
    "kv_values_per_position": 10_240,
    "latent_values_per_position": 576,
    "latent_bytes_per_position_all_layers": 8_064,
    "kda_state_values": 573_440,
    "kda_recurrent_bytes_all_layers": 40 * 2**20,
    "num_mla_layers": 7,
    "num_kda_layers": 20,
    "tensors": 20_493,
    "embedding_parameters": 377_487_360,
    "kda_parameters": 39_514_272,
    "mla_parameters": 29_114_880,
    "expert_parameters": 7_077_888,
    "experts_parameters": 1_811_939_328,
    "shared_parameters": 7_077_888,
    "router_parameters": 590_080,
    "moe_parameters": 1_819_607_296,
    "moe_active_parameters": 64_291_072,
    "dense_parameters": 63_700_992,
    "routed_parameters": 47_110_422_528,
    "text_parameters": 49_122_681_728,
    "active_parameters": 3_106_972_544,
    "active_parameters_with_embedding": 3_484_459_904,
    "active_parameters_without_embedding_and_head": 2_729_485_184,
}
K2 = {
    "kv_values_per_position": 20_480,
    "kv_values_per_position_all_layers": 1_249_280,
    "latent_values_per_position_all_layers": 35_136,
    "latent_bytes_per_position_all_layers": 70_272,
    "num_mla_layers": 61,
    "num_kda_layers": 0,
    "rotary_pairs": 32,
    "yarn_cut": 20,
    "tensors": 139_583,
    "mla_parameters": 101_124_096,
    "expert_parameters": 44_040_192,
    "experts_parameters": 16_911_433_728,
    "shared_parameters": 44_040_192,
    "router_parameters": 2_752_896,
    "moe_parameters": 16_958_226_816,
    "moe_active_parameters": 399_114_624,
    "dense_parameters": 396_361_728,
    "routed_parameters": 1_014_686_023_680,
    "text_parameters": 1_026_408_232_448,
    "active_parameters": 31_687_095_808,
    "active_parameters_with_embedding": 32_861_500_928,
    "active_parameters_without_embedding_and_head": 30_512_690_688,
}
KNOWN = [
    pytest.param(model, name, value, id=f"{model}-{name}")
    for model, table in (("k3", K3), ("kimi-linear", KIMI_LINEAR), ("k2", K2))
    for name, value in table.items()
]


@pytest.mark.parametrize(("model", "name", "value"), KNOWN)
def test_a_known_number_comes_out_exactly(model, name, value):
    assert fact(name, preset(model)).value == value


@pytest.mark.parametrize(("model", "scale"), [("k3", 0.0721688), ("k2", 0.1308608)])
def test_the_softmax_scale_is_the_published_one(model, scale):
    assert fact("softmax_scale", preset(model)).value == pytest.approx(scale, abs=5e-8)


def test_without_yarn_no_pair_is_slowed_and_without_rotation_there_is_none():
    plain = dataclasses.replace(tiny_k2(), rope_scaling=None)
    asked = ("rotary_pairs", "yarn_cut", "yarn_factor", "yarn_original_positions")
    assert [fact(name, plain).value for name in asked] == [6, 6, 1.0, 4096]
    assert [fact(name, tiny_k2()).value for name in asked] == [6, 4, 64.0, 64]
    assert fact("softmax_scale", plain).value == pytest.approx(22**-0.5)
    for name in asked:
        with pytest.raises(LookupError, match="rotates nothing"):
            fact(name, preset("kimi-linear"))


@pytest.mark.parametrize(
    ("layer", "before_mixer", "before_ffn"),
    [(0, 1, 2), (1, 2, 2), (11, 2, 2), (12, 2, 3), (13, 3, 3), (84, 8, 9), (92, 9, 9)],
)
def test_residual_sources_follow_the_seals(layer, before_mixer, before_ffn):
    config = preset("k3")
    assert fact("residual_sources_before_mixer", config, layer=layer).value == before_mixer
    assert fact("residual_sources_before_ffn", config, layer=layer).value == before_ffn


@pytest.mark.parametrize("config", [preset("k3"), tiny_k3()], ids=["k3", "tiny-k3"])
def test_sources_are_the_banks_entries_and_the_running_sum(config):
    layers = range(config.num_hidden_layers)
    ask = [fact("residual_sources_before_ffn", config, layer=layer).value for layer in layers]
    assert ask == [config.bank_size(layer) + 1 for layer in layers]
    ask = [fact("residual_sources_before_mixer", config, layer=layer).value for layer in layers]
    assert ask == [1, *(config.bank_size(layer - 1) + 1 for layer in layers[1:])]
    seals = sum(config.seals(layer) for layer in layers)
    assert fact("residual_seals", config).value == seals


def test_a_formula_is_shown_in_words_and_in_numbers():
    value = fact("kv_values_per_position", preset("k3"))
    assert value.formula == "heads · (key width + value width)"
    assert value.substituted == "96 · (192 + 128) = 30,720"


def answer(name, config):
    try:
        return fact(name, config, layer=2).substituted
    except LookupError as reason:
        return str(reason)


@pytest.mark.parametrize("name", FACTS)
def test_every_fact_has_a_value_or_a_reason_in_every_model(name):
    for config in (preset("k3"), preset("k2"), preset("kimi-linear"), tiny_k3()):
        text = answer(name, config)
        assert any(char.isdigit() for char in text) or text.endswith(".")


@pytest.mark.parametrize("name", ["kda_state_values", "kv_exceeds_kda_from", "residual_reads"])
def test_a_fact_that_k2_lacks_is_refused_in_words(name):
    with pytest.raises(LookupError, match="This model has"):
        fact(name, preset("k2"))


def test_an_unknown_fact_offers_the_nearest():
    with pytest.raises(LookupError, match="kv_values_per_position"):
        fact("kv_value_per_position", preset("k3"))


def test_the_state_of_kda_is_flat_and_the_cache_grows():
    config = preset("k3")
    short, long = (kept(config, "kda", positions=p).total_bytes.value for p in (1_000, 1_048_576))
    assert short == long
    assert kept(config, "latent", positions=1_048_576).total_bytes.value == 27 * 2**30
    assert kept(config, "latent", positions=4_096).total_bytes.value == 108 * 2**20
    assert kept(preset("k2"), "latent", positions=262_144).total_bytes.value / 2**30 == (
        pytest.approx(17.16, abs=0.005)
    )


def test_the_expanded_cache_in_float32_is_the_size_that_others_measured():
    config = preset("k3")
    per_token = kept(config, "expanded", positions=1, dtype="float32").total_bytes.value
    assert per_token == 2_949_120
    one_layer = kept(config, "expanded", positions=1, dtype="float32").bytes.value
    assert one_layer == 120 * 1024
    assert kept(config, "latent", positions=1, dtype="float32").bytes.value == 2.25 * 1024


@pytest.mark.parametrize(
    ("model", "positions", "size"),
    [
        ("kimi-linear", 4_096, 31.5 * 2**20),
        ("kimi-linear", 1_048_576, 7.875 * 2**30),
        ("k2", 4_096, 274.5 * 2**20),
        ("k3", 131_072, 3.375 * 2**30),
    ],
)
def test_the_latent_cache_has_the_size_of_the_published_tables(model, positions, size):
    assert kept(preset(model), "latent", positions=positions).total_bytes.value == size


def test_the_released_weights_of_k3_have_the_published_size():
    vision = 401_214_464 + 46_144_512
    size = fact("weight_bytes_released", preset("k3")).value + 2 * vision
    assert size == pytest.approx(1.5608e12, rel=1e-4)
    assert size / 2**40 == pytest.approx(1.42, abs=0.005)
    # 27 blocks of six tensors, three around them, three of the projector
    assert fact("tensors", preset("k3")).value + 27 * 6 + 3 + 3 == 497_220


def test_the_parameters_of_a_model_are_divided_among_its_modules():
    for name in ("k3", "k2", "kimi-linear"):
        counted = parameters(preset(name))
        assert sum(counted.by_module.values()) == counted.total
    assert counted.by_module["layers.*.self_attn:KimiDeltaAttention"] == 20 * 39_514_272


def test_experts_work_on_the_latent_and_not_on_the_full_width():
    config = preset("k3")
    assert parameter_sizes(config, "KimiSparseMoE.experts.w1") == (896, 3_072, 3_584)
    assert parameter_sizes(config, "KimiSparseMoE.experts.w2") == (896, 3_584, 3_072)
    assert parameter_sizes(config, "KimiMLAAttention.kv_b_proj.weight") == (24_576, 512)
    norm = parameter_sizes(config, "RMSNorm.weight", at="self_attn.q_a_layernorm")
    assert norm == (1_536,)
    with pytest.raises(LookupError, match="has no parameter"):
        parameter_sizes(config, "KimiMLAAttention.q_proj.weight")


def test_the_convolutions_of_all_layers_keep_what_other_engines_measured():
    # three columns in float32 elsewhere, four in bfloat16 here
    ours = fact("kda_conv_values", preset("k3")).value
    assert 69 * ours // 4 * 3 * 4 / 2**20 == pytest.approx(29, abs=0.2)


def test_head_dim_is_not_taken_as_hidden_over_heads():
    config = preset("k3")
    assert config.hidden_size / config.num_attention_heads != config.v_head_dim
    assert fact("kv_values_per_position", config).value == 96 * (192 + 128)


def test_another_model_with_latent_attention_keeps_what_others_measured():
    """DeepSeek-V2-Lite: 27 layers of 16 heads, without a latent of the queries."""
    changes = {"num_hidden_layers": 27, "num_attention_heads": 16, "q_lora_rank": None}
    lite = KimiConfig.from_hf(hf("k2") | changes | {"num_key_value_heads": 16})
    assert fact("latent_bytes_per_position_all_layers", lite).value == 31_104
    assert 2 * fact("kv_values_per_position_all_layers", lite).value == 276_480
