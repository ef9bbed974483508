"""What is kept between calls, counted from the tensors."""

import pytest
import torch

from model.load import build
from model.presets import TINY, preset

IDS = torch.arange(23)[None].expand(2, -1)


def kda_values(linear):
    """The memory, and three convolutions of all channels."""
    heads, width, lag = linear.num_heads, linear.head_dim, linear.short_conv_kernel_size
    return heads * width * width + 3 * heads * width * lag


def mla_values(config, mla):
    if mla == "latent":
        return config.kv_lora_rank + config.qk_rope_head_dim
    return config.num_attention_heads * (config.qk_head_dim + config.v_head_dim)


@pytest.mark.parametrize("name", TINY)
@pytest.mark.parametrize("mla", ["expanded", "latent"])
def test_a_cache_holds_what_the_formula_says(mla, name):
    lm = build(name)
    kept = lm.new_cache(2, mla=mla)
    linear, per_position = lm.config.linear_attn_config, mla_values(lm.config, mla)
    memory = 0 if linear is None else kda_values(linear)
    for end, start in ((20, 0), (21, 20), (23, 21)):
        lm(IDS[:, start:end], kept)
        expected = [memory if m == "kda" else per_position * end for m in lm.config.mixers]
        assert [layer.values() for layer in kept.layers] == [2 * values for values in expected]
        assert kept.values() == 2 * sum(expected)
        assert kept.bytes() == 4 * kept.values()


def test_k3_keeps_its_known_numbers():
    config = preset("k3")
    assert kda_values(config.linear_attn_config) == 1_720_320
    assert mla_values(config, "expanded") == 30_720
    assert mla_values(config, "latent") == 576


def test_k2_and_kimi_linear_keep_their_known_numbers():
    k2, linear = preset("k2"), preset("kimi-linear")
    assert mla_values(k2, "expanded") == 20_480
    assert mla_values(linear, "expanded") == 10_240
    assert mla_values(k2, "latent") == mla_values(linear, "latent") == 576
    assert kda_values(linear.linear_attn_config) == 573_440


def test_k3_s_cache_on_the_meta_device_is_the_same_count():
    kept = build("k3", device="meta").new_cache()
    assert kept.values() == 69 * 1_720_320


def test_the_memory_stays_float32_beside_bfloat16():
    lm = build("tiny-k3", dtype="bfloat16")
    kept = lm.new_cache()
    lm(IDS[:1], kept)
    kda, mla = kept.layers[0], kept.layers[3]
    assert kda.recurrent.dtype == torch.float32
    assert kda.conv_q.dtype == mla.k.dtype == torch.bfloat16
    assert kda.bytes() == 4 * kda.recurrent.numel() + 2 * 3 * kda.conv_q.numel()


def test_the_state_is_value_first():
    lm = build("tiny-k3")
    kept = lm.new_cache()
    lm(IDS[:1], kept)
    assert kept.layers[0].recurrent.shape == (1, 3, 8, 8)
    assert kept.layers[0].conv_q.shape == (1, 24, 4)
    assert kept.layers[3].k.shape == (1, 2, 23, 12)
    assert kept.layers[3].v.shape == (1, 2, 23, 6)


def test_kinds_add_up():
    lm = build("tiny-k3")
    kept = lm.new_cache(2)
    lm(IDS, kept)
    kinds = kept.values_by_kind()
    assert sum(kinds.values()) == kept.values()
    assert set(kinds) == {
        *(f"kda {name}" for name in ("recurrent", "conv_q", "conv_k", "conv_v")),
        "mla expanded k",
        "mla expanded v",
    }


def test_an_unknown_form_of_cache_is_refused():
    with pytest.raises(ValueError, match="'expanded' heads or a 'latent'"):
        build("tiny-k3").new_cache(mla="compressed")
