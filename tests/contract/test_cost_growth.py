"""How sizes grow with the context, and what arithmetic they stand for."""

from dataclasses import replace
from functools import cache, partial

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from model.cost import (
    FACTS,
    Case,
    capture_bytes,
    coefficients,
    evaluate,
    fact,
    flops,
    kept,
    module_parameters,
    parameters,
    total_kept_bytes,
    traffic,
    weight_bytes,
)
from model.presets import preset, tiny_k3

K3, K2, KIMI_LINEAR = preset("k3"), preset("k2"), preset("kimi-linear")

GROWING = {
    "expanded values": lambda p: kept(K3, "expanded", positions=p).values,
    "latent bytes of all layers": lambda p: kept(K3, "latent", positions=p).total_bytes,
    "kda bytes": lambda p: kept(K3, "kda", positions=p).bytes,
    "everything kept": lambda p: total_kept_bytes(Case(config=KIMI_LINEAR, positions=p)),
    "scores in prefill": lambda p: flops(
        K3, "KimiMLAAttention.scores", positions=p, phase="prefill"
    ),
    "reads in decode": lambda p: flops(K2, "KimiMLAAttention.read", batch=3, positions=p),
    "kda in prefill": lambda p: flops(K3, "self_attn", positions=p, phase="prefill", layer=0),
    "a layer in prefill": lambda p: flops(K3, "layer", positions=p, phase="prefill", layer=92),
    "K3 in decode": lambda p: flops(K3, "lm", positions=p),
    "K2 in prefill": lambda p: flops(K2, "lm", positions=p, phase="prefill"),
    "bytes read": lambda p: traffic(K3, positions=p).total,
}


@cache
def fitted(name):
    return coefficients(GROWING[name])


@pytest.mark.parametrize("name", GROWING)
@settings(max_examples=15, deadline=None)
@given(positions=st.integers(1, 1_048_576))
def test_coefficients_give_the_formula_at_any_context(name, positions):
    size = GROWING[name]
    exact = size(positions)
    exact = exact if isinstance(exact, int) else exact.value
    assert evaluate(fitted(name), positions) == exact


def test_every_fact_follows_the_context_by_its_coefficients():
    for name in FACTS:
        for phase in ("prefill", "decode"):
            try:
                first = fact(name, K3, phase=phase).value
            except LookupError:
                continue
            if isinstance(first, int):
                ask = partial(fact, name, K3, phase=phase)
                parts = coefficients(lambda p, ask=ask: ask(positions=p))
                assert evaluate(parts, 4_096) == first
                # a browser multiplies by the batch, or leaves it
                assert ask(batch=3).value in (first, 3 * first)


def test_degrees_are_those_of_the_mechanism():
    assert coefficients(GROWING["kda bytes"]) == (6_586_368, 0, 0)
    assert coefficients(GROWING["expanded values"]) == (0, 30_720, 0)
    assert coefficients(GROWING["scores in prefill"]) == (0, 96 * 192, 96 * 192)


