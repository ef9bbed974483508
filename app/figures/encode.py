"""Arrays as the browser takes them, and what can be said of one in a line."""

import base64
from typing import TypedDict

import numpy as np
from numpy.typing import NDArray

EXACT_CELLS = 65_536
"""Up to this many cells the browser gets every value as float32, beyond it in 253 levels."""
NOT_A_NUMBER, MINUS_INFINITY, PLUS_INFINITY, LOWEST, HIGHEST = 0, 1, 2, 3, 255


class Encoded(TypedDict):
    form: str
    b64: str
    low: float
    high: float


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


def encode(values: NDArray[np.floating], bound: float, *, signed: bool) -> Encoded:
    """`values` in row order as base64: exact while they are few, else one byte each."""
    low, high = (-bound, bound) if signed else (0.0, bound)
    if values.size <= EXACT_CELLS:
        raw = np.ascontiguousarray(values, dtype="<f4").tobytes()
        return Encoded(form="float32", b64=_text(raw), low=low, high=high)
    return Encoded(form="uint8", b64=_text(levels(values, low, high).tobytes()), low=low, high=high)


def levels(values: NDArray[np.floating], low: float, high: float) -> NDArray[np.uint8]:
    """One byte a value: three codes for what is no number, 253 levels from `low` to `high`."""
    wide = values.astype(np.float64)
    finite = np.isfinite(wide)
    span = (high - low) or 1.0
    share = np.clip((np.where(finite, wide, low) - low) / span, 0.0, 1.0)
    codes = np.rint(LOWEST + share * (HIGHEST - LOWEST)).astype(np.uint8)
    codes[np.isnan(wide)] = NOT_A_NUMBER
    codes[np.isneginf(wide)] = MINUS_INFINITY
    codes[np.isposinf(wide)] = PLUS_INFINITY
    return codes


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


def _text(raw: bytes) -> str:
    return base64.b64encode(raw).decode("ascii")
