"""Equations of Kimi Delta Attention, each from what its term reads."""

import numpy as np

from model.identities.identity import Pair, Place, identity, relation, sigmoid
from model.identities.residual import unit_rms

_L2_EPS = 1e-6
_INPUT = "^.input_layernorm.normed"


def _silu(x: np.ndarray) -> np.ndarray:
    return x * sigmoid(x)


def _heads(place: Place, x: np.ndarray) -> np.ndarray:
    linear = place.config.linear_attn_config
    assert linear is not None
    return place.heads(x, linear.num_heads)


def _unit(x: np.ndarray) -> np.ndarray:
    # the epsilon stands on the sum, inside the root
    return x / np.sqrt((x**2).sum(-1, keepdims=True) + _L2_EPS)


@identity("ShortConvolution.raw", "Project", reads="^.^.input_layernorm.normed")
def kda_projected(place: Place) -> np.ndarray:
    letter = place.path.rpartition(".")[2][0]
    return place.linear(place("^.^.input_layernorm.normed"), f"^.{letter}_proj.weight")


def _history(place: Place, columns: int) -> np.ndarray:
    """The last `columns` projections before this step, zero before the start."""
    before = place.before("state")
    if before is None:
        batch, _, width = place("raw").shape
        return np.zeros((batch, columns, width))
    return before.swapaxes(1, 2)[:, -columns:]


@identity("ShortConvolution.convolved", "Short convolution, SiLU", reads="raw state")
def kda_convolved(place: Place) -> np.ndarray:
    kernel = place.parameter("weight")[:, 0]
    lags = kernel.shape[-1]
    x = np.concatenate([_history(place, lags - 1), place("raw")], axis=1)
    length = place("raw").shape[1]
    terms = [kernel[:, lag] * x[:, lag : lag + length] for lag in range(lags)]
    return _silu(np.sum(terms, axis=0))


@identity("ShortConvolution.state", "The last columns are kept", reads="raw")
def kda_conv_state(place: Place) -> np.ndarray:
    columns = place.parameter("weight").shape[-1]
    joined = np.concatenate([_history(place, columns), place("raw")], axis=1)
    return joined[:, -columns:].swapaxes(1, 2)


@identity("KimiDeltaAttention.q", "Unit queries, scaled", reads="q_conv1d.convolved")
def kda_q(place: Place) -> np.ndarray:
    q = _heads(place, place("q_conv1d.convolved"))
    return _unit(q) / np.sqrt(q.shape[-1])


@identity("KimiDeltaAttention.k", "Unit keys", reads="k_conv1d.convolved")
def kda_k(place: Place) -> np.ndarray:
    return _unit(_heads(place, place("k_conv1d.convolved")))


@identity("KimiDeltaAttention.v", "Values by head", reads="v_conv1d.convolved")
def kda_v(place: Place) -> np.ndarray:
    return _heads(place, place("v_conv1d.convolved"))


@identity("KimiDeltaAttention.gate_latent", "Gate, down", reads=_INPUT)
def kda_gate_latent(place: Place) -> np.ndarray:
    return place.linear(place(_INPUT), "f_a_proj.weight")


@identity("KimiDeltaAttention.gate_logit", "Gate, up and bias", reads="gate_latent")
def kda_gate_logit(place: Place) -> np.ndarray:
    z = place.linear(place("gate_latent"), "f_b_proj.weight")
    return _heads(place, z + place.parameter("dt_bias").reshape(-1))


@identity("KimiDeltaAttention.log_decay", "Log-decay", reads="gate_logit")
def kda_log_decay(place: Place) -> np.ndarray:
    linear, z = place.config.linear_attn_config, place("gate_logit")
    assert linear is not None
    rate = np.exp(place.parameter("A_log").reshape(-1)[: linear.num_heads])[:, None]
    if linear.gate_lower_bound is None:
        return -rate * np.logaddexp(0.0, z)
    return linear.gate_lower_bound * sigmoid(rate * z)


@relation("KimiDeltaAttention", "Log-decay stays in its bounds", reads="log_decay")
def kda_decay_bounds(place: Place) -> Pair:
    linear = place.config.linear_attn_config
    assert linear is not None
    lowest = -np.inf if linear.gate_lower_bound is None else linear.gate_lower_bound
    log_decay = place.captured("log_decay")
    return log_decay, np.clip(log_decay, lowest, 0.0)


