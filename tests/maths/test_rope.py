"""Rotary positions: which features turn together, how far, from which position, and where not."""

import dataclasses
import math

import pytest
import torch

from model.capture import capture, tap_names
from model.load import build
from model.presets import preset, tiny_k2
from model.rope import rotate
from model.yarn import frequencies, ramp, score_scale, turn_gain

IDS = torch.randint(0, 256, (2, 21), generator=torch.Generator().manual_seed(1))
TABLE = dict(tiny_k2().rope_scaling)


def k2(**scaling):
    return dataclasses.replace(tiny_k2(), rope_scaling=TABLE | scaling)


def recorded(lm, *call):
    with capture() as recording:
        lm(*call)
    return recording.named(tap_names(lm))


def test_neighbours_turn_together_and_lie_in_halves_afterwards():
    x = torch.tensor([1.0, 0.0, 0.0, 1.0, 2.0, 3.0])
    angle = torch.tensor([math.pi / 2, math.pi / 2, math.pi])
    turned = rotate(x, angle.cos(), angle.sin())
    torch.testing.assert_close(turned, torch.tensor([0.0, -1.0, -2.0, 1.0, 0.0, -3.0]))


def test_a_product_of_turned_vectors_knows_their_distance_only():
    q, k = torch.randn(2, 12, dtype=torch.float64, generator=torch.Generator().manual_seed(2))
    speed = torch.tensor(frequencies(tiny_k2()), dtype=torch.float64)

    def at(x, position):
        return rotate(x, (position * speed).cos(), (position * speed).sin())

    near, far = at(q, 5) @ at(k, 3), at(q, 905) @ at(k, 903)
    torch.testing.assert_close(near, far)
    torch.testing.assert_close(at(q, 9) @ at(k, 9), q @ k)
    assert abs(float(at(q, 5) @ at(k, 4) - near)) > 1e-2


def test_k2_slows_its_pairs_from_the_twentieth_on_by_the_whole_factor():
    plain = [50000 ** (-2 * m / 64) for m in range(32)]
    expected = [w if m < 20 else w / 32 for m, w in enumerate(plain)]
    assert frequencies(preset("k2")) == pytest.approx(expected, rel=1e-12)
    assert score_scale(preset("k2")) == pytest.approx(0.1308608, rel=1e-6)
    assert turn_gain(preset("k2")) == 1.0


def test_a_ramp_of_several_pairs_blends_both_speeds():
    assert ramp(12, 100.0, TABLE) == pytest.approx([0, 0, 1 / 3, 2 / 3, 1, 1])
    plain = [100 ** (-m / 6) for m in range(6)]
    blended = [w * (1 - r) + w / 64 * r for w, r in zip(plain, ramp(12, 100.0, TABLE), strict=True)]
    assert frequencies(tiny_k2()) == pytest.approx(blended, rel=1e-12)


@pytest.mark.parametrize(
    ("fast", "slow", "original", "expected"),
    [
        (4.0, 1.0, 5, [0, 1, 1, 1, 1, 1]),
        # one that would have to run backwards
        (4.0, 1.0, 1, [0, 0, 0, 0, 0, 0]),
        (1.0, 1.0, 64, [0, 0, 0, 0, 1, 1]),
        (32.0, 1.0, 64, [0, 1 / 4, 2 / 4, 3 / 4, 1, 1]),
        (4.0, 0.01, 64, [0, 0, 1 / 9, 2 / 9, 3 / 9, 4 / 9]),
    ],
    ids=["from the first", "none", "a step", "as by default", "a range beyond the pairs"],
)
def test_the_range_of_the_ramp_stays_within_the_pairs(fast, slow, original, expected):
    table = {"beta_fast": fast, "beta_slow": slow, "original_max_position_embeddings": original}
    assert ramp(12, 100.0, table) == pytest.approx(expected)


def test_without_a_table_the_angles_are_plain():
    config = dataclasses.replace(tiny_k2(), rope_scaling=None)
    assert frequencies(config) == pytest.approx([100 ** (-m / 6) for m in range(6)], rel=1e-12)
    assert score_scale(config) == pytest.approx(22**-0.5)
    assert turn_gain(config) == 1.0


def test_a_table_that_says_little_means_what_upstream_s_defaults_say():
    short = {name: TABLE[name] for name in ("type", "factor", "original_max_position_embeddings")}
    config = dataclasses.replace(tiny_k2(), rope_scaling=short)
    spelled = k2(beta_fast=32.0, beta_slow=1.0, mscale=1.0, mscale_all_dim=0.0)
    assert frequencies(config) == frequencies(spelled)
    assert score_scale(config) == score_scale(spelled) == pytest.approx(22**-0.5)
    assert turn_gain(config) == turn_gain(spelled) == pytest.approx(0.1 * math.log(64) + 1)


