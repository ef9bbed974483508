"""Names of the released checkpoints, written out by layer, are understood and given back."""

from functools import cache

import pytest

from model.load import build, upstream_places
from model.presets import preset
from model.spelling import expert_part, from_upstream, in_k2_words, to_upstream

NORMS = ("input_layernorm", "post_attention_layernorm")
KDA = (
    *(f"{part}_{kind}.weight" for part in "qkv" for kind in ("proj", "conv1d")),
    *("f_a_proj.weight", "f_b_proj.weight", "A_log", "dt_bias", "b_proj.weight"),
    *("o_norm.weight", "o_proj.weight"),
)
KEYS_AND_VALUES = (
    *("kv_a_proj_with_mqa.weight", "kv_a_layernorm.weight", "kv_b_proj.weight", "o_proj.weight"),
)
QUERY_LATENT = ("q_a_proj.weight", "q_a_layernorm.weight", "q_b_proj.weight")
MLP = ("gate_proj.weight", "up_proj.weight", "down_proj.weight")


def attention_of(model, layer):
    """What stands below `self_attn.`, layers counted from 1."""
    if model == "k2":
        return (*KEYS_AND_VALUES, *QUERY_LATENT)
    if model == "k3":
        is_mla = layer % 4 == 0 or layer == 93
        return (*(KEYS_AND_VALUES + QUERY_LATENT if is_mla else KDA), "g_proj.weight")
    if layer % 4 == 0 or layer == 27:
        return (*KEYS_AND_VALUES, "q_proj.weight")
    return (*KDA, "g_a_proj.weight", "g_b_proj.weight")


def experts_of(model):
    """What stands below `mlp.` or `block_sparse_moe.`."""
    count, words = {
        "k3": (896, ("w1", "w2", "w3")),
        "kimi-linear": (256, ("w1", "w2", "w3")),
        "k2": (384, ("gate_proj", "up_proj", "down_proj")),
    }[model]
    yield from ("gate.weight", "gate.e_score_correction_bias")
    yield from (f"shared_experts.{name}" for name in MLP)
    if model == "k3":
        yield from (f"routed_expert_{name}.weight" for name in ("down_proj", "up_proj", "norm"))
    yield from (f"experts.{j}.{word}.weight" for j in range(count) for word in words)


def names(model):
    yield from ("model.embed_tokens.weight", "model.norm.weight", "lm_head.weight")
    if model == "k3":
        yield from (f"model.output_attn_res_{part}.weight" for part in ("norm", "proj"))
    for layer in range(1, {"k3": 93, "kimi-linear": 27, "k2": 61}[model] + 1):
        below = [f"{norm}.weight" for norm in NORMS]
        if model == "k3":
            reads = ("self_attention_res", "mlp_res")
            below += [f"{read}_{part}.weight" for read in reads for part in ("norm", "proj")]
        below += [f"self_attn.{name}" for name in attention_of(model, layer)]
        sparse = "mlp" if model == "k2" else "block_sparse_moe"
        if layer == 1:
            below += [f"mlp.{name}" for name in MLP]
        else:
            below += [f"{sparse}.{name}" for name in experts_of(model)]
        yield from (f"model.layers.{layer - 1}.{name}" for name in below)


@cache
def in_k3_words(name):
    ours = from_upstream(name)
    part = expert_part(ours)
    return to_upstream(*part) if part else to_upstream(ours)


MODELS = {"k3": 249_756, "kimi-linear": 20_493, "k2": 69_975}
"""Tensors of the released models, each packed matrix counted once."""


@pytest.mark.parametrize("model", MODELS)
def test_every_name_of_a_released_checkpoint_has_its_place(model):
    written = list(names(model))
    assert len(written) == len(set(written)) == MODELS[model]
    places = [name for name, _ in upstream_places(build(model, device="meta"))]
    assert sorted(map(in_k3_words, written)) == sorted(places)


@pytest.mark.parametrize("model", MODELS)
def test_every_name_goes_back_to_the_words_it_came_in(model):
    back = in_k2_words if model == "k2" else str
    for name in names(model):
        assert back(in_k3_words(name)) == name


def test_the_prefix_of_a_model_with_vision_changes_nothing():
    for name in names("kimi-linear"):
        assert from_upstream(f"language_model.{name}") == from_upstream(name)


def test_k3_has_its_published_number_of_text_tensors():
    # in the checkpoint a routed matrix is two tensors, its values and its scales
    routed = sum(".experts." in name for name in names("k3"))
    assert MODELS["k3"] + routed == 497_052
    assert routed == 92 * 896 * 3


def test_k2_has_the_tensors_of_its_scheme():
    # every matrix but embedding, head and routers has a companion with its scales
    plain = ("norm.weight", "gate.weight", "bias", "embed_tokens.weight", "lm_head.weight")
    scaled = sum(not name.endswith(plain) for name in names("k2"))
    assert MODELS["k2"] + scaled == 139_583


@pytest.mark.parametrize("model", ["tiny-k2", "tiny-kimi-linear"])
def test_the_tiny_models_have_the_names_of_their_families(model):
    family = {"tiny-k2": "k2", "tiny-kimi-linear": "kimi-linear"}[model]
    config = preset(model)
    released = set(map(in_k3_words, names(family)))
    for name, _ in upstream_places(build(model, device="meta")):
        layer = int(name.split(".")[2]) if ".layers." in name else 0
        if family == "k2" or config.is_kda(layer) == preset(family).is_kda(layer):
            assert name in released