@identity("KimiDeltaAttention.retention", "Retention", reads="log_decay")
def kda_retention(place: Place) -> np.ndarray:
    return np.exp(place("log_decay"))


@identity("KimiDeltaAttention.beta", "Write strength", reads=_INPUT)
def kda_beta(place: Place) -> np.ndarray:
    return sigmoid(place.linear(place(_INPUT), "b_proj.weight"))


def delta_rule(place: Place) -> dict[str, np.ndarray]:
    """The recurrence from the first token on, in the order of its five lines.

    Starts from what the step before left; the state is value-first.
    """
    memo = (place.path, place.step, "delta rule")
    if memo not in place.arrays:
        state = place.before("state")
        start = None if state is None else state[:, -1]
        rates = place("log_decay"), place("beta")
        place.arrays[memo] = _recur(place("q"), place("k"), place("v"), *rates, start)
    return place.arrays[memo]


def _recur(
    q: np.ndarray,
    k: np.ndarray,
    v: np.ndarray,
    log_decay: np.ndarray,
    beta: np.ndarray,
    start: np.ndarray | None,
) -> dict[str, np.ndarray]:
    batch, length, heads, width = k.shape
    state = np.zeros((batch, heads, v.shape[-1], width)) if start is None else start
    seen = {"decayed_state": [], "recalled": [], "written": [], "state": [], "read": []}
    for t in range(length):
        decayed = np.exp(log_decay[:, t])[:, :, None, :] * state
        recalled = (decayed @ k[:, t, :, :, None])[..., 0]
        written = beta[:, t, :, None] * (v[:, t] - recalled)
        state = decayed + written[..., :, None] * k[:, t, :, None, :]
        read = (state @ q[:, t, :, :, None])[..., 0]
        step = {"decayed_state": decayed, "recalled": recalled, "written": written}
        for name, value in (step | {"state": state, "read": read}).items():
            seen[name].append(value)
    return {name: np.stack(values, axis=1) for name, values in seen.items()}


_RULE = "k v log_decay beta state"


@identity("KimiDeltaAttention.decayed_state", "Decay the memory", reads=_RULE)
def kda_decayed_state(place: Place) -> np.ndarray:
    return delta_rule(place)["decayed_state"]


@identity("KimiDeltaAttention.recalled", "Read what is stored", reads=_RULE)
def kda_recalled(place: Place) -> np.ndarray:
    return delta_rule(place)["recalled"]


@identity("KimiDeltaAttention.written", "The error to write", reads=_RULE)
def kda_written(place: Place) -> np.ndarray:
    return delta_rule(place)["written"]


@identity("KimiDeltaAttention.state", "Write", reads=_RULE)
def kda_state(place: Place) -> np.ndarray:
    length = place("k").shape[1]
    return delta_rule(place)["state"][:, place.trace.borders(length)]


@identity("KimiDeltaAttention.read", "Read out after the write", reads=f"q {_RULE}")
def kda_read(place: Place) -> np.ndarray:
    return delta_rule(place)["read"]


@identity("KimiDeltaAttention.output_gate", "Output gate", reads=_INPUT)
def kda_output_gate(place: Place) -> np.ndarray:
    x = place(_INPUT)
    if place.has_parameter("g_proj.weight"):
        return _heads(place, place.linear(x, "g_proj.weight"))
    return _heads(place, place.linear(place.linear(x, "g_a_proj.weight"), "g_b_proj.weight"))


@identity("GatedRMSNorm.gated", "Norm by head, gate", reads="^.read ^.output_gate")
def kda_gated(place: Place) -> np.ndarray:
    normed = place.parameter("weight") * unit_rms(place("^.read"), place.config.rms_norm_eps)
    return normed * sigmoid(place("^.output_gate"))


@identity("KimiDeltaAttention.out", "Output projection", reads="o_norm.gated")
def kda_out(place: Place) -> np.ndarray:
    gated = place("o_norm.gated")
    return place.linear(gated.reshape(*gated.shape[:2], -1), "o_proj.weight")
