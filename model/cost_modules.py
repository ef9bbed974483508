"""Which modules stand where in a model, and the axes of their parameters in words of `dims`."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from model.config import KimiConfig

LAYER = "layer"
"""The key of a decoder layer itself, whose taps stand directly below `layers.N`."""
LM = "lm"
"""The key of the whole model, whose taps stand at the top."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Module:
    """One of our classes at one place."""

    cls: str
    feature: str | None = None
    """The dims word behind the axis `feature`, where the place decides it."""
    parameters: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Axes of its own parameters by name; `head*d_qk` is one axis of both sizes multiplied."""


def _norm(width: str) -> Module:
    return Module(cls="RMSNorm", feature=width, parameters={"weight": (width,)})


def _linear(**axes: str) -> dict[str, tuple[str, ...]]:
    return {f"{name}.weight": tuple(words.split()) for name, words in axes.items()}


def _residual() -> Module:
    return Module(
        cls="AttnResidual",
        parameters={"norm.weight": ("d_model",), "proj.weight": ("1", "d_model")},
    )


def _kda(config: KimiConfig) -> dict[str, Module]:
    linear = config.linear_attn_config
    assert linear is not None
    gate = (
        _linear(g_proj="d_inner d_model")
        if linear.use_full_rank_gate
        else _linear(g_a_proj="d_gate_latent d_model", g_b_proj="d_inner d_gate_latent")
    )
    projections = _linear(
        q_proj="d_inner d_model", k_proj="d_inner d_model", v_proj="d_inner d_model"
    )
    forget = _linear(f_a_proj="d_gate_latent d_model", f_b_proj="d_inner d_gate_latent")
    rest = _linear(b_proj="head d_model", o_proj="d_model d_inner")
    scalars = {"A_log": ("head",), "dt_bias": ("d_inner",)}
    conv = Module(cls="ShortConvolution", parameters={"weight": ("d_inner", "1", "lag")})
    return {
        "self_attn": Module(
            cls="KimiDeltaAttention",
            parameters={**projections, **forget, **scalars, **gate, **rest},
        ),
        "self_attn.q_conv1d": conv,
        "self_attn.k_conv1d": conv,
        "self_attn.v_conv1d": conv,
        "self_attn.o_norm": Module(cls="GatedRMSNorm", parameters={"weight": ("d_value",)}),
    }


def _mla(config: KimiConfig) -> dict[str, Module]:
    modules: dict[str, Module] = {}
    if config.q_lora_rank is None:
        parameters = _linear(q_proj="head*d_qk d_model")
    else:
        parameters = _linear(q_a_proj="d_q_latent d_model", q_b_proj="head*d_qk d_q_latent")
        modules["self_attn.q_a_layernorm"] = _norm("d_q_latent")
    parameters |= _linear(
        kv_a_proj_with_mqa="d_kv_joint d_model", kv_b_proj="head*d_kv_up d_kv_latent"
    )
    if config.mla_use_output_gate:
        parameters |= _linear(g_proj="head*d_value d_model")
    parameters |= _linear(o_proj="d_model head*d_value")
    modules["self_attn.kv_a_layernorm"] = _norm("d_kv_latent")
    return {"self_attn": Module(cls="KimiMLAAttention", parameters=parameters), **modules}


def _mlp(width: str) -> Module:
    return Module(
        cls="KimiMLP",
        feature=width,
        parameters=_linear(
            gate_proj=f"{width} d_model", up_proj=f"{width} d_model", down_proj=f"d_model {width}"
        ),
    )


def _moe(config: KimiConfig) -> dict[str, Module]:
    parameters: dict[str, tuple[str, ...]] = {}
    modules: dict[str, Module] = {}
    if config.routed_expert_hidden_size is not None:
        parameters |= _linear(
            routed_expert_down_proj="d_moe_latent d_model",
            routed_expert_up_proj="d_model d_moe_latent",
        )
        if config.latent_moe_use_norm:
            modules["block_sparse_moe.routed_expert_norm"] = _norm("d_moe_latent")
    parameters |= {
        "experts.w1": ("expert", "d_expert", "d_moe_latent"),
        "experts.w2": ("expert", "d_moe_latent", "d_expert"),
        "experts.w3": ("expert", "d_expert", "d_moe_latent"),
    }
    router = {"weight": ("expert", "d_model"), "e_score_correction_bias": ("expert",)}
    modules["block_sparse_moe.gate"] = Module(cls="KimiMoEGate", parameters=router)
    if config.num_shared_experts:
        modules["block_sparse_moe.shared_experts"] = _mlp("d_shared_expert")
    return {"block_sparse_moe": Module(cls="KimiSparseMoE", parameters=parameters), **modules}


def layer_modules(config: KimiConfig, layer: int) -> dict[str, Module]:
    """Every module of one 0-based layer by its path inside the layer, `LAYER` first."""
    mixer, feed_forward = layer_kind(config, layer)
    modules = {LAYER: Module(cls="KimiDecoderLayer")}
    if config.attn_res_block_size is not None:
        modules |= {"self_attention_res": _residual(), "mlp_res": _residual()}
    modules |= {"input_layernorm": _norm("d_model")}
    modules |= _kda(config) if mixer == "kda" else _mla(config)
    modules |= {"post_attention_layernorm": _norm("d_model")}
    return modules | ({"mlp": _mlp("d_dense")} if feed_forward == "dense" else _moe(config))


def top_modules(config: KimiConfig) -> dict[str, Module]:
    """Every module outside the layers by its path, `LM` first."""
    head = {} if config.tie_word_embeddings else _linear(lm_head="vocab d_model")
    modules = {
        LM: Module(cls="KimiLM", parameters={**_linear(embed_tokens="vocab d_model"), **head})
    }
    if config.attn_res_block_size is not None:
        modules["output_attn_res"] = _residual()
    return modules | {"norm": _norm("d_model")}


def require_known_kinds(config: KimiConfig) -> None:
    """Refuse a model with a layer that no formula covers, before any number is shown."""
    known = {"kda", "mla", "dense", "moe"}
    kinds = zip(config.mixers, config.feed_forwards, strict=True)
    for layer, (mixer, feed_forward) in enumerate(kinds):
        if unknown := {mixer, feed_forward} - known:
            raise ValueError(
                f"Layer {layer} has the kind {min(unknown)!r}. Sizes are known for "
                "the mixers 'kda' and 'mla' and the feed-forwards 'dense' and 'moe'; "
                "model/cost_modules.py needs the new kind before a number can be shown."
            )


def layer_kind(config: KimiConfig, layer: int) -> tuple[str, str]:
    """The mixer and the feed-forward of a 0-based layer."""
    if not 0 <= layer < config.num_hidden_layers:
        last = config.num_hidden_layers - 1
        raise LookupError(f"There is no layer {layer}; layers are 0 to {last}.")
    return config.mixers[layer], config.feed_forwards[layer]


def layer_kinds(config: KimiConfig) -> dict[tuple[str, str], tuple[int, ...]]:
    """The layers of every kind, so that a sum over layers visits each kind once."""
    require_known_kinds(config)
    kinds: dict[tuple[str, str], tuple[int, ...]] = {}
    for layer in range(config.num_hidden_layers):
        kind = layer_kind(config, layer)
        kinds[kind] = (*kinds.get(kind, ()), layer)
    return kinds


def parameter_axes(config: KimiConfig, layer: int | None) -> dict[str, tuple[str, tuple[str, ...]]]:
    """Name inside the layer (or the model, for None) to owning class and axes."""
    modules = top_modules(config) if layer is None else layer_modules(config, layer)
    return {
        name if path in (LAYER, LM) else f"{path}.{name}": (module.cls, axes)
        for path, module in modules.items()
        for name, axes in module.parameters.items()
    }
