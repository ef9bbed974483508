"""How much a run will record, told before it starts, and what to leave out where it is too much."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from model.cache import MLACache
from model.config import KimiConfig
from model.dims import size
from model.kda import KimiDeltaAttention
from model.kda_chunk import SEGMENT
from model.mla import EXPLICIT_KEYS, KimiMLAAttention

if TYPE_CHECKING:
    from model.trace_data import TapFacts

DEFAULT = 256 * 1024**2
"""Bytes of captured tensors for one run."""

_LATENTS = ("latent_cached", "shared_cached")
_GROWN = ("kv_up", "k_content", "v", "k", "k_cached", "v_cached")
_WIDE_OWNERS = ("KimiDeltaAttention", "AttnResidual", "KimiMoEGate")


@dataclass(frozen=True)
class Plan:
    """What a run records, and for the rest the reason."""

    names: frozenset[str]
    left_out: Mapping[str, str]
    predicted: int
    """Bytes of everything that was asked for."""
    kept: int
    """Bytes of what the budget lets through."""

    @property
    def notices(self) -> tuple[str, ...]:
        """A sentence where the budget left something out."""
        if self.kept == self.predicted:
            return ()
        return (
            f"The run would record up to {_mib(self.predicted)}; what exceeds the budget is left "
            "out and can be asked for alone.",
        )


def _mib(size: int) -> str:
    return f"{size / 1024**2:,.0f} MiB"


def fires(
    name: str, facts: "TapFacts", config: KimiConfig, pos: int, src: int, mla: MLACache
) -> bool:
    """Whether a tap gives a tensor in a call of `pos` tokens that ends with `src` cached."""
    path, _, attribute = name.rpartition(".")
    if path == "layers.0.self_attention_res":
        return False
    if facts.owner == "KimiDeltaAttention":
        return pos == 1 or attribute not in KimiDeltaAttention.RECOMPUTED
    if facts.owner == "KimiSparseMoE":
        return attribute != "latent" or config.routed_expert_hidden_size is not None
    if facts.owner != "KimiMLAAttention":
        return True
    absent = {
        "q_down": config.q_lora_rank is None,
        "output_gate": not config.mla_use_output_gate,
        "gated": not config.mla_use_output_gate,
        **dict.fromkeys(_LATENTS, mla == "expanded"),
        **dict.fromkeys(_GROWN, mla == "latent" and src > pos),
        **dict.fromkeys(KimiMLAAttention.FUSED_AWAY, src > EXPLICIT_KEYS),
    }
    return not absent.get(attribute, False)


def sources(name: str, config: KimiConfig) -> int:
    """Size of the axis `source` at this tap."""
    parts = name.split(".")
    if parts[0] != "layers":
        return config.bank_size(config.num_hidden_layers - 1) + 1
    layer = int(parts[1])
    if parts[2] == "bank":
        return config.bank_size(layer)
    return config.bank_size(layer - 1 if parts[2] == "self_attention_res" else layer) + 1


def tap_bytes(
    name: str, facts: "TapFacts", config: KimiConfig, pos: int, src: int, itemsize: int
) -> int:
    """Bytes of one tensor, as if it shared no memory with another."""
    if name.rpartition(".")[2] == "chosen":
        itemsize = 8
    elif facts.owner in _WIDE_OWNERS:
        itemsize = max(itemsize, 4)
    for word in facts.dims:
        itemsize *= size(
            word,
            config,
            pos=pos,
            src=src,
            source=sources(name, config) if word == "source" else 1,
            border=-(-pos // SEGMENT),
            owner=facts.owner,
            width=facts.width,
        )
    return itemsize


def predicted_bytes(
    taps: Mapping[str, "TapFacts"],
    config: KimiConfig,
    prompt: int,
    new_tokens: int,
    itemsize: int,
    mla: MLACache = "expanded",
) -> dict[str, int]:
    """An upper bound for each tap over the whole run."""
    calls = [(prompt, prompt), *((1, prompt + s) for s in range(1, new_tokens + 1))]
    total = {}
    for name, facts in taps.items():
        total[name] = sum(
            tap_bytes(name, facts, config, pos, src, itemsize)
            for pos, src in calls
            if fires(name, facts, config, pos, src, mla)
        )
    return total


def plan(
    taps: Mapping[str, "TapFacts"], sizes: Mapping[str, int], keep: Collection[str], budget: int
) -> Plan:
    """Leave out squares first, then the largest kind of tap, until the rest fits.

    Squares (`pos` by `src`) come first since their rows are re-computed on request.
    """
    predicted = sum(sizes[name] for name in keep)
    left_out = {
        name: f"this run was asked to keep {len(keep)} names, and it is not among them"
        for name in taps
        if name not in keep
    }
    groups: dict[tuple[bool, str], list[str]] = {}
    for name in keep:
        square = {"pos", "src"} <= set(taps[name].dims)
        kind = f"{taps[name].owner}.{name.rpartition('.')[2]}"
        groups.setdefault((square, kind), []).append(name)
    weights = {group: sum(sizes[name] for name in names) for group, names in groups.items()}
    kept, fitting = predicted, set(keep)
    for group in sorted(groups, key=lambda g: (g[0], weights[g]), reverse=True):
        if kept <= budget:
            break
        kept -= weights[group]
        fitting -= set(groups[group])
        reason = (
            f"over the budget: everything asked for would take up to {_mib(predicted)} and "
            f"{_mib(budget)} are allowed; ask for it alone with keep="
        )
        left_out |= dict.fromkeys(groups[group], reason)
    return Plan(frozenset(fitting), left_out, predicted, kept)
