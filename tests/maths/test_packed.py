"""Matrices that share their memory stay parameters like all others."""

import copy

import pytest
import torch

from model.load import build, load_weights, upstream_state
from model.packed import Packed

IDS = torch.arange(12)[None]


def packs(lm):
    return {
        f"{path}.{name}": value
        for path, module in lm.named_modules()
        for name, value in vars(module).items()
        if isinstance(value, Packed)
    }


def decoded(lm):
    kept = lm.new_cache()
    lm(IDS[:, :-1], kept)
    return lm(IDS[:, -1:], kept)


def test_matrices_lie_side_by_side_in_every_layer():
    found = packs(build("tiny-k3"))
    assert {name.rpartition(".")[2] for name in found} == {
        *("projections", "convolutions", "gate_and_up", "w1_and_w3"),
    }
    for name, pack in found.items():
        assert pack.as_one() is not None, name


@pytest.mark.parametrize("dtype", ["float32", "float64", "bfloat16"])
def test_one_product_gives_what_each_matrix_gives(dtype):
    lm = build("tiny-k3", dtype=dtype)
    pack = lm.layers[0].self_attn.projections
    x = torch.randn(3, 1, 32).to(lm.embed_tokens.weight.dtype)
    for together, matrix in zip(pack(x), pack.matrices(), strict=True):
        torch.testing.assert_close(together, x @ matrix.T)


@pytest.mark.parametrize(
    "moved",
    [
        lambda lm: copy.deepcopy(lm),
        lambda lm: copy.deepcopy(lm).double().float(),
    ],
    ids=["copied", "to another dtype and back"],
)
def test_a_model_that_was_moved_reads_its_own_matrices(moved):
    lm, other = moved(build("tiny-k3", seed=1)), build("tiny-k3", seed=2)
    load_weights(lm, upstream_state(other))
    torch.testing.assert_close(decoded(lm), decoded(other))


def test_a_matrix_that_was_replaced_is_the_one_that_is_read():
    lm, other = build("tiny-k3", seed=1), build("tiny-k3", seed=1)
    k_proj = lm.layers[0].self_attn.k_proj
    k_proj.weight.data = torch.zeros_like(k_proj.weight)
    other.layers[0].self_attn.k_proj.weight.zero_()
    torch.testing.assert_close(decoded(lm), decoded(other))


def test_a_gradient_reaches_each_matrix_in_decode():
    lm = build("tiny-k3", dtype="float64").requires_grad_(True)
    decoded(lm).square().sum().backward()
    pack = lm.layers[1].self_attn.projections
    assert all(matrix.grad is not None and matrix.grad.any() for matrix in pack.matrices())


def test_names_and_hash_do_not_depend_on_where_parameters_lie():
    lm = build("tiny-k3")
    assert copy.deepcopy(lm).weights_hash == lm.weights_hash
    assert list(copy.deepcopy(lm).state_dict()) == list(lm.state_dict())
    assert "layers.0.self_attn.q_proj.weight" in lm.state_dict()