def test_two_magnitudes_meet_in_the_sines_and_one_in_the_scores():
    config = k2(mscale=0.5, mscale_all_dim=2.0)
    once, twice = 0.05 * math.log(64) + 1, 0.2 * math.log(64) + 1
    assert turn_gain(config) == pytest.approx(once / twice)
    assert score_scale(config) == pytest.approx(twice**2 / math.sqrt(22))
    lm = build(config, dtype="float64")
    taps = recorded(lm, IDS)
    before, after = (taps[f"layers.1.self_attn.k_{n}"] for n in ("shared", "rotated"))
    torch.testing.assert_close(after.norm(dim=-1), before.norm(dim=-1) * once / twice)


@pytest.mark.parametrize(
    ("dtype", "angle"),
    [("float64", torch.float64), ("float32", torch.float32), ("bfloat16", torch.float32)],
)
def test_angles_are_float32_or_wider(dtype, angle):
    taps = recorded(build("tiny-k2", dtype=dtype), IDS)
    assert taps["layers.0.self_attn.angle"].dtype == angle
    assert taps["layers.0.self_attn.k_rotated"].dtype == getattr(torch, dtype)
    speed = torch.tensor(frequencies(tiny_k2()), dtype=torch.float64)
    exact = torch.arange(21)[:, None] * speed
    bound = 1e-14 if dtype == "float64" else 1e-6
    assert (taps["layers.0.self_attn.angle"][0] - exact).abs().max() <= bound * exact.max()


def test_turned_keys_of_a_long_context_keep_float32_s_precision_in_bfloat16():
    lm = build("tiny-k2", dtype="bfloat16")
    attention = lm.layers[0].self_attn
    rows = lm.rows(torch.zeros(1, 4000, dtype=torch.long), None, None)
    x = torch.zeros(1, 4000, 40, dtype=torch.bfloat16)
    cosine, _ = attention.turn(x, rows)
    speed = torch.tensor(attention.frequencies, dtype=torch.float64)
    exact = torch.arange(4000)[:, None] * speed
    assert (cosine[0] - exact.cos()).abs().max() < 1e-3


@pytest.mark.parametrize("mla", ["expanded", "latent"])
def test_padding_takes_no_position(mla):
    lm, lengths = build("tiny-k2", dtype="float64"), torch.tensor([3, 9])
    kept = lm.new_cache(2, mla=mla)
    lm(IDS[:, :9], kept, lengths)
    first = recorded(lm, IDS[:, 9:11], kept)["layers.2.self_attn.angle"]
    later = recorded(lm, IDS[:, 11:12], kept)["layers.2.self_attn.angle"]
    fastest = frequencies(tiny_k2())[0]
    positions = torch.cat([first, later], dim=1)[..., 0] / fastest
    torch.testing.assert_close(positions, torch.tensor([[3.0, 4, 5], [9, 10, 11]]).double())


def test_both_caches_keep_keys_that_are_turned_already():
    lm = build("tiny-k2", dtype="float64")
    for mla in ("expanded", "latent"):
        kept = lm.new_cache(2, mla=mla)
        turned = [recorded(lm, IDS[:, a:b], kept) for a, b in ((0, 20), (20, 21))]
        for i, layer in enumerate(kept.layers):
            keys = torch.cat([taps[f"layers.{i}.self_attn.k_rotated"] for taps in turned], dim=1)
            if mla == "latent":
                assert torch.equal(layer.shared, keys)
                continue
            for head in layer.k[..., 10:].unbind(1):
                assert torch.equal(head, keys)


def test_kimi_linear_turns_nothing_whatever_base_its_file_names():
    config = preset("tiny-kimi-linear")
    assert config.rope_theta is not None
    lm, other = build(config), build(dataclasses.replace(config, rope_theta=None))
    assert torch.equal(lm(IDS), other(IDS))
    assert not [name for name in recorded(lm, IDS) if name.endswith(("angle", "rotated"))]


def test_the_order_of_keys_changes_what_a_rotated_model_reads():
    """Without turning, one layer of attention reads its past as a set."""
    swapped = IDS[:, [1, 0, *range(2, 21)]]
    for name, sees_order in (("tiny-k2", True), ("tiny-kimi-linear", False)):
        config = dataclasses.replace(
            preset(name),
            num_hidden_layers=1,
            mixers=("mla",),
            feed_forwards=("dense",),
        )
        lm = build(config, dtype="float64")
        gap = (lm(IDS)[:, -1] - lm(swapped)[:, -1]).abs().max()
        assert (gap > 1e-3) == sees_order, name
