"""What a layer keeps between calls: expanded keys and values, their latent, or a KDA state."""

from dataclasses import dataclass
from typing import Literal

from model.config import KimiConfig
from model.cost_sizes import Case
from model.cost_terms import Term, Value, named

Kind = Literal["expanded", "latent", "kda"]

BYTES = {"float64": 8, "float32": 4, "bfloat16": 2, "float16": 2, "int64": 8}
RECURRENT_BYTES = BYTES["float32"]
"""The recurrent state is in float32, or wider in a wider model."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Kept:
    """What all layers of one kind keep for a batch at a context."""

    kind: Kind
    layers: int
    values: Value
    """Of one layer."""
    bytes: Value
    total_values: Value
    """Of all layers of this kind."""
    total_bytes: Value


def expanded_per_position(case: Case) -> Term:
    case.need("mla")
    key, value = case.mla("d_qk"), case.mla("d_value")
    return case.mla("head") * (key + value)


def latent_per_position(case: Case) -> Term:
    case.need("mla")
    return case.mla("d_kv_latent") + case.mla("d_shared")


def recurrent_values(case: Case) -> Term:
    return case.kda("head") * case.kda("d_value") * case.kda("d_key")


def convolution_values(case: Case) -> Term:
    """Of the three convolutions before q, k and v; each keeps all columns of its kernel."""
    return 3 * case.kda("d_inner") * case.kda("lag")


def kept_values(case: Case, kind: Kind) -> Term:
    batch, context = case.size("batch"), case.context
    if kind == "expanded":
        return batch * context * expanded_per_position(case)
    if kind == "latent":
        return batch * context * latent_per_position(case)
    if kind == "kda":
        return batch * (recurrent_values(case) + convolution_values(case))
    raise ValueError(f"Got the kind {kind!r}; a layer keeps 'expanded', 'latent' or 'kda'.")


def kda_bytes(case: Case, dtype: str = "bfloat16") -> Term:
    """Of one sequence: the state in float32, the columns in the activations' dtype."""
    wide = max(RECURRENT_BYTES, BYTES.get(dtype, 0))
    state = named(f"{wide} bytes", wide) * recurrent_values(case).named("recurrent values")
    columns = _width(dtype) * convolution_values(case).named("convolution values")
    return state + columns


def kept_bytes(case: Case, kind: Kind, dtype: str = "bfloat16") -> Term:
    """In bytes; `dtype` is the activations', in which caches and convolution columns are kept."""
    if kind == "kda":
        return case.size("batch") * kda_bytes(case, dtype)
    return kept_values(case, kind) * _width(dtype)


def _width(dtype: str) -> Term:
    if dtype not in BYTES:
        raise ValueError(f"Got the dtype {dtype!r}; sizes are known for {', '.join(BYTES)}.")
    return named(f"{BYTES[dtype]} bytes", BYTES[dtype])


def kept(
    config: KimiConfig,
    kind: Kind,
    *,
    batch: int = 1,
    positions: int = 4096,
    dtype: str = "bfloat16",
) -> Kept:
    """What one layer keeps and what all layers of its kind keep; only for kinds the model has."""
    case = Case(config=config, batch=batch, positions=positions)
    values, size = kept_values(case, kind), kept_bytes(case, kind, dtype)
    layers = case.layers("kda" if kind == "kda" else "mla")
    return Kept(
        kind=kind,
        layers=int(layers.value),
        values=values.as_value("values"),
        bytes=size.as_value("bytes"),
        total_values=(layers * values.named("values of a layer")).as_value("values"),
        total_bytes=(layers * size.named("bytes of a layer")).as_value("bytes"),
    )


def total_kept_bytes(case: Case, mla: Kind = "expanded", dtype: str = "bfloat16") -> int:
    """Bytes that all layers keep together."""
    kinds: list[tuple[str, Kind]] = [("kda", "kda"), ("mla", mla)]
    return sum(
        case.count(mixer) * int(kept_bytes(case, kind, dtype).value)
        for mixer, kind in kinds
        if case.count(mixer)
    )
