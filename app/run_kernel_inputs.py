"""What a kernel takes, from one run: tensors and parameters of one module at one step.

The run has its model. Nothing is computed but the linear maps between a tap and a kernel's input,
and, on a run of kernels, what stayed inside them: the sources of a mix.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

LARGEST = 2**26
"""Values of one parameter; copying more takes seconds and memory."""
DECODE = ("kda_step", "mla_decode")
"""Kernels of one new position."""
PREFILL = ("kda_chunk", "mla_prefill")
OF = {
    "rms_norm": "RMSNorm",
    "gated_rms_norm": "GatedRMSNorm",
    "short_conv": "ShortConvolution",
    "kda_step": "KimiDeltaAttention",
    "kda_chunk": "KimiDeltaAttention",
    "attn_res": "AttnResidual",
    "mla_prefill": "KimiMLAAttention",
    "mla_decode": "KimiMLAAttention",
    "rope": "KimiMLAAttention",
    "router": "KimiMoEGate",
    "experts": "KimiSparseMoE",
    "situ": "KimiMLP",
}
"""The class of the module that each kernel is run on."""
Values = np.ndarray[Any, Any]


@dataclass(frozen=True, kw_only=True)
class Given:
    """Arguments of one call, as arrays of float64 or int64, and plain values."""

    arrays: Mapping[str, Values]
    options: Mapping[str, Any]
    step: int

    @property
    def shapes(self) -> dict[str, tuple[int, ...]]:
        return {name: array.shape for name, array in self.arrays.items()}


def given_to(kernel: str, run: Any, path: str, step: int) -> Given:
    """The arguments of a kernel for the module at `path`; a LookupError says what is missing."""
    step = step_for(kernel, run, step)
    modules = dict(run.model.named_modules())
    module = modules.get(path)
    if module is None or type(module).__name__ != OF[kernel]:
        raise LookupError(
            f"{run.source} has no {OF[kernel]} at {path or 'its top'}, so there is nothing to run "
            "the kernel on."
        )
    if large := [n for n, p in module.named_parameters() if p.numel() > LARGEST]:
        raise LookupError(
            f"{path}.{large[0]} has more than {LARGEST:,} values, too many to copy for one look."
        )
    from model.identities.identity import NotHeldError, Place

    try:
        arrays, options = _TAKEN[kernel](Place(run, path, step, run.model, {}), module)
    except NotHeldError as fault:
        raise LookupError(
            f"Neither captured in this run nor to be re-computed: {fault.args[0]}."
        ) from fault
    return Given(arrays=arrays, options=options, step=step)


def step_for(kernel: str, run: Any, step: int) -> int:
    """The step on screen, or the nearest in which the kernel's phase runs."""
    if kernel in PREFILL:
        return 0
    if kernel not in DECODE:
        return step
    if run.steps == 1:
        raise LookupError(
            "This kernel takes one new position, and the run has none: ask for new tokens."
        )
    return max(step, 1)


Taken = tuple[dict[str, Values], dict[str, Any]]


def _rms_norm(at: Any, module: Any) -> Taken:
    return {"x": at("raw"), "weight": at.parameter("weight")}, {"eps": module.eps}


def _gated_rms_norm(at: Any, module: Any) -> Taken:
    arrays = {"read": at("^.read"), "gate": at("^.output_gate"), "weight": at.parameter("weight")}
    return arrays, {"eps": module.eps}


def _short_conv(at: Any, module: Any) -> Taken:
    x, weight = at("raw"), at.parameter("weight")[:, 0]
    before = at.before("state")
    state = np.zeros((len(x), *weight.shape)) if before is None else before
    return {"x": x, "weight": weight, "state": state}, {}


