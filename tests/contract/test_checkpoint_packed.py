"""A packed checkpoint in upstream's layout loads to the values that its format defines."""

import dataclasses

import pytest
import torch

from model.load import build, load, load_weights, upstream_state
from model.presets import tiny_k2, tiny_k3, tiny_kimi_linear
from tests.contract.packed_checkpoint import in_k2_words, k2_fp8, k3_mxfp4, plain_state, write

K3 = dataclasses.replace(
    tiny_k3(),
    num_hidden_layers=4,
    mixers=tiny_k3().mixers[:4],
    feed_forwards=tiny_k3().feed_forwards[:4],
    num_experts=3,
    moe_intermediate_size=32,
    routed_expert_hidden_size=64,
)
K2 = dataclasses.replace(
    tiny_k2(),
    num_hidden_layers=2,
    mixers=("mla",) * 2,
    feed_forwards=("dense", "moe"),
    hidden_size=140,
    intermediate_size=260,
    moe_intermediate_size=130,
    num_experts=2,
)
CASES = {"k3": (K3, k3_mxfp4), "k2": (K2, k2_fp8)}
LEFT_OUT = {
    "k3": "tensors left out: 3 of vision",
    "k2": "tensors left out: 2 of multi-token prediction, 1 of rotary tables",
}


@pytest.fixture(scope="module", params=CASES)
def released(request):
    config, make = CASES[request.param]
    return request.param, config, *make(config)


def expected(meant, dtype):
    """Rounded once to the dtype asked for, but for the few that stay in float32."""
    kept = upstream_state(build_like(meant, dtype))
    return {name: meant[name].to(kept[name].dtype) for name in kept}


def build_like(meant, dtype):
    config = K3 if any("A_log" in name for name in meant) else K2
    return build(config, dtype=dtype)


@pytest.mark.parametrize("shards", [1, 5])
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_a_released_layout_loads_to_exactly_its_values(tmp_path, released, dtype, shards):
    name, config, stored, meant = released
    lm = load(str(write(tmp_path, config, stored, shards)), device="cpu", dtype=dtype)
    state, wanted = upstream_state(lm), expected(meant, dtype)
    assert state.keys() == wanted.keys()
    for key, tensor in state.items():
        assert tensor.dtype == wanted[key].dtype
        assert torch.equal(tensor, wanted[key]), key
    assert lm.weights_note == LEFT_OUT[name]
    assert torch.isfinite(lm(torch.arange(9)[None])).all()


def test_packed_tensors_at_hand_are_taken_as_well(released):
    _, config, stored, meant = released
    lm = build(config)
    with pytest.raises(ValueError, match=r"\d unexpected"):
        load_weights(lm, stored)
    beside = ("vision", "mm_projector", "inv_freq", f"layers.{config.num_hidden_layers}.")
    load_weights(lm, {n: t for n, t in stored.items() if not any(word in n for word in beside)})
    wanted = expected(meant, "float32")
    assert all(torch.equal(tensor, wanted[key]) for key, tensor in upstream_state(lm).items())


def test_plain_weights_in_k2s_words_load(tmp_path):
    state = plain_state(tiny_k2(), seed=3)
    lm = load(str(write(tmp_path, tiny_k2(), {in_k2_words(n): t for n, t in state.items()}, 3)))
    for key, tensor in upstream_state(lm).items():
        assert torch.equal(tensor, state[key].float()), key


def test_kimi_linears_rates_on_four_axes_load(tmp_path):
    state = plain_state(tiny_kimi_linear(), seed=3)
    heads = tiny_kimi_linear().linear_attn_config.num_heads
    on_axes = {n: t.view(1, 1, heads, 1) if n.endswith("A_log") else t for n, t in state.items()}
    lm = load(str(write(tmp_path, tiny_kimi_linear(), on_axes)))
    for key, tensor in upstream_state(lm).items():
        assert torch.equal(tensor, state[key].float()), key


