"""Values that a fast path does not hold, computed in float64 from what it did hold."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import torch

from model.situ import activation
from model.trace_select import Selection, drop_indexed, indices
from model.yarn import score_scale

if TYPE_CHECKING:
    from model.trace_data import Trace

LIMIT = 32 * 1024**2
"""Bytes that one answer may take."""

AT_TOKENS = ("batch", "pos", "head", "d_value", "d_key")
"""Axes of a KDA state that is asked for at tokens, not at borders."""


@dataclass
class Request:
    """One value at some rows and heads of one step, and access to what it is computed from."""

    trace: "Trace"
    path: str
    attribute: str
    step: int
    rows: list[int]
    heads: list[int]

    def read(self, name: str, rows: bool = True) -> np.ndarray:
        """A captured neighbour `[batch, pos, head, …]` in float64, at the chosen heads."""
        values = self.trace.array(f"{self.path}.{name}", self.step)[:, :, self.heads]
        return (values[:, self.rows] if rows else values).astype(np.float64)

    def state_before(self, row: int) -> tuple[int, np.ndarray]:
        """The nearest state held before `row`, and the first row that it has not seen."""
        borders = self.trace.borders(self.trace.step_length(self.step))
        passed = [index for index, border in enumerate(borders) if border < row]
        if passed:
            held = self.trace.array(f"{self.path}.state", self.step)[:, passed[-1], self.heads]
            return borders[passed[-1]] + 1, held.astype(np.float64)
        if self.step:
            held = self.trace.array(f"{self.path}.state", self.step - 1)[:, -1, self.heads]
            return 0, held.astype(np.float64)
        k, v = self.read("k"), self.read("v")
        return 0, np.zeros((k.shape[0], len(self.heads), v.shape[-1], k.shape[-1]))


def is_recomputable(trace: "Trace", name: str, step: int) -> bool:
    path, _, attribute = name.rpartition(".")
    if (rule := RULES.get(f"{trace.taps[name].owner}.{attribute}")) is None:
        return False
    if rule.needs_model and trace.model is None:
        return False
    if not all(trace.is_captured(source, step) for source in _sources(trace, path, rule)):
        return False
    return (
        step == 0 or "log_decay" not in rule.reads or trace.is_captured(f"{path}.state", step - 1)
    )


def how_recomputed(trace: "Trace", name: str) -> str:
    path, _, attribute = name.rpartition(".")
    rule = RULES[f"{trace.taps[name].owner}.{attribute}"]
    layer = path.rpartition(".")[0]
    names = [source.removeprefix(f"{path}.") for source in _sources(trace, path, rule)]
    names = [source.removeprefix(f"{layer}.") for source in names]
    return f"re-computed in float64 from {', '.join(names)}"


def _sources(trace: "Trace", path: str, rule: "Rule") -> list[str]:
    """Whole names of what a rule reads; without a latent, experts read the normed stream."""
    layer = path.rpartition(".")[0]
    has_latent = trace.config.routed_expert_hidden_size is not None
    stream = f"{layer}.post_attention_layernorm.normed"
    return [
        stream if name == "latent" and not has_latent else f"{path}.{name}" for name in rule.reads
    ]


def recompute(
    trace: "Trace", name: str, step: int, pos: Selection = None, head: Selection = None
) -> np.ndarray:
    """The chosen tokens and heads of a value that was not held."""
    path, _, attribute = name.rpartition(".")
    rule = RULES[f"{trace.taps[name].owner}.{attribute}"]
    dims = AT_TOKENS if attribute == "state" else trace.taps[name].dims
    num_heads = trace.tensor(_sources(trace, path, rule)[0], step).shape[2]
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
            seen[t] = terms[request.attribute]
    return np.stack([seen[t] for t in request.rows], axis=1)


def _attention_rows(request: Request) -> np.ndarray:
    """Scores of the chosen queries with every key, masked and normalized as far as asked."""
    trace = request.trace
    keys = trace.array(f"{request.path}.k_cached", request.step)[:, request.heads]
    q = request.read("q").swapaxes(1, 2)
    scores = q @ keys.astype(np.float64).swapaxes(-1, -2) * score_scale(trace.config)
    if request.attribute == "scores":
        return scores
    past = keys.shape[2] - trace.step_length(request.step)
    reach = past + np.array(request.rows)
    masked = np.where(np.arange(keys.shape[2]) <= reach[:, None], scores, -np.inf)
    if request.attribute == "masked":
        return masked
    powers = np.exp(masked - masked.max(-1, keepdims=True))
    return powers / powers.sum(-1, keepdims=True)


def _expert_hidden(request: Request) -> np.ndarray:
    trace, rows = request.trace, request.rows
    assert trace.model is not None
    w1, w3 = (trace.model.get_parameter(f"{request.path}.experts.{w}") for w in ("w1", "w3"))
    names = _sources(trace, request.path, RULES["KimiSparseMoE.expert_hidden"])
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
    k, v = (request.trace.tensor(f"{request.path}.{n}", request.step).shape for n in "kv")
    return 8 * k[0] * len(request.rows) * len(request.heads) * k[-1] * v[-1]


def _row_bytes(request: Request) -> int:
    keys = request.trace.tensor(f"{request.path}.k_cached", request.step).shape
    return 8 * keys[0] * len(request.rows) * len(request.heads) * keys[2]


def _small(_request: Request) -> int:
    return 0


@dataclass(frozen=True)
class Rule:
    """How one value is computed from what stands beside it."""

    reads: tuple[str, ...]
    compute: Callable[[Request], np.ndarray]
    bytes: Callable[[Request], int] = _small
    needs_model: bool = False


_TERMS = ("k", "v", "log_decay", "beta")

RULES = {
    "KimiDeltaAttention.retention": Rule(("log_decay",), _retention),
    "KimiDeltaAttention.decayed_state": Rule(_TERMS, _delta_rule, _matrix_bytes),
    "KimiDeltaAttention.recalled": Rule(_TERMS, _delta_rule),
    "KimiDeltaAttention.state": Rule(_TERMS, _delta_rule, _matrix_bytes),
    "KimiMLAAttention.scores": Rule(("q", "k_cached"), _attention_rows, _row_bytes),
    "KimiMLAAttention.masked": Rule(("q", "k_cached"), _attention_rows, _row_bytes),
    "KimiMLAAttention.pattern": Rule(("q", "k_cached"), _attention_rows, _row_bytes),
    "KimiSparseMoE.expert_hidden": Rule(
        ("latent", "gate.chosen"), _expert_hidden, needs_model=True
    ),
}
