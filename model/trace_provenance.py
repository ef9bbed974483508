"""Where a value comes from: four words, and what stands beside them. Needs no torch."""

from dataclasses import dataclass, replace
from typing import Literal, Self

Kind = Literal["captured", "recomputed", "derived", "not captured"]


@dataclass(frozen=True, slots=True)
class Provenance:
    """Where a value comes from, in the four words that stand beside every value shown."""

    kind: Kind
    tap: str
    step: int
    dims: tuple[str, ...]
    dtype: str
    """Of the tensor in the model, also where `array` widens it."""
    device: str
    path: str
    """What computed it, `torch` or `triton`."""
    run_id: str
    reason: str = ""
    """Why it is not captured, or from what it was re-computed."""

    def derived(self, how: str) -> Self:
        """For a statistic of this value."""
        return replace(self, kind="derived", reason=how)