@pytest.mark.parametrize("stored", [torch.float64, torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("asked", ["float64", "float32", "bfloat16", "float16"])
def test_each_float_of_a_file_is_rounded_to_the_one_asked_for(tmp_path, stored, asked):
    state = {n: t.to(stored) for n, t in upstream_state(build("tiny-k3", seed=4)).items()}
    lm = load(str(write(tmp_path, tiny_k3(), state)), device="cpu", dtype=asked)
    for key, tensor in upstream_state(lm).items():
        assert torch.equal(tensor, state[key].to(tensor.dtype)), key
    assert lm.weights_note == ""


@pytest.mark.parametrize("code", [0x7F, 0xFF])
def test_codes_that_are_no_number_come_in_and_are_said(tmp_path, code):
    stored, _ = k2_fp8(K2)
    weight = "model.layers.0.self_attn.o_proj.weight"
    stored[weight].view(torch.uint8)[1, 2] = code
    lm = load(str(write(tmp_path, K2, stored)), device="cpu")
    assert torch.isnan(lm.layers[0].self_attn.o_proj.weight[1, 2])
    assert f"1 of 35 tensors hold NaN or infinity, as {weight}" in lm.weights_note


def test_a_scale_that_is_no_number_makes_its_group_none(tmp_path):
    stored, _ = k3_mxfp4(K3)
    weight = "language_model.model.layers.2.block_sparse_moe.experts.1.w1.weight"
    stored[f"{weight}_scale"][3, 1] = 255
    lm = load(str(write(tmp_path, K3, stored)), device="cpu")
    odd = lm.layers[2].block_sparse_moe.experts.w1[1].isnan()
    assert odd[3, 32:].all()
    assert odd.sum() == 32
    assert f"hold NaN or infinity, as {weight}_packed" in lm.weights_note


def test_a_value_beyond_the_dtype_asked_for_is_said(tmp_path):
    state = plain_state(tiny_k3())
    state["lm_head.weight"][5, 6] = 1e6
    folder = str(write(tmp_path, tiny_k3(), state))
    assert load(folder, device="cpu", dtype="float32").weights_note == ""
    note = load(folder, device="cpu", dtype="float16").weights_note
    assert note == "1 of 200 tensors hold NaN or infinity, as lm_head.weight"


EXPERT = "language_model.model.layers.1.block_sparse_moe.experts.0.w2.weight"
PROJECTION = "model.layers.0.self_attn.o_proj.weight"


@pytest.mark.parametrize(
    ("case", "change", "words"),
    [
        ("k3", {f"{EXPERT}_scale": None}, f"1 packed without its scale: {EXPERT}_packed"),
        ("k3", {f"{EXPERT}_packed": None}, f"1 scale without its weight: {EXPERT}_scale"),
        ("k2", {f"{PROJECTION}_scale_inv": None}, f"1 packed without its scale: {PROJECTION}"),
        ("k2", {PROJECTION: None}, f"1 scale without its weight: {PROJECTION}_scale_inv"),
        ("k2", {PROJECTION: torch.bfloat16}, "1 scale without its weight"),
        ("k3", {f"{EXPERT}_packed": torch.int8}, f"not read: {EXPERT}_packed as I8"),
        ("k3", {f"{EXPERT}_scale": torch.float16}, f"{EXPERT}_scale as F16, the scale of mxfp4"),
        ("k2", {f"{PROJECTION}_scale_inv": torch.bfloat16}, "as BF16, the scale of fp8"),
        ("k2", {PROJECTION: torch.uint8}, f"not read: {PROJECTION} as U8"),
        ("k2", {PROJECTION: torch.float8_e5m2}, f"not read: {PROJECTION} as F8_E5M2"),
        ("k3", {f"{EXPERT}_packed": (64, 15)}, rf"{EXPERT}_packed \[64, 15\] for \[64, 16\]"),
        ("k3", {f"{EXPERT}_scale": (64, 2)}, rf"{EXPERT}_scale \[64, 2\] for \[64, 1\]"),
        ("k2", {f"{PROJECTION}_scale_inv": (1, 1)}, r"_scale_inv \[1, 1\] for \[2, 1\]"),
    ],
    ids=[
        *("no scale", "no codes", "no blocks", "no weight", "plain and scaled", "signed codes"),
        *("float scale", "narrow blocks", "no float", "another float", "codes cut"),
        *("scales too many", "blocks too few"),
    ],
)
def test_packed_weights_that_do_not_fit_are_reported(tmp_path, case, change, words):
    config, make = CASES[case]
    stored, _ = make(config)
    for name, what in change.items():
        if what is None:
            del stored[name]
        elif isinstance(what, tuple):
            stored[name] = torch.zeros(what, dtype=stored[name].dtype)
        else:
            stored[name] = stored[name].float().to(what)
    with pytest.raises(ValueError, match=words) as error:
        load(str(write(tmp_path, config, stored)), device="cpu")
    assert str(error.value).count("\n") == 0


def test_a_weight_given_packed_and_plain_is_given_twice(tmp_path):
    stored, meant = k3_mxfp4(K3)
    stored[EXPERT] = meant[EXPERT.removeprefix("language_model.")]
    with pytest.raises(ValueError, match=f"1 given twice: {EXPERT}"):
        load(str(write(tmp_path, K3, stored)), device="cpu")


def test_a_width_that_groups_do_not_divide_cannot_be_packed(tmp_path):
    state = plain_state(tiny_k3())
    name = "model.layers.1.block_sparse_moe.experts.0.w1.weight"
    del state[name]
    state |= {f"{name}_packed": torch.zeros(12, 8, dtype=torch.uint8)}
    state |= {f"{name}_scale": torch.zeros(12, 1, dtype=torch.uint8)}
    with pytest.raises(ValueError, match=r"misshapen: .*weight_packed, mxfp4 for \[12, 16\]"):
        load(str(write(tmp_path, tiny_k3(), state)), device="cpu")
