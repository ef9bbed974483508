"""The ready-made views show what the tensors mean, computed here from the equations."""

import ml_dtypes
import numpy as np
import pytest

from model.peek_views import VIEWS, decay, residual, router
from model.presets import hf
from model.source import open_source
from model.source_files import OverBoundError
from tests.hub.checkpoints import sharded, single, written
from tests.hub.server import Repo

NAME = "org/model"
rng = np.random.default_rng(11)
CONFIG = hf("tiny-k3")
LINEAR = CONFIG["linear_attn_config"]
HEADS, CHANNELS, WIDTH = LINEAR["num_heads"], LINEAR["head_dim"], CONFIG["hidden_size"]
LAYERS = range(4)
KDA = [layer for layer in LAYERS if layer + 1 not in LINEAR["full_attn_layers"]]
EXPERTS = CONFIG["num_experts"]


def normal(*shape, dtype="<f4"):
    return rng.normal(size=shape).astype(dtype)


def k3_layer(layer):
    """What the views read of a layer, as K3's checkpoint names, shapes and stores it."""
    at = f"language_model.model.layers.{layer}"
    held = {}
    for place in ("self_attention_res", "mlp_res"):
        held[f"{at}.{place}_norm.weight"] = normal(WIDTH, dtype=ml_dtypes.bfloat16)
        held[f"{at}.{place}_proj.weight"] = normal(1, WIDTH, dtype=ml_dtypes.bfloat16)
    if layer in KDA:
        padded = np.concatenate([normal(HEADS), np.zeros(32, dtype="<f4")])
        held[f"{at}.self_attn.A_log"] = padded
        held[f"{at}.self_attn.dt_bias"] = normal(HEADS * CHANNELS)
    if layer > 0:
        held[f"{at}.block_sparse_moe.gate.e_score_correction_bias"] = normal(EXPERTS)
    held[f"{at}.mlp.down_proj.weight"] = np.zeros((WIDTH, WIDTH), dtype="<f4")
    return held


K3 = [k3_layer(layer) for layer in LAYERS]
K3[-1]["language_model.model.output_attn_res_norm.weight"] = normal(WIDTH)
K3[-1]["language_model.model.output_attn_res_proj.weight"] = normal(1, WIDTH)
ALL = {name: array for shard in K3 for name, array in shard.items()}


@pytest.fixture(params=["folder", "hub"])
def k3(request, hub, tmp_path):
    files = sharded(K3, {"text_config": CONFIG})
    if request.param == "folder":
        return open_source(str(written(files, tmp_path / "k3")))
    hub.repos[NAME] = Repo(files)
    return open_source(NAME)


def folder(tmp_path, tensors, config=CONFIG):
    return open_source(str(written(single(tensors, config), tmp_path / "one")))


def of_k3(layer, part):
    return ALL[f"language_model.model.layers.{layer}.{part}"].astype(np.float64)


def test_decay_shows_each_heads_rate_and_each_channels_bias(k3):
    found = decay(k3)
    assert found.layers == tuple(KDA)
    assert found.rate.shape == (len(KDA), HEADS)
    assert found.dt_bias.shape == (len(KDA), HEADS, CHANNELS)
    for row, layer in enumerate(KDA):
        np.testing.assert_allclose(found.rate[row], np.exp(of_k3(layer, "self_attn.A_log")[:HEADS]))
        biases = of_k3(layer, "self_attn.dt_bias")
        np.testing.assert_array_equal(found.dt_bias[row, 1, 2], biases[CHANNELS + 2])
    assert found.planned == len(KDA) * 4 * (HEADS + 32 + HEADS * CHANNELS)


def test_decay_at_rest_is_that_of_the_bounded_gate(k3):
    found = decay(k3)
    z = np.exp(of_k3(KDA[0], "self_attn.A_log")[1]) * found.dt_bias[0, 1]
    np.testing.assert_allclose(found.log_decay[0, 1], -5.0 / (1.0 + np.exp(-z)))
    assert found.gate_lower_bound == -5.0
    np.testing.assert_allclose(np.exp(found.log_decay * found.half_life), 0.5)


def test_decay_of_kimi_linear_is_that_of_the_softplus_gate(tmp_path):
    config = hf("tiny-kimi-linear")
    linear = config["linear_attn_config"]
    heads, channels = linear["num_heads"], linear["head_dim"]
    tensors = {
        "model.layers.0.self_attn.A_log": normal(1, 1, heads, 1),
        "model.layers.0.self_attn.dt_bias": normal(heads * channels),
    }
    found = decay(folder(tmp_path, tensors, config))
    rate = np.exp(tensors["model.layers.0.self_attn.A_log"].astype(np.float64).ravel())
    bias = tensors["model.layers.0.self_attn.dt_bias"].astype(np.float64).reshape(heads, channels)
    np.testing.assert_allclose(found.log_decay[0], -rate[:, None] * np.log1p(np.exp(bias)))
    assert found.gate_lower_bound is None


