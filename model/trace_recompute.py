"""Values that a fast path does not hold, computed in float64 from what it did hold."""

from typing import TYPE_CHECKING

import numpy as np
import torch

from model.recompute_attention import FROM_KEYS, FROM_LATENTS
from model.recompute_in_kernel import IN_KERNEL
from model.recompute_rule import NEVER_MIXES, Request, Rule, source_name
from model.situ import activation
from model.trace_select import Selection, drop_indexed, indices

if TYPE_CHECKING:
    from model.trace_data import Trace

LIMIT = 32 * 1024**2
"""Bytes that one answer may take."""

AT_TOKENS = ("batch", "pos", "head", "d_value", "d_key")
"""Axes of a KDA state that is asked for at tokens, not at borders."""


def is_recomputable(trace: "Trace", name: str, step: int) -> bool:
    return _rule(trace, name, step) is not None


def _rule(trace: "Trace", name: str, step: int) -> Rule | None:
    """How the value is computed, if all that it is computed from is at hand."""
    path, _, attribute = name.rpartition(".")
    if path == NEVER_MIXES:
        return None
    kind = f"{trace.taps[name].owner}.{attribute}"
    tables = [RULES, FROM_LATENTS]
    if trace.kernels == "triton":
        tables.append(IN_KERNEL)
    rules = (table[kind] for table in tables if kind in table)
    return next((rule for rule in rules if _has_all(trace, path, rule, step)), None)


def _has_all(trace: "Trace", path: str, rule: Rule, step: int) -> bool:
    if rule.needs_model and trace.model is None:
        return False
    if not all(is_at_hand(trace, name, step) for name in _sources(trace, path, rule)):
        return False
    return (
        step == 0 or "log_decay" not in rule.reads or trace.is_captured(f"{path}.state", step - 1)
    )


def is_at_hand(trace: "Trace", name: str, step: int) -> bool:
    """Whether the run has such a tap, and its value captured or to be re-computed."""
    return name in trace.taps and (
        trace.is_captured(name, step) or is_recomputable(trace, name, step)
    )


def how_recomputed(trace: "Trace", name: str, step: int) -> str:
    path, _, _ = name.rpartition(".")
    rule = _rule(trace, name, step)
    assert rule is not None
    layer = path.rpartition(".")[0]
    names = [source.removeprefix(f"{path}.") for source in _sources(trace, path, rule)]
    names = [source.removeprefix(f"{layer}.") for source in names] or ["the weights"]
    return f"re-computed in float64 from {', '.join(names)}"


def _sources(trace: "Trace", path: str, rule: Rule) -> list[str]:
    return [source_name(trace, path, name) for name in rule.reads]


def recompute(
    trace: "Trace", name: str, step: int, pos: Selection = None, head: Selection = None
) -> np.ndarray:
    """The chosen tokens and heads of a value that was not held."""
    path, _, attribute = name.rpartition(".")
    rule = _rule(trace, name, step)
    assert rule is not None
    dims = AT_TOKENS if attribute == "state" else trace.taps[name].dims
    num_heads = _heads(trace, name)
    rows = indices(pos, trace.step_length(step), "pos", name)
    heads = indices(head, num_heads, "head", name)
    if not rows or not heads:
        raise LookupError(f"{name}: no token or no head is chosen.")
    request = Request(trace, path, attribute, step, rows, heads)
    _refuse_if_large(name, rule.bytes(request))
    values = rule.compute(request)
    if trace.dtype != "float64":
        values = values.astype(np.float32)
    return drop_indexed(values, dims, pos, head)


def _heads(trace: "Trace", name: str) -> int:
    linear = trace.config.linear_attn_config
    if trace.taps[name].owner == "KimiDeltaAttention" and linear is not None:
        return linear.num_heads
    return trace.config.num_attention_heads


def _refuse_if_large(name: str, size: int) -> None:
    if size > LIMIT:
        raise ValueError(
            f"{name} would take {size / 1024**2:,.0f} MiB here, and {LIMIT / 1024**2:.0f} MiB is "
            "the limit of one answer; choose fewer tokens (pos=) or heads (head=)."
        )


def _retention(request: Request) -> np.ndarray:
    return np.exp(request.read("log_decay"))


def _delta_rule(request: Request) -> np.ndarray:
    """One term of the recurrence at the chosen rows, walked from the nearest border."""
    first, state = request.state_before(min(request.rows))
    k, v = request.read("k", rows=False), request.read("v", rows=False)
    retention = np.exp(request.read("log_decay", rows=False))
    beta = request.read("beta", rows=False)
    seen: dict[int, np.ndarray] = {}
    for t in range(first, max(request.rows) + 1):
        decayed_state = retention[:, t, :, None, :] * state
        recalled = np.einsum("bhvk,bhk->bhv", decayed_state, k[:, t])
        written = beta[:, t, :, None] * (v[:, t] - recalled)
        state = decayed_state + written[..., :, None] * k[:, t, :, None, :]
        if t in request.rows:
            terms = {"decayed_state": decayed_state, "recalled": recalled, "state": state}
            seen[t] = (terms | {"written": written})[request.attribute]
    return np.stack([seen[t] for t in request.rows], axis=1)


def _expert_hidden(request: Request) -> np.ndarray:
    trace, rows = request.trace, request.rows
    assert trace.model is not None
    w1, w3 = (trace.model.get_parameter(f"{request.path}.experts.{w}") for w in ("w1", "w3"))
    names = (source_name(trace, request.path, name) for name in ("latent", "gate.chosen"))
    latent, chosen = (trace.tensor(name, request.step)[:, rows].cpu() for name in names)
    latent = latent.double()
    act = activation(trace.config)
    hidden = torch.empty(*chosen.shape, w1.shape[1], dtype=torch.float64)
    for expert in chosen.unique().tolist():
        batch, row, _ = here = torch.nonzero(chosen == expert, as_tuple=True)
        z = latent[batch, row]
        gate, up = (z @ w[expert].double().cpu().T for w in (w1, w3))
        hidden[here] = act(gate, up)
    return hidden.numpy()


def _matrix_bytes(request: Request) -> int:
    k, v = (request.trace.array(f"{request.path}.{n}", request.step).shape for n in "kv")
    return 8 * k[0] * len(request.rows) * len(request.heads) * k[-1] * v[-1]


_TERMS = ("k", "v", "log_decay", "beta")

RULES = {
    "KimiDeltaAttention.retention": Rule(("log_decay",), _retention),
    "KimiDeltaAttention.decayed_state": Rule(_TERMS, _delta_rule, _matrix_bytes),
    "KimiDeltaAttention.recalled": Rule(_TERMS, _delta_rule),
    "KimiDeltaAttention.written": Rule(_TERMS, _delta_rule),
    "KimiDeltaAttention.state": Rule(_TERMS, _delta_rule, _matrix_bytes),
    **FROM_KEYS,
    "KimiSparseMoE.expert_hidden": Rule(
        ("latent", "gate.chosen"), _expert_hidden, needs_model=True
    ),
}