def test_a_size_that_grows_in_steps_is_refused():
    with pytest.raises(ValueError, match="no polynomial"):
        coefficients(lambda p: (p + 1) // 2)


def test_what_captures_hold_is_squared_in_the_prompt():
    config = tiny_k3()
    pattern = {"layers.3.self_attn.pattern"}
    assert capture_bytes(config, 100, names=pattern) == 4 * 2 * 100 * 100


@pytest.mark.parametrize("config", [K3, K2, KIMI_LINEAR], ids=["k3", "k2", "kimi-linear"])
def test_a_short_decode_costs_two_operations_for_every_active_weight(config):
    weights = 2 * parameters(config).active
    assert weights < flops(config, "lm", positions=1).value < 1.05 * weights


def test_the_delta_rule_costs_the_same_at_any_context():
    ask = {"positions": 7, "layer": 0}
    early, late = (flops(K3, "self_attn", **(ask | {"positions": p})).value for p in (7, 10**6))
    assert early == late
    recalled = flops(K3, "KimiDeltaAttention.recalled")
    assert recalled.value == 2 * 96 * 128 * 128


def test_prefill_of_kda_is_counted_as_its_report_does():
    per_head = 6 * 4_096 * 128**2 + 3 * 4_096 * 64 * 128 + 4_096 * 64**2
    formula = flops(K3, "self_attn", positions=4_096, phase="prefill", layer=0)
    names, numbers = formula.formula.split(" + "), formula.substituted.split(" = ")[0].split(" + ")
    parts = dict(zip(names, numbers, strict=True))
    assert parts["delta rule in chunks"] == f"{96 * per_head:,}"


def test_absorbed_decode_reads_latents():
    scores = flops(K3, "KimiMLAAttention.scores", positions=10, mla="latent")
    assert scores.value == 2 * 96 * 10 * 576
    read = flops(K3, "KimiMLAAttention.read", positions=10, mla="latent")
    assert read.value == 2 * 96 * 10 * 512


def test_a_place_has_to_be_named_where_it_decides():
    with pytest.raises(LookupError, match="at="):
        flops(K3, "RMSNorm.normed")
    assert flops(K3, "RMSNorm.normed", at="self_attn.kv_a_layernorm").value == 4 * 512
    with pytest.raises(LookupError, match="layer="):
        flops(K3, "self_attn")
    assert flops(K3, "mlp_res", layer=92).value == 7 * 9 * 7_168
    assert flops(K3, "self_attention_res", layer=0).value == 0


@pytest.mark.parametrize("phase", ["prefill", "decode"])
def test_the_work_of_a_call_is_proportional_to_the_batch(phase):
    one, three = (flops(K3, "lm", batch=b, positions=77, phase=phase).value for b in (1, 3))
    assert three == 3 * one


def test_the_bytes_read_for_a_token_are_active_weights_and_caches():
    read = traffic(K2, positions=4_096, mla="latent")
    assert read.cache.value == 70_272 * 4_096
    assert read.total.value == read.weights.value + read.cache.value


def test_a_larger_batch_reads_more_experts_until_all_are_read():
    def read(batch):
        return traffic(K3, batch=batch, positions=1).weights.value

    # half a byte a value and a byte of scale for 32; 16 of 896 experts a token in 92 layers
    expert = 3 * 3_072 * 3_584 * 17 // 32
    embedding = 2 * 163_840 * 7_168
    assert read(56) == read(99) == weight_bytes(K3) - embedding
    assert read(56) - read(1) == 92 * (896 - 16) * expert
    assert read(2) - read(1) == 92 * 16 * expert


@pytest.mark.parametrize(
    ("path", "layer", "count"),
    [
        ("self_attn.kv_b_proj", 3, 12_582_912),
        ("self_attn.q_b_proj", 3, 28_311_552),
        ("self_attn.q_conv1d", 0, 49_152),
        ("self_attn.dt_bias", 0, 12_288),
        ("self_attention_res", 5, 14_336),
        ("block_sparse_moe.gate", 5, 6_423_424),
        ("block_sparse_moe.experts.17", 5, 33_030_144),
        ("block_sparse_moe.experts.17.w1", 5, 11_010_048),
        ("mlp.gate_proj", 0, 242_221_056),
        ("norm", None, 7_168),
        ("lm_head", None, 1_174_405_120),
        ("layer", 92, 30_017_175_936),
    ],
)
def test_a_module_knows_its_parameters(path, layer, count):
    assert module_parameters(K3, path, layer).value == count


def test_a_module_that_is_not_there_is_refused_in_words():
    with pytest.raises(LookupError, match="no module 'mlp' in layer 5"):
        module_parameters(K3, "mlp", 5)
    with pytest.raises(LookupError, match="layers are 0 to 92"):
        module_parameters(K3, "self_attn", 93)


def test_a_layer_of_unknown_kind_gives_a_sentence_and_no_number():
    strange = replace(tiny_k3(), mixers=("kda", "mamba", "kda", "mla", "mla"))
    for ask in (
        lambda: kept(strange, "latent"),
        lambda: parameters(strange),
        lambda: flops(strange, "lm"),
        lambda: capture_bytes(strange, 4),
    ):
        with pytest.raises(ValueError, match="Layer 1 has the kind 'mamba'"):
            ask()
