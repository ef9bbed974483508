"""Each kernel beside its equation in float64, on the arguments that the kernel takes."""

from collections.abc import Callable, Mapping
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

Given = Mapping[str, Any]
Results = dict[str, Tensor]
"""By what the page calls them."""


def by_kernel(kernel: str, given: Given) -> Results:
    """Runs the launcher. Triton is imported here: the caller has chosen how it runs."""
    return _LAUNCHES[kernel](given)


def by_equation(kernel: str, given: Given) -> Results:
    """The same results from float64 arguments, written from the equations."""
    return _EQUATIONS[kernel](given)


def _rms_norm(given: Given) -> Results:
    from kernels.rms_norm import rms_norm

    return {"x": rms_norm(**given)}


def _rms_norm_equation(given: Given) -> Results:
    return {"x": given["weight"] * _unit_rms(given["x"], given["eps"])}


def _unit_rms(x: Tensor, eps: float) -> Tensor:
    return x / (x.square().mean(-1, keepdim=True) + eps).sqrt()


def _gated_rms_norm(given: Given) -> Results:
    from kernels.gated_rms_norm import gated_rms_norm

    return {"y": gated_rms_norm(**given)}


def _gated_rms_norm_equation(given: Given) -> Results:
    normed = given["weight"] * _unit_rms(given["read"], given["eps"])
    return {"y": normed * given["gate"].sigmoid()}


def _short_conv(given: Given) -> Results:
    from kernels.short_conv import short_convolution

    return dict(zip(("convolved", "state"), short_convolution(**given), strict=True))


def _short_conv_equation(given: Given) -> Results:
    x, weight, state = given["x"], given["weight"], given["state"]
    lag = weight.shape[-1]
    columns = torch.cat([state, x.mT], -1)
    # the window of position t ends at its own column
    windows = columns.unfold(-1, lag, 1)[:, :, 1:]
    summed = (windows * weight[:, None]).sum(-1)
    return {"convolved": F.silu(summed).mT, "state": columns[..., -lag:]}


def _kda_step(given: Given) -> Results:
    from kernels.kda_step import kda_step

    return dict(zip(("read", "state"), kda_step(**given), strict=True))


def _kda_chunk(given: Given) -> Results:
    from kernels.kda_chunk import kda_prefill

    return dict(zip(("read", "state"), kda_prefill(**given), strict=True))


def _kda_equation(given: Given) -> Results:
    """Row by row, from raw projections; `kernels/kda_gate.py` has the same epsilon."""
    q, k = (_unit(given[name]) for name in ("q", "k"))
    q = q * q.shape[-1] ** -0.5
    retention, beta = _log_decay(given).exp(), given["beta_logit"].sigmoid()
    state, read = given["state"], []
    for t in range(q.shape[1]):
        decayed = state * retention[:, t, :, None, :]
        recalled = (decayed @ k[:, t, :, :, None])[..., 0]
        written = beta[:, t, :, None] * (given["v"][:, t] - recalled)
        state = decayed + written[..., None] * k[:, t, :, None, :]
        read.append((state @ q[:, t, :, :, None])[..., 0])
    return {"read": torch.stack(read, 1), "state": state}


def _unit(x: Tensor) -> Tensor:
    return x / (x.square().sum(-1, keepdim=True) + 1e-6).sqrt()


def _log_decay(given: Given) -> Tensor:
    logit = given["gate_logit"]
    z = logit + given["dt_bias"].view(logit.shape[-2:])
    rate = given["A_log"].exp()[:, None]
    bound = given["lower_bound"]
    return -rate * F.softplus(z) if bound is None else bound * (rate * z).sigmoid()


def _attn_res(given: Given) -> Results:
    from kernels.attn_res import read_sources

    return {"h": read_sources(**given)}


def _attn_res_equation(given: Given) -> Results:
    sources = torch.cat([given["bank"], given["residual"][..., None, :]], -2)
    query = given["norm_weight"] * given["proj_weight"]
    weights = (_unit_rms(sources, given["eps"]) @ query).softmax(-1)
    return {"h": (weights[..., None] * sources).sum(-2)}


def _mla_prefill(given: Given) -> Results:
    from kernels.mla_prefill import attend

    return {"read": attend(**given)}


def _mla_prefill_equation(given: Given) -> Results:
    return {"read": _attention(given["q"], given["k"], given["v"], given["scale"])}


def _attention(q: Tensor, k: Tensor, v: Tensor, scale: float) -> Tensor:
    """Keys end where queries end."""
    queries, keys = q.shape[-2], k.shape[-2]
    later = torch.arange(keys)[None, :] > torch.arange(keys - queries, keys)[:, None]
    scores = (q @ k.mT * scale).masked_fill(later, float("-inf"))
    return scores.softmax(-1) @ v


