"""Arrays as the browser takes them, and what can be said of one in a line."""

import base64
from typing import TypedDict

import numpy as np
from numpy.typing import NDArray


class Statistics(TypedDict):
    count: int
    min: float
    max: float
    mean: float
    std: float
    norm: float
    nan: int
    above: int
    below: int
    masked: int


def encode(values: NDArray[np.floating]) -> str:
    """Every value in row order, as base64 of little-endian float32."""
    return base64.b64encode(np.ascontiguousarray(values, dtype="<f4").tobytes()).decode("ascii")


def statistics(values: NDArray[np.floating], masked: NDArray[np.bool_] | None = None) -> Statistics:
    """Of the finite values that are not masked; what is no number is counted apart."""
    wide = np.asarray(values, dtype=np.float64)
    seen = wide if masked is None else wide[~masked]
    finite = seen[np.isfinite(seen)]
    empty = finite.size == 0
    return Statistics(
        count=int(finite.size),
        min=0.0 if empty else float(finite.min()),
        max=0.0 if empty else float(finite.max()),
        mean=0.0 if empty else float(finite.mean()),
        std=0.0 if empty else float(finite.std()),
        norm=float(np.sqrt(np.square(finite).sum())),
        nan=int(np.isnan(seen).sum()),
        above=int(np.isposinf(seen).sum()),
        below=int(np.isneginf(seen).sum()),
        masked=0 if masked is None else int(masked.sum()),
    )


def spread(values: NDArray[np.floating]) -> float:
    """Three standard deviations about zero, of the finite values; 0 where there are none."""
    wide = np.asarray(values, dtype=np.float64)
    finite = wide[np.isfinite(wide)]
    return 3.0 * float(np.sqrt(np.square(finite).mean())) if finite.size else 0.0


def largest(values: NDArray[np.floating]) -> float:
    """The largest finite magnitude; 0 where there is none."""
    wide = np.asarray(values, dtype=np.float64)
    finite = wide[np.isfinite(wide)]
    return float(np.abs(finite).max()) if finite.size else 0.0
