"""Counted against the model itself: parameters, captured bytes, cache bytes, matrix products."""

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from model import catalog
from model.capture import capture, tap_names
from model.cost import (
    Case,
    capture_bytes,
    capture_bytes_by_tap,
    flops,
    parameters,
    tap_shape,
    total_kept_bytes,
)
from model.cost_modules import parameter_axes
from model.kimi import KimiLM
from model.load import build
from model.presets import PRESETS, TINY, preset, tiny_k3


def predicted_shapes(config):
    case = Case(config=config)
    return {
        name if layer is None else f"layers.{layer}.{name}": tuple(
            int(case.axis(axis, owner).value) for axis in axes
        )
        for layer in (None, *range(config.num_hidden_layers))
        for name, (owner, axes) in parameter_axes(config, layer).items()
    }


@pytest.mark.parametrize("name", PRESETS)
def test_every_parameter_of_the_built_model_has_the_predicted_shape(name):
    config = preset(name)
    built = {name: tuple(p.shape) for name, p in KimiLM(config).named_parameters()}
    assert built == predicted_shapes(config)
    counts = (torch.Size(shape).numel() for shape in built.values())
    assert parameters(config).total == sum(counts)


def run(lm, ids, tokens, mla):
    """Every step's recording, and the cache after the last."""
    cache = lm.new_cache(batch=ids.shape[0], mla=mla)
    steps = []
    for start, end in [(0, tokens), *((i, i + 1) for i in range(tokens, ids.shape[1]))]:
        with capture() as recording, torch.inference_mode():
            lm(ids[:, start:end], cache=cache)
        steps.append(recording.named(tap_names(lm)))
    return steps, cache


@pytest.mark.parametrize("name", TINY)
@pytest.mark.parametrize("mla", ["expanded", "latent"])
@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float64"])
@pytest.mark.parametrize(("tokens", "new"), [(1, 2), (7, 3), (40, 0)])
def test_captured_and_cached_bytes_are_the_predicted_ones(tokens, new, dtype, mla, name):
    config = preset(name)
    lm = build(name, dtype=dtype)
    ids = torch.arange(2 * (tokens + new)).view(2, -1) % config.vocab_size
    steps, cache = run(lm, ids, tokens, mla)
    seen: dict[str, int] = {}
    for step in steps:
        for name, tensor in step.items():
            seen[name] = seen.get(name, 0) + tensor.numel() * tensor.element_size()
    predicted = capture_bytes_by_tap(config, tokens, new, dtype=dtype, mla=mla, batch=2)
    assert predicted == seen
    case = Case(config=config, batch=2, positions=tokens + new)
    assert total_kept_bytes(case, mla, dtype) == cache.bytes()


def test_values_that_no_call_holds_are_not_predicted():
    config = tiny_k3()
    held = capture_bytes_by_tap(config, 1_024)
    beyond = capture_bytes_by_tap(config, 1_025)
    assert "layers.3.self_attn.pattern" in held
    assert "layers.3.self_attn.pattern" not in beyond
    assert "layers.0.self_attention_res.weights" not in held


@pytest.mark.parametrize("tokens", [1, 511, 512, 513, 1_024, 1_025])
def test_states_are_predicted_at_segment_borders(tokens):
    config = tiny_k3()
    lm = build("tiny-k3")
    name = "layers.1.self_attn.state"
    with capture({name}, model=lm) as recording, torch.inference_mode():
        lm(torch.zeros(1, tokens, dtype=torch.long), cache=lm.new_cache())
    (state,) = recording.tensors.values()
    assert capture_bytes(config, tokens, names={name}) == state.nbytes


@pytest.mark.parametrize("name", TINY)
def test_a_taps_shape_is_the_one_in_the_run(name):
    config = preset(name)
    steps, _ = run(build(name), torch.zeros(2, 5, dtype=torch.long), 5, "expanded")
    paths = catalog.tap_paths(config)
    for tap, tensor in steps[0].items():
        parts = tap.split(".")
        layer = int(parts[1]) if parts[0] == "layers" else None
        inside = ".".join(parts[2:-1] if layer is not None else parts[:-1])
        at = inside or ("lm" if layer is None else "layer")
        shape = tap_shape(config, paths[tap], batch=2, pos=5, layer=layer, at=at)
        assert shape == tuple(tensor.shape), tap


def counted(module, *args):
    with FlopCounterMode(display=False) as counter, torch.inference_mode():
        module(*args)
    return counter.get_total_flops()


@pytest.mark.parametrize("name", TINY)
def test_products_of_attention_in_decode_agree_with_a_counter(name):
    config, lm = preset(name), build(name)
    ids = torch.zeros(1, 9, dtype=torch.long)
    _, cache = run(lm, ids, 9, "expanded")
    rows = lm.rows(ids[:, :1], cache, None)
    x = torch.randn(1, 1, config.hidden_size)
    measured = counted(lm.layers[3].self_attn, x, cache.layers[3], rows)
    taps = ["q_up", "kv_joint", "kv_up", "scores", "read", "out"]
    taps += ["q_down"] if config.q_lora_rank else []
    taps += ["output_gate"] if config.mla_use_output_gate else []
    predicted = (flops(config, f"KimiMLAAttention.{tap}", positions=10).value for tap in taps)
    assert measured == sum(predicted)


@pytest.mark.parametrize("path", ["block_sparse_moe.shared_experts", "lm_head"])
def test_products_of_an_mlp_and_the_head_agree_with_a_counter(path):
    config, lm = tiny_k3(), build("tiny-k3")
    layer = None if path == "lm_head" else 3
    module = lm.get_submodule(path if layer is None else f"layers.3.{path}")
    measured = counted(module, torch.randn(1, 7, 32))
    predicted = flops(config, path, positions=7, phase="prefill", layer=layer).value
    # the product of gate and up has no matrix
    elementwise = 0 if layer is None else 7 * config.moe_intermediate_size * 2
    assert measured == predicted - elementwise


def test_products_of_the_experts_agree_with_a_counter():
    config, lm = tiny_k3(), build("tiny-k3")
    chosen = torch.tensor([[0, 3], [1, 3], [5, 0]])
    measured = counted(lm.layers[3].block_sparse_moe.experts, torch.randn(3, 16), chosen)
    ask = {"positions": 3, "phase": "prefill"}
    hidden = flops(config, "KimiSparseMoE.expert_hidden", **ask).value
    out = flops(config, "KimiSparseMoE.expert_out", **ask).value
    assert measured == hidden + out - 3 * 2 * config.moe_intermediate_size
