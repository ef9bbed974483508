"""What a running model keeps between calls, counted on its cache. torch is imported when asked."""

from dataclasses import dataclass
from typing import Any

from app.run_ticket import Ticket
from app.sources import source_of
from model.cost import kept, parameters
from model.cost_kept import Kind
from model.cost_terms import Value

MOST_POSITIONS = 64
MOST_VALUES = 2**28
"""Parameters up to which a model is loaded once more, for its other dtype."""
DTYPES = ("float32", "bfloat16")


@dataclass(frozen=True)
class Measured:
    """All layers of one kind, in one dtype of the activations."""

    kind: Kind
    dtype: str
    layers: int
    values: int
    bytes: int
    predicted_values: Value
    predicted_bytes: Value
    of_a_layer: Value
    """Predicted bytes of one layer."""

    @property
    def difference(self) -> int:
        """In bytes and in values together; 0 where both agree."""
        return abs(self.values - int(self.predicted_values.value)) + abs(
            self.bytes - int(self.predicted_bytes.value)
        )


@dataclass(frozen=True)
class Measurement:
    """What a model kept after some tokens of a run: a prompt, then one more token."""

    positions: int
    rows: tuple[Measured, ...]
    left_out: str = ""
    """Why a dtype is missing."""


def measure(run: Any, ticket: Ticket[Any]) -> Measurement:
    """Feed the run's tokens again in each form and dtype, and count what the cache holds."""
    ids = [int(i) for i in run.token_ids[:MOST_POSITIONS]]
    rows: list[Measured] = []
    left_out = ""
    for dtype in DTYPES:
        ticket.report(f"counting the cache in {dtype}", DTYPES.index(dtype) / len(DTYPES))
        lm = _in(run, dtype)
        if lm is None:
            left_out = (
                f"{dtype} was not counted: {run.source} runs in {run.dtype}, and is too large to "
                "be loaded a second time."
            )
            continue
        rows += _rows(lm, ids, dtype)
    return Measurement(positions=len(ids), rows=tuple(rows), left_out=left_out)


def _in(run: Any, dtype: str) -> Any | None:
    """The model of a run in a dtype; None where a second one is too large."""
    if run.dtype == dtype:
        return run.model
    if parameters(run.config).total > MOST_VALUES:
        return None
    from model.load import load

    asked = source_of(run.source)
    layers = None if asked.layers is None else range(asked.layers)
    return load(asked.where, dtype=dtype, layers=layers)


def _rows(lm: Any, ids: list[int], dtype: str) -> list[Measured]:
    found: dict[Kind, Measured] = {}
    for form in ("expanded", "latent"):
        cache = _filled(lm, ids, form)
        for mixer in ("mla", "kda"):
            layers = [
                layer
                for kind, layer in zip(lm.config.mixers, cache.layers, strict=True)
                if kind == mixer
            ]
            kind: Kind = "kda" if mixer == "kda" else form
            if layers and kind not in found:
                found[kind] = _measured(lm.config, kind, dtype, layers, cache.positions)
    return list(found.values())


def _measured(config: Any, kind: Kind, dtype: str, layers: list[Any], positions: int) -> Measured:
    predicted = kept(config, kind, positions=positions, dtype=dtype)
    return Measured(
        kind=kind,
        dtype=dtype,
        layers=len(layers),
        values=sum(layer.values() for layer in layers),
        bytes=sum(layer.bytes() for layer in layers),
        predicted_values=predicted.total_values,
        predicted_bytes=predicted.total_bytes,
        of_a_layer=predicted.bytes,
    )


def _filled(lm: Any, ids: list[int], form: str) -> Any:
    """The cache after a prompt and, where there is more than one token, one step of decode."""
    import torch

    cache = lm.new_cache(batch=1, mla=form)
    prompt = max(1, len(ids) - 1)
    device = lm.embed_tokens.weight.device
    with torch.no_grad():
        for part in (ids[:prompt], ids[prompt:]):
            if part:
                lm(torch.tensor([part], device=device), cache=cache, logits="last")
    return cache
