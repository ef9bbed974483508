"""Weights come in under upstream names, all of them and nothing else."""

import json

import pytest
import torch
from safetensors.torch import save_file

from model.load import build, load, load_weights, upstream_names, upstream_state
from model.spelling import expert_part, from_upstream, to_upstream

IDS = torch.arange(20)[None]


def other(seed=9):
    return {name: t.clone() for name, t in upstream_state(build("tiny-k3", seed=seed)).items()}


@pytest.mark.parametrize("prefix", ["", "language_model."])
def test_weights_go_out_and_in_again(prefix):
    lm, tensors = build("tiny-k3", seed=0), other()
    load_weights(lm, {prefix + name: tensor for name, tensor in tensors.items()})
    assert torch.equal(lm(IDS), build("tiny-k3", seed=9)(IDS))
    assert lm.weights_note == ""


def test_names_are_those_of_the_checkpoint():
    names = set(upstream_names(build("k3", device="meta")))
    # the checkpoint holds each routed matrix as packed values and scales: twice the tensors
    experts = 92 * 896 * 3
    assert len(names) + experts == 497_052
    assert {
        "lm_head.weight",
        "model.output_attn_res_norm.weight",
        "model.layers.0.self_attention_res_proj.weight",
        "model.layers.0.self_attn.A_log",
        "model.layers.92.block_sparse_moe.experts.895.w2.weight",
        "model.layers.92.self_attn.kv_a_proj_with_mqa.weight",
    } <= names


def test_kimi_linear_has_the_tensors_of_its_scheme():
    assert len(set(upstream_names(build("kimi-linear", device="meta")))) == 20_493


def test_k2_words_for_experts_are_understood():
    name = from_upstream("model.layers.7.mlp.experts.12.down_proj.weight")
    assert name == "layers.7.block_sparse_moe.experts.12.w2.weight"
    assert expert_part(name) == ("layers.7.block_sparse_moe.experts.w2", 12)
    gate = "model.layers.7.mlp.gate.e_score_correction_bias"
    assert from_upstream(gate) == "layers.7.block_sparse_moe.gate.e_score_correction_bias"
    assert from_upstream("model.layers.0.mlp.gate_proj.weight") == "layers.0.mlp.gate_proj.weight"


def test_every_name_comes_back():
    for name in upstream_names(build("tiny-k3", device="meta")):
        ours = from_upstream(name)
        part = expert_part(ours)
        assert (to_upstream(*part) if part else to_upstream(ours)) == name


def test_all_mismatches_are_reported_at_once():
    tensors = other()
    del tensors["model.norm.weight"]
    tensors["model.layers.9.odd"] = torch.zeros(1)
    tensors["lm_head.weight"] = torch.zeros(2, 2)
    for j in range(12):
        tensors[f"model.layers.1.block_sparse_moe.experts.{j + 6}.w1.weight"] = torch.zeros(1)
    with pytest.raises(ValueError, match="do not fit") as error:
        load_weights(build("tiny-k3"), tensors)
    text = str(error.value)
    assert "1 missing: model.norm.weight" in text
    assert "13 unexpected" in text
    assert "…" in text
    assert "lm_head.weight [2, 2] for [320, 32]" in text


def test_padded_heads_of_a_log_must_be_zero():
    lm, tensors = build("tiny-k3"), other()
    name = "model.layers.0.self_attn.A_log"
    tensors[name] = torch.tensor([0.1, 0.2, 0.3, 0.0])
    load_weights(lm, tensors)
    torch.testing.assert_close(lm.layers[0].self_attn.A_log, torch.tensor([0.1, 0.2, 0.3]))
    tensors[name] = torch.tensor([0.1, 0.2, 0.3, 0.4])
    with pytest.raises(ValueError, match="beyond are not zero"):
        load_weights(lm, tensors)
    tensors[name] = torch.tensor([0.5, 0.2, 0.3]).view(1, 1, 3, 1)
    load_weights(lm, tensors)
    assert float(lm.layers[0].self_attn.A_log[0]) == 0.5


def test_a_folder_can_be_loaded(tmp_path):
    config = build("tiny-k3", device="meta").config
    (tmp_path / "config.json").write_text(json.dumps({"text_config": config.to_hf()}))
    save_file(other(), tmp_path / "model.safetensors")
    lm = load(str(tmp_path), device="cpu")
    assert torch.equal(lm(IDS), build("tiny-k3", seed=9)(IDS))
    assert lm.source == str(tmp_path)


def test_the_default_model_says_what_its_weights_are():
    lm = load("k3-mini", device="cpu")
    assert lm.source == "k3-mini"
    assert lm.weights_note in ("seeded random weights", "")
    assert lm.kernels == "torch"


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: build("tiny-k3", dtype="int8"), "choose one of bfloat16"),
        (lambda: load("k3"), "without weights"),
        (lambda: load("tiny-k3", revision="main"), "revision='main' is for models of the Hub"),
    ],
    ids=["dtype", "released", "revision"],
)
def test_what_cannot_be_made_is_refused_in_words(call, words):
    with pytest.raises(ValueError, match=words):
        call()


def test_a_source_that_is_nothing_is_refused():
    with pytest.raises(LookupError, match="no preset"):
        load("nowhere")
