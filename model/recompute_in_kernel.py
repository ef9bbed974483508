"""Values that stay inside a Triton kernel, computed in float64 from what goes into it."""

from typing import Any

import numpy as np

from model.kda import L2_EPS
from model.recompute_rule import Request, Rule


def _sigmoid(x: np.ndarray) -> np.ndarray:
    return np.exp(-np.logaddexp(0.0, -x))


def _by_head(request: Request, x: np.ndarray) -> np.ndarray:
    linear = request.trace.config.linear_attn_config
    assert linear is not None
    return x.reshape(*x.shape[:-1], linear.num_heads, -1)[:, :, request.heads]


def _unit_length(request: Request) -> np.ndarray:
    """Queries, scaled, or keys."""
    x = _by_head(request, request.rows_of(f"{request.attribute}_conv1d.convolved"))
    unit = x / np.sqrt((x**2).sum(-1, keepdims=True) + L2_EPS)
    return unit * x.shape[-1] ** -0.5 if request.attribute == "q" else unit


def _values(request: Request) -> np.ndarray:
    return _by_head(request, request.rows_of("v_conv1d.convolved"))


def _gate_logit(request: Request) -> np.ndarray:
    z = request.rows_of("gate_latent") @ request.parameter("f_b_proj.weight").T
    return _by_head(request, z + request.parameter("dt_bias"))


def _log_decay(request: Request) -> np.ndarray:
    linear = request.trace.config.linear_attn_config
    assert linear is not None
    rate = np.exp(request.parameter("A_log"))[request.heads, None]
    z = request.read("gate_logit")
    if linear.gate_lower_bound is None:
        return -rate * np.logaddexp(0.0, z)
    return linear.gate_lower_bound * _sigmoid(rate * z)


def _beta(request: Request) -> np.ndarray:
    x = request.rows_of("^.input_layernorm.normed")
    return _sigmoid(x @ request.parameter("b_proj.weight").T)[:, :, request.heads]


def _sources(request: Request) -> np.ndarray:
    residual = request.rows_of("residual")
    return np.concatenate([request.rows_of("bank"), residual[:, :, None]], axis=2)


def _keys(request: Request) -> np.ndarray:
    sources = request.rows_of("sources")
    mean = (sources**2).mean(-1, keepdims=True)
    return sources / np.sqrt(mean + request.trace.config.rms_norm_eps)


def _query(request: Request) -> np.ndarray:
    return request.parameter("norm.weight") * request.parameter("proj.weight")[0]


def _scores_over_depth(request: Request) -> np.ndarray:
    return request.rows_of("keys") @ _query(request)


def _weights(request: Request) -> np.ndarray:
    scores = request.rows_of("scores")
    powers = np.exp(scores - scores.max(-1, keepdims=True))
    return powers / powers.sum(-1, keepdims=True)


def _router_scores(request: Request) -> np.ndarray:
    return _sigmoid(request.rows_of("logits"))


def _scores_for_choice(request: Request) -> np.ndarray:
    """With the groups that are not chosen from still in."""
    return request.rows_of("scores") + request.parameter("e_score_correction_bias")


def _with_weights(compute: Any, *reads: str) -> Rule:
    return Rule(reads, compute, needs_model=True)


IN_KERNEL = {
    "KimiDeltaAttention.q": Rule(("q_conv1d.convolved",), _unit_length),
    "KimiDeltaAttention.k": Rule(("k_conv1d.convolved",), _unit_length),
    "KimiDeltaAttention.v": Rule(("v_conv1d.convolved",), _values),
    "KimiDeltaAttention.gate_logit": _with_weights(_gate_logit, "gate_latent"),
    "KimiDeltaAttention.log_decay": _with_weights(_log_decay, "gate_logit"),
    "KimiDeltaAttention.beta": _with_weights(_beta, "^.input_layernorm.normed"),
    "AttnResidual.sources": Rule(("bank", "residual"), _sources),
    "AttnResidual.keys": Rule(("sources",), _keys),
    "AttnResidual.query": _with_weights(_query),
    "AttnResidual.scores": _with_weights(_scores_over_depth, "keys"),
    "AttnResidual.weights": Rule(("scores",), _weights),
    "KimiMoEGate.scores": Rule(("logits",), _router_scores),
    "KimiMoEGate.scores_for_choice": _with_weights(_scores_for_choice, "scores"),
}
"""By `Class.attribute`."""
