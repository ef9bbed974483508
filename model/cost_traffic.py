"""Bytes that one decoded token makes a machine read: weights and what layers keep."""

from dataclasses import dataclass

from model.config import KimiConfig
from model.cost_kept import Kind, kept_bytes
from model.cost_parameters import EXPERTS, weight_bytes
from model.cost_sizes import Case
from model.cost_terms import Term, Value, named, total


@dataclass(frozen=True, kw_only=True, slots=True)
class Traffic:
    """Of one decode step of a batch."""

    weights: Value
    """In the released format. A batch may choose different experts: at most this much."""
    cache: Value
    """Keys and values or latents at this context, and states."""
    total: Value


def traffic(
    config: KimiConfig, *, batch: int = 1, positions: int = 4096, mla: Kind = "expanded"
) -> Traffic:
    case = Case(config=config, batch=batch, positions=positions)
    weights, cache = weights_read(case), cache_read(case, mla)
    return Traffic(
        weights=weights.as_value("bytes"),
        cache=cache.as_value("bytes"),
        total=(weights.named("weights") + cache.named("cache")).as_value("bytes"),
    )


def weights_read(case: Case) -> Term:
    """All but the embedding table and the experts that nobody chose."""
    config = case.config
    embedding = named("embedding", weight_bytes(config, "embed_tokens"))
    read = named("weights", weight_bytes(config)) - embedding
    experts = weight_bytes(config, EXPERTS)
    if not experts:
        return read
    used = min(config.num_experts, case.batch * config.num_experts_per_token)
    idle = named("experts not chosen", config.num_experts - used)
    return read - idle * named("bytes of an expert in all layers", experts // config.num_experts)


def cache_read(case: Case, mla: Kind = "expanded") -> Term:
    """What attention reads of its cache and KDA of its states."""
    parts = []
    if case.count("mla"):
        parts.append(
            named("MLA layers", case.count("mla")) * kept_bytes(case, mla).named("bytes of a layer")
        )
    if case.count("kda"):
        parts.append(
            named("KDA layers", case.count("kda"))
            * kept_bytes(case, "kda").named("bytes of a state")
        )
    return total(parts)