def _kda(at: Any, module: Any) -> Taken:
    heads, width = module.heads, module.width
    q, k, v = (at.heads(at(f"{name}_conv1d.convolved"), heads) for name in "qkv")
    before = at.before("state")
    return {
        "q": q,
        "k": k,
        "v": v,
        "gate_logit": at.heads(at.linear(at("gate_latent"), "f_b_proj.weight"), heads),
        "beta_logit": at.linear(at("^.input_layernorm.normed"), "b_proj.weight"),
        "A_log": at.parameter("A_log"),
        "dt_bias": at.parameter("dt_bias"),
        "state": np.zeros((len(q), heads, width, width)) if before is None else before[:, -1],
    }, {"lower_bound": module.gate_lower_bound}


def _attn_res(at: Any, module: Any) -> Taken:
    sources = at("sources")
    return {
        "residual": sources[..., -1, :],
        "bank": sources[..., :-1, :],
        "norm_weight": at.parameter("norm.weight"),
        "proj_weight": at.parameter("proj.weight")[0],
    }, {"eps": module.eps}


def _mla_prefill(at: Any, module: Any) -> Taken:
    q = at("q").swapaxes(1, 2)
    return {"q": q, "k": at("k_cached"), "v": at("v_cached")}, {"scale": module.scale}


def _mla_decode(at: Any, module: Any) -> Taken:
    """The query moved into the latents' space, as decode over a latent cache has it."""
    q = at("q").swapaxes(1, 2)
    up = at.parameter("kv_b_proj.weight").reshape(module.heads, -1, module.d_latent)
    absorbed = np.einsum("bhtn,hnc->bhtc", q[..., : module.d_nope], up[:, : module.d_nope])
    return {
        "q": np.concatenate([absorbed, q[..., module.d_nope :]], -1),
        "latents": at.until("kv_a_layernorm.normed"),
        "shared": at.until("k_rotated" if module.rotates else "k_shared"),
    }, {"scale": module.scale}


def _rope(at: Any, module: Any) -> Taken:
    if not module.rotates:
        raise LookupError("This model turns no positions, so there is nothing to rotate.")
    angle = at("angle")[:, :, None]
    turn = {"cosine": np.cos(angle) * module.gain, "sine": np.sin(angle) * module.gain}
    return {"x": at("q_shared"), **turn}, {}


def _router(at: Any, module: Any) -> Taken:
    arrays = {"logits": at("logits"), "bias": at.parameter("e_score_correction_bias")}
    return arrays, {
        "top": module.top,
        "groups": module.groups,
        "top_groups": module.top_groups,
        "renormalize": module.renormalize,
        "scale": module.scale,
    }


def _experts(at: Any, module: Any) -> Taken:
    """Only the experts that were chosen, numbered anew."""
    z = at("latent" if module.has_latent else "^.post_attention_layernorm.normed")
    chosen = at("gate.chosen")
    used, numbers = np.unique(chosen, return_inverse=True)
    weights = {name: at.parameter(f"experts.{name}")[used] for name in ("w1", "w2", "w3")}
    pairs = numbers.reshape(-1, chosen.shape[-1])
    arrays = {"z": z.reshape(-1, z.shape[-1]), "chosen": pairs, **weights}
    return arrays, _activation(at.config)


def _situ(at: Any, module: Any) -> Taken:
    return {"gate": at("gate"), "up": at("up")}, _activation(at.config)


def _activation(config: Any) -> dict[str, float | None]:
    """Both caps of SiTU; no first one means SwiGLU."""
    if config.hidden_act == "silu":
        return {"beta": None, "linear_beta": None}
    beta = 1.0 if config.activation_situ_beta is None else config.activation_situ_beta
    return {"beta": beta, "linear_beta": config.activation_situ_linear_beta}


_TAKEN: dict[str, Callable[[Any, Any], Taken]] = {
    "rms_norm": _rms_norm,
    "gated_rms_norm": _gated_rms_norm,
    "short_conv": _short_conv,
    "kda_step": _kda,
    "kda_chunk": _kda,
    "attn_res": _attn_res,
    "mla_prefill": _mla_prefill,
    "mla_decode": _mla_decode,
    "rope": _rope,
    "router": _router,
    "experts": _experts,
    "situ": _situ,
}
