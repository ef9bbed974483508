"""Random weights and inputs in upstream's names, shapes and layout."""

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor

PREFIX = "language_model."
SHRUNKEN = ("q_a_proj.weight", "kv_a_proj_with_mqa.weight")
SHRUNKEN_IN_KDA = ("q_proj.weight", "k_proj.weight")
SHRINK = 50


def upstream_shapes(config: dict[str, Any]) -> Iterator[tuple[str, tuple[int, ...]]]:
    width, vocab = config["hidden_size"], config["vocab_size"]
    yield "model.embed_tokens.weight", (vocab, width)
    for layer in range(config["num_hidden_layers"]):
        prefix = f"model.layers.{layer}."
        for name, shape in _layer_shapes(config, layer):
            yield prefix + name, shape
    if config.get("attn_res_block_size") is not None:
        yield "model.output_attn_res_norm.weight", (width,)
        yield "model.output_attn_res_proj.weight", (1, width)
    yield "model.norm.weight", (width,)
    yield "lm_head.weight", (vocab, width)


def _layer_shapes(config: dict[str, Any], layer: int) -> Iterator[tuple[str, tuple[int, ...]]]:
    width = config["hidden_size"]
    yield "input_layernorm.weight", (width,)
    yield "post_attention_layernorm.weight", (width,)
    if config.get("attn_res_block_size") is not None:
        for read in ("self_attention_res", "mlp_res"):
            yield f"{read}_norm.weight", (width,)
            yield f"{read}_proj.weight", (1, width)
    is_kda = layer + 1 in config["linear_attn_config"]["kda_layers"]
    yield from _kda_shapes(config) if is_kda else _mla_shapes(config)
    if layer < config["first_k_dense_replace"] or layer % config["moe_layer_freq"]:
        yield from _mlp_shapes("mlp", width, config["intermediate_size"])
    else:
        yield from _moe_shapes(config)