def _mla_decode(given: Given) -> Results:
    from kernels.mla_decode import read_latents

    return {"mixed latents": read_latents(**given)}


def _mla_decode_equation(given: Given) -> Results:
    keys = torch.cat([given["latents"], given["shared"]], -1)[:, None]
    mixed = _attention(given["q"], keys, given["latents"][:, None], given["scale"])
    return {"mixed latents": mixed}


def _rope(given: Given) -> Results:
    from kernels.rope import rotate

    return {"rotated": rotate(**given)}


def _rope_equation(given: Given) -> Results:
    even, odd = given["x"][..., 0::2], given["x"][..., 1::2]
    cosine, sine = given["cosine"], given["sine"]
    return {"rotated": torch.cat([even * cosine - odd * sine, odd * cosine + even * sine], -1)}


def _router(given: Given) -> Results:
    from kernels.router import choose

    chosen = choose(**given)
    return _by_expert(chosen.expert, chosen.weight, given["logits"].shape[-1])


def _router_equation(given: Given) -> Results:
    scores = given["logits"].sigmoid()
    wanted = _best_groups(scores + given["bias"], given["groups"], given["top_groups"])
    expert = wanted.topk(given["top"], -1).indices
    weight = scores.gather(-1, expert)
    if given["renormalize"] and given["top"] > 1:
        weight = weight / (weight.sum(-1, keepdim=True) + 1e-20)
    return _by_expert(expert, weight * given["scale"], scores.shape[-1])


def _best_groups(wanted: Tensor, groups: int, top_groups: int) -> Tensor:
    if groups == 1:
        return wanted
    grouped = wanted.unflatten(-1, (groups, -1))
    best = grouped.topk(2, -1).values.sum(-1).topk(top_groups, -1).indices
    out = torch.ones_like(grouped[..., 0], dtype=torch.bool).scatter(-1, best, False)
    return grouped.masked_fill(out[..., None], float("-inf")).flatten(-2)


def _by_expert(expert: Tensor, weight: Tensor, num_experts: int) -> Results:
    """Every expert's weight, zero for those not chosen: a wrong choice is a wrong weight."""
    every = weight.new_zeros(*weight.shape[:-1], num_experts)
    return {"weight of every expert": every.scatter(-1, expert, weight)}


def _experts(given: Given) -> Results:
    from kernels.experts import through_experts

    return dict(zip(("hidden", "output"), through_experts(**given), strict=True))


def _experts_equation(given: Given) -> Results:
    chosen, z = given["chosen"], given["z"][:, None, :, None]
    gate, up = (given[name][chosen] @ z for name in ("w1", "w3"))
    hidden = _activated(gate[..., 0], up[..., 0], given["beta"], given["linear_beta"])
    return {"hidden": hidden, "output": (given["w2"][chosen] @ hidden[..., None])[..., 0]}


def _situ(given: Given) -> Results:
    from kernels.situ import situ, swiglu

    if given["beta"] is None:
        return {"activated": swiglu(given["gate"], given["up"])}
    return {"activated": situ(**given)}


def _situ_equation(given: Given) -> Results:
    return {"activated": _activated(**given)}


def _activated(gate: Tensor, up: Tensor, beta: float | None, linear_beta: float | None) -> Tensor:
    if beta is None:
        return F.silu(gate) * up
    capped = up if linear_beta is None else linear_beta * torch.tanh(up / linear_beta)
    return beta * torch.tanh(gate / beta) * gate.sigmoid() * capped


_LAUNCHES: dict[str, Callable[[Given], Results]] = {
    "rms_norm": _rms_norm,
    "gated_rms_norm": _gated_rms_norm,
    "short_conv": _short_conv,
    "kda_step": _kda_step,
    "kda_chunk": _kda_chunk,
    "attn_res": _attn_res,
    "mla_prefill": _mla_prefill,
    "mla_decode": _mla_decode,
    "rope": _rope,
    "router": _router,
    "experts": _experts,
    "situ": _situ,
}
_EQUATIONS: dict[str, Callable[[Given], Results]] = {
    "rms_norm": _rms_norm_equation,
    "gated_rms_norm": _gated_rms_norm_equation,
    "short_conv": _short_conv_equation,
    "kda_step": _kda_equation,
    "kda_chunk": _kda_equation,
    "attn_res": _attn_res_equation,
    "mla_prefill": _mla_prefill_equation,
    "mla_decode": _mla_decode_equation,
    "rope": _rope_equation,
    "router": _router_equation,
    "experts": _experts_equation,
    "situ": _situ_equation,
}
