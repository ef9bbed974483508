"""The delta rule from raw projections, by the model's own layer in float64."""

from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from model.kda import KimiDeltaAttention, delta_rule, unit_length
from model.presets import tiny_k3
from tests.parity.triton.guards import Guards
from tests.parity.triton.references import drawn, frozen, wide

K3_BOUND = -5.0
GATES = {"bounded gate": K3_BOUND, "unbounded gate": None}


@dataclass
class Raw:
    """What `kda_step` and `kda_prefill` take, before it is guarded."""

    q: Tensor
    k: Tensor
    v: Tensor
    gate_logit: Tensor
    beta_logit: Tensor
    A_log: Tensor
    dt_bias: Tensor
    state: Tensor
    lower_bound: float | None
    lengths: Tensor | None = None

    def guarded(self, guards: Guards, dtype: torch.dtype = torch.float32) -> dict[str, Any]:
        rows = ("q", "k", "v", "gate_logit", "beta_logit")
        held = {name: guards.copy(getattr(self, name).to(dtype)) for name in rows}
        for name in ("A_log", "dt_bias", "state"):
            held[name] = guards.copy(getattr(self, name))
        lengths = None if self.lengths is None else guards.copy(self.lengths)
        return held | {"lower_bound": self.lower_bound, "lengths": lengths}


def draw(
    pos: int,
    *,
    batch: int = 1,
    heads: int = 2,
    widths: tuple[int, int] = (60, 100),
    bound: float | None = K3_BOUND,
    seed: int = 0,
) -> Raw:
    """Random projections and a random memory, `widths` being those of keys and of values."""
    K, V = widths
    rows = (batch, pos, heads)
    return Raw(
        q=drawn(*rows, K, seed=seed),
        k=drawn(*rows, K, seed=seed + 1),
        v=drawn(*rows, V, seed=seed + 2),
        gate_logit=drawn(*rows, K, seed=seed + 3),
        beta_logit=drawn(*rows, seed=seed + 4),
        A_log=0.5 * drawn(heads, seed=seed + 5),
        dt_bias=drawn(heads * K, seed=seed + 6) - 1,
        state=drawn(batch, heads, V, K, seed=seed + 7),
        lower_bound=bound,
    )


def log_decay_of(raw: dict[str, Any]) -> Tensor:
    """By the model's layer, whose second gate projection is a unit matrix here."""
    gate_logit = wide(raw["gate_logit"])
    H, K = gate_logit.shape[-2:]
    config = tiny_k3()
    assert config.linear_attn_config is not None
    linear = replace(config.linear_attn_config, num_heads=H, head_dim=K)
    linear = replace(linear, gate_lower_bound=raw["lower_bound"])
    layer = KimiDeltaAttention(replace(config, linear_attn_config=linear))
    layer.f_b_proj.weight = frozen(torch.eye(H * K))
    layer.A_log, layer.dt_bias = frozen(raw["A_log"]), frozen(raw["dt_bias"])
    return layer.forget_gate(gate_logit.flatten(-2))


def terms_of(raw: dict[str, Any]) -> dict[str, Tensor]:
    """What the model's `delta_rule` takes."""
    q, k = (unit_length(wide(raw[name])) for name in ("q", "k"))
    return {
        "q": q * q.shape[-1] ** -0.5,
        "k": k,
        "v": wide(raw["v"]),
        "log_decay": log_decay_of(raw),
        "beta": wide(raw["beta_logit"]).sigmoid(),
        "state": wide(raw["state"]),
    }


def reference(raw: dict[str, Any]) -> tuple[Tensor, Tensor]:
    """Reads and final state, sequence by sequence up to its length; padding reads zero."""
    terms = terms_of(raw)
    state = terms.pop("state").clone()
    read = torch.zeros_like(terms["v"])
    lengths = raw["lengths"]
    for b in range(len(state)):
        end = read.shape[1] if lengths is None else int(lengths[b])
        if end:
            one = (x[b : b + 1, :end] for x in terms.values())
            _, reads, borders = delta_rule(*one, state[b : b + 1])
            read[b, :end], state[b] = reads[0], borders[0, -1]
    return read, state