def _kda_shapes(config: dict[str, Any]) -> Iterator[tuple[str, tuple[int, ...]]]:
    linear, width = config["linear_attn_config"], config["hidden_size"]
    heads, channels = linear["num_heads"], linear["head_dim"]
    inner = heads * channels
    for part in "qkv":
        yield f"self_attn.{part}_proj.weight", (inner, width)
        yield f"self_attn.{part}_conv1d.weight", (inner, 1, linear["short_conv_kernel_size"])
    yield "self_attn.f_a_proj.weight", (channels, width)
    yield "self_attn.f_b_proj.weight", (inner, channels)
    # the released K3 stores 128 values of which the 96 heads use the first 96
    yield "self_attn.A_log", (-(-heads // 4) * 4,)
    yield "self_attn.dt_bias", (inner,)
    yield "self_attn.b_proj.weight", (heads, width)
    if linear.get("use_full_rank_gate"):
        yield "self_attn.g_proj.weight", (inner, width)
    else:
        yield "self_attn.g_a_proj.weight", (channels, width)
        yield "self_attn.g_b_proj.weight", (inner, channels)
    yield "self_attn.o_norm.weight", (channels,)
    yield "self_attn.o_proj.weight", (width, inner)


def _mla_shapes(config: dict[str, Any]) -> Iterator[tuple[str, tuple[int, ...]]]:
    width, heads = config["hidden_size"], config["num_attention_heads"]
    nope, shared = config["qk_nope_head_dim"], config["qk_rope_head_dim"]
    value, latent = config["v_head_dim"], config["kv_lora_rank"]
    query_latent = config["q_lora_rank"]
    if query_latent is None:
        yield "self_attn.q_proj.weight", (heads * (nope + shared), width)
    else:
        yield "self_attn.q_a_proj.weight", (query_latent, width)
        yield "self_attn.q_a_layernorm.weight", (query_latent,)
        yield "self_attn.q_b_proj.weight", (heads * (nope + shared), query_latent)
    yield "self_attn.kv_a_proj_with_mqa.weight", (latent + shared, width)
    yield "self_attn.kv_a_layernorm.weight", (latent,)
    yield "self_attn.kv_b_proj.weight", (heads * (nope + value), latent)
    if config.get("mla_use_output_gate"):
        yield "self_attn.g_proj.weight", (heads * value, width)
    yield "self_attn.o_proj.weight", (width, heads * value)


def _mlp_shapes(name: str, width: int, inner: int) -> Iterator[tuple[str, tuple[int, ...]]]:
    yield f"{name}.gate_proj.weight", (inner, width)
    yield f"{name}.up_proj.weight", (inner, width)
    yield f"{name}.down_proj.weight", (width, inner)


def _moe_shapes(config: dict[str, Any]) -> Iterator[tuple[str, tuple[int, ...]]]:
    width, inner = config["hidden_size"], config["moe_intermediate_size"]
    latent = config.get("routed_expert_hidden_size")
    yield "block_sparse_moe.gate.weight", (config["num_experts"], width)
    yield "block_sparse_moe.gate.e_score_correction_bias", (config["num_experts"],)
    if latent is not None:
        yield "block_sparse_moe.routed_expert_down_proj.weight", (latent, width)
        yield "block_sparse_moe.routed_expert_up_proj.weight", (width, latent)
        if config.get("latent_moe_use_norm"):
            yield "block_sparse_moe.routed_expert_norm.weight", (latent,)
    shared = inner * config["num_shared_experts"]
    yield from _mlp_shapes("block_sparse_moe.shared_experts", width, shared)
    for expert in range(config["num_experts"]):
        prefix = f"block_sparse_moe.experts.{expert}"
        yield f"{prefix}.w1.weight", (inner, latent or width)
        yield f"{prefix}.w2.weight", (latent or width, inner)
        yield f"{prefix}.w3.weight", (inner, latent or width)


def draw_weights(config: dict[str, Any], seed: int, shrink: bool = False) -> dict[str, Tensor]:
    """Every tensor of the checkpoint, matrices from N(0, 1/fan-in)."""
    generator = torch.Generator().manual_seed(seed)
    weights = {}
    for name, shape in upstream_shapes(config):
        tensor = _draw(name, shape, config, generator)
        if shrink and _shrinks(name, config):
            tensor = tensor / SHRINK
        weights[PREFIX + name] = tensor
    return weights


def _draw(
    name: str, shape: tuple[int, ...], config: dict[str, Any], generator: torch.Generator
) -> Tensor:
    noise = torch.randn(shape, generator=generator)
    if name.endswith("norm.weight"):
        return 1 + 0.2 * noise
    if name.endswith("e_score_correction_bias"):
        return 0.2 * noise
    if name.endswith("A_log"):
        noise[config["linear_attn_config"]["num_heads"] :] = 0
        return noise
    if name.endswith("dt_bias"):
        return noise
    return noise / shape[-1] ** 0.5


def _shrinks(name: str, config: dict[str, Any]) -> bool:
    if name.endswith(SHRUNKEN):
        return True
    is_kda = any(
        name.startswith(f"model.layers.{layer - 1}.")
        for layer in config["linear_attn_config"]["kda_layers"]
    )
    return is_kda and name.endswith(SHRUNKEN_IN_KDA)


def draw_inputs(config: dict[str, Any], lengths: dict[int, int], seed: int) -> dict[str, Tensor]:
    """Token ids by prompt length (with the decoded ones at the end), and one input for layers."""
    generator = torch.Generator().manual_seed(seed)
    width = config["hidden_size"]
    inputs = {
        f"tokens.{length}": torch.randint(
            config["vocab_size"], (1, length + decoded), generator=generator, dtype=torch.int32
        )
        for length, decoded in lengths.items()
    }
    inputs["x"] = torch.randn((1, 65, width), generator=generator)
    inputs["bank"] = torch.randn((3, 1, 65, width), generator=generator)
    return inputs