def test_rates_that_are_no_numbers_stay_so(tmp_path):
    a_log = np.array([1e4, -1e4, np.nan, *[0.0] * (HEADS - 3)], dtype="<f4")
    tensors = {
        "model.layers.0.self_attn.A_log": a_log,
        "model.layers.0.self_attn.dt_bias": np.zeros(HEADS * CHANNELS, dtype="<f4"),
    }
    found = decay(folder(tmp_path, tensors))
    assert found.rate[0, 0] == np.inf
    assert found.rate[0, 1] == 0
    assert np.isnan(found.rate[0, 2])
    assert np.isnan(found.half_life[0, 2]).all()


@pytest.mark.parametrize(
    ("a_log", "dt_bias", "words"),
    [
        (normal(HEADS - 1), normal(HEADS * CHANNELS), "not for"),
        (normal(HEADS + 1), normal(HEADS * CHANNELS), "not for"),
        (normal(HEADS), normal(HEADS * CHANNELS + 1), "belong there"),
    ],
)
def test_tensors_of_other_sizes_than_the_configuration_are_refused(tmp_path, a_log, dt_bias, words):
    tensors = {"model.layers.0.self_attn.A_log": a_log, "model.layers.0.self_attn.dt_bias": dt_bias}
    with pytest.raises(ValueError, match=words):
        decay(folder(tmp_path, tensors))


def test_residual_queries_are_norm_times_projection_in_the_order_of_reading(k3):
    found = residual(k3)
    assert found.places == (
        *(f"layers.{i}.{part}" for i in LAYERS for part in ("self_attention_res", "mlp_res")),
        "output_attn_res",
    )
    at = found.places.index("layers.2.mlp_res")
    query = of_k3(2, "mlp_res_norm.weight") * of_k3(2, "mlp_res_proj.weight")[0]
    np.testing.assert_allclose(found.vectors[at], query)
    other = found.vectors[-1]
    cosine = query @ other / np.sqrt(query @ query * (other @ other))
    assert found.cosine[at, -1] == pytest.approx(cosine)
    np.testing.assert_allclose(np.diag(found.cosine), 1.0)
    np.testing.assert_allclose(found.lengths[at], np.sqrt(query @ query))


def test_layers_come_in_the_order_of_their_numbers(tmp_path):
    tensors = {
        f"model.layers.{i}.mlp_res_{part}.weight": normal(4)
        for i in (10, 9, 2)
        for part in ("norm", "proj")
    }
    found = residual(folder(tmp_path, tensors))
    assert found.places == tuple(f"layers.{i}.mlp_res" for i in (2, 9, 10))


def test_a_query_of_zeros_has_no_direction(tmp_path):
    tensors = {
        "model.output_attn_res_norm.weight": normal(4),
        "model.output_attn_res_proj.weight": np.zeros((1, 4), dtype="<f4"),
    }
    assert np.isnan(residual(folder(tmp_path, tensors)).cosine).all()


def test_a_projection_without_its_norm_is_refused(tmp_path):
    tensors = {"model.output_attn_res_proj.weight": normal(1, 4)}
    with pytest.raises(ValueError, match="which goes with a projection"):
        residual(folder(tmp_path, tensors))


@pytest.mark.parametrize("moe", ["block_sparse_moe", "mlp"])
def test_router_biases_come_by_layer_in_every_models_words(tmp_path, moe):
    tensors = {f"model.layers.{i}.{moe}.gate.e_score_correction_bias": normal(6) for i in (3, 11)}
    found = router(folder(tmp_path, tensors))
    assert found.layers == (3, 11)
    np.testing.assert_array_equal(found.bias, [*tensors.values()])


def test_router_biases_of_k3_are_found(k3):
    found = router(k3)
    assert found.layers == (1, 2, 3)
    gate = "block_sparse_moe.gate.e_score_correction_bias"
    np.testing.assert_array_equal(found.bias[1], of_k3(2, gate))
    assert found.planned == 3 * 4 * EXPERTS


@pytest.mark.parametrize("view", VIEWS)
def test_a_model_without_such_tensors_is_told_so(tmp_path, view):
    with pytest.raises(LookupError, match="this view is for models"):
        VIEWS[view](folder(tmp_path, {"model.norm.weight": normal(4)}))


@pytest.mark.parametrize("view", VIEWS)
def test_a_view_reads_just_its_tensors_within_its_bound(hub, view):
    hub.repos[NAME] = Repo(sharded(K3, {"text_config": CONFIG}))
    source = open_source(NAME)
    found = VIEWS[view](source)
    spent = source.transferred
    assert VIEWS[view](source).planned == found.planned == source.transferred - spent
    with pytest.raises(OverBoundError, match="and the bound is"):
        VIEWS[view](source, bound=found.planned - 1)
    assert source.transferred == spent + found.planned
