"""How the values of a tensor are spread, whatever they are: NaN and infinity are counted apart."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from model.number_formats import Numbers

BINS = 64
SVD_SIDE = 1024
"""The shorter side of a matrix whose singular values are computed."""
SVD_WORK = 10_000_000_000
"""Rows × columns × shorter side, above which it would take more than a few seconds."""

Blocks = Callable[[], Iterable[Numbers]]
"""All values of a tensor in pieces, as often as asked."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Statistics:
    """Of the finite values, where it does not say otherwise. None where there are none."""

    count: int
    """All values, finite or not."""
    nan: int
    plus_infinity: int
    minus_infinity: int
    zeros: int
    minimum: float | None
    maximum: float | None
    mean: float | None
    deviation: float | None
    """Standard deviation over the values themselves, not an estimate from a sample."""
    rms: float | None
    """Root of the mean square."""
    edges: tuple[float, ...]
    """Of the histogram's bins, one more than there are `counts`."""
    counts: tuple[int, ...]

    @property
    def finite(self) -> int:
        return self.count - self.nan - self.plus_infinity - self.minus_infinity


def statistics(blocks: Blocks) -> Statistics:
    """Two passes: extremes first, then sums of values that are scaled by them."""
    count = nan = plus = minus = zeros = 0
    low, high = np.inf, -np.inf
    for block in blocks():
        count += block.size
        nan += int(np.isnan(block).sum())
        plus += int(np.isposinf(block).sum())
        minus += int(np.isneginf(block).sum())
        zeros += int((block == 0).sum())
        finite = block[np.isfinite(block)]
        if finite.size:
            low, high = min(low, float(finite.min())), max(high, float(finite.max()))
    spread = _spread(blocks, low, high) if low <= high else _NO_SPREAD
    return Statistics(
        count=count,
        nan=nan,
        plus_infinity=plus,
        minus_infinity=minus,
        zeros=zeros,
        minimum=low if low <= high else None,
        maximum=high if low <= high else None,
        **spread,
    )


_NO_SPREAD: dict[str, Any] = {
    **dict.fromkeys(("mean", "deviation", "rms")),
    **dict.fromkeys(("edges", "counts"), ()),
}


def _spread(blocks: Blocks, low: float, high: float) -> dict[str, Any]:
    """Moments and histogram of the finite values; scaled, so that no square overflows."""
    scale = max(abs(low), abs(high)) or 1.0
    ends = low / scale, high / scale
    edges = np.linspace(*ends, BINS + 1) if ends[0] < ends[1] else None
    counts = np.zeros(BINS, dtype=np.int64)
    total, finite, squares = 0.0, 0, 0.0
    for values in _scaled(blocks, scale):
        finite += values.size
        total += float(values.sum())
        squares += float(np.square(values).sum())
        if edges is not None:
            counts += np.histogram(values, BINS, ends)[0]
    mean = total / finite
    variance = sum(float(np.square(v - mean).sum()) for v in _scaled(blocks, scale)) / finite
    return {
        "mean": mean * scale,
        "deviation": float(np.sqrt(variance)) * scale,
        "rms": float(np.sqrt(squares / finite)) * scale,
        "edges": (low, high) if edges is None else (low, *(edges[1:-1] * scale).tolist(), high),
        "counts": (finite,) if edges is None else tuple(counts.tolist()),
    }


def _scaled(blocks: Blocks, scale: float) -> Iterable[Numbers]:
    return (block[np.isfinite(block)] / scale for block in blocks())


def singular_values(matrix: Numbers) -> Numbers:
    """Largest first."""
    return np.linalg.svd(matrix, compute_uv=False).astype(np.float64)


def why_no_singular_values(shape: tuple[int, ...], finite: bool, whole: bool) -> str:
    """In words; empty where they can be computed."""
    if len(shape) != 2 or 0 in shape:
        return "only matrices have them"
    if not whole:
        return "only some rows were read"
    if not finite:
        return "some values are not finite"
    if min(shape) > SVD_SIDE or shape[0] * shape[1] * min(shape) > SVD_WORK:
        return f"{shape[0]:,} × {shape[1]:,} is too large to compute them at once"
    return ""
