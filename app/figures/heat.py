"""A heatmap, or several side by side on one row axis, as the tensor canvas takes it."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from app.figures.encode import encode, largest, spread, statistics

WIDEST_CELL, TALLEST_CELL = 40, 28
"""In CSS pixels."""
MOST_ROWS = 128
MOST_COLUMNS = 1_024


@dataclass(frozen=True, kw_only=True)
class Group:
    """Neighbouring columns with one name: the content part of a key, the shared part."""

    name: str
    word: str
    size: int
    stream: str = "ink"
    is_counted: bool = True
    """Whether the heading says from where to where its columns count."""


@dataclass(frozen=True, kw_only=True)
class Panel:
    """One matrix of the figure."""

    symbol: str
    values: NDArray
    """What is drawn."""
    groups: tuple[Group, ...]
    signed: bool = True
    bound_of_all: float | None = None
    """The bound over all heads, where the reader may choose it."""
    bound: float | None = None
    """Fixed end of the scale (1 for probabilities); else from the values."""
    is_bounded: bool = False
    """Whether no value can lie beyond `bound`, as of a cosine."""
    causal_from: int | None = None
    """Position of the first row, where columns after a row's own position are masked."""
    whole: NDArray | None = None
    """What `values` was cut from, if it was: scale and statistics are of it."""
    whole_is_causal: bool = False
    first_column: int = 0
    column_step: int = 1
    """Columns of the tensor behind one column of the picture."""
    scale_of: str = ""
    column_labels: tuple[str, ...] | None = None


@dataclass(frozen=True, kw_only=True)
class Rows:
    """The axis that all panels share."""

    word: str
    labels: tuple[str, ...]
    first: int = 0
    ids: tuple[int, ...] | None = None
    new_from: int | None = None
    """First position that decode appended, if the rows are positions."""
    is_position: bool = True


def heat_figure(
    panels: Sequence[Panel], rows: Rows, *, signs: Sequence[str] | None = None, **shared: Any
) -> dict[str, Any]:
    """Plain data of the figure; `shared` are the fields that all figures carry.

    With `signs` the panels are squares on one scale, the terms of a sum.
    """
    return {
        "kind": "heat",
        "signs": None if signs is None else list(signs),
        "widest": WIDEST_CELL,
        "tallest": TALLEST_CELL,
        "rows": {
            "axis": "positions" if rows.is_position else "rows",
            "word": rows.word,
            "labels": list(rows.labels),
            "ids": list(rows.ids) if rows.ids is not None else None,
            "first": rows.first,
            "new_from": rows.new_from,
            "is_position": rows.is_position,
        },
        "panels": [_panel(panel) for panel in panels],
        **shared,
    }


def _panel(panel: Panel) -> dict[str, Any]:
    values = panel.values
    measured, masked = _measured(panel)
    seen = measured if masked is None else np.where(masked, np.nan, measured.astype(np.float32))
    bound = panel.bound if panel.bound is not None else scale_end(seen, signed=panel.signed)
    bounds = {"this": bound}
    if panel.bound_of_all is not None:
        bounds["all"] = panel.bound_of_all
    finite = seen[np.isfinite(seen)]
    constant = float(finite.flat[0]) if finite.size and finite.min() == finite.max() else None
    name = ", ".join(group.name for group in panel.groups)
    return {
        "symbol": panel.symbol,
        "title": name,
        "columns": values.shape[1],
        "values": encode(values),
        "signed": panel.signed,
        "whole": bool(np.issubdtype(values.dtype, np.integer)),
        "clips": panel.signed and not panel.is_bounded and constant is None,
        "bounds": bounds,
        "scale_word": _scale_word(panel),
        "constant": constant,
        "causal_from": panel.causal_from,
        "first_column": panel.first_column,
        "column_step": panel.column_step,
        "column_labels": list(panel.column_labels) if panel.column_labels is not None else None,
        "column_word": panel.groups[0].word,
        "groups": _groups(panel.groups, panel.column_step),
        "statistics": statistics(measured, masked),
    }


def _scale_word(panel: Panel) -> str:
    """Where the ends of the scale come from."""
    ends = "±3σ" if panel.signed and not panel.is_bounded else ""
    return f"{ends} {panel.scale_of}".strip()


def scale_end(values: NDArray, *, signed: bool) -> float:
    """Where the scale ends: three deviations for signed values, the largest for magnitudes."""
    return spread(values) if signed else largest(values)


def _groups(groups: tuple[Group, ...], step: int) -> list[dict[str, Any]]:
    placed, start = [], 0
    for index, group in enumerate(groups):
        is_range = group.is_counted and group.size > 1
        last = f" 0 … {(group.size - 1) * step}" if is_range else ""
        placed.append(
            {
                "title": group.name + last,
                "short": group.name if index == 0 else group.name.split(", ")[-1],
                "word": group.word,
                "stream": group.stream,
                "start": start,
                "strong": index == 0,
            }
        )
        start += group.size
    return placed


def _measured(panel: Panel) -> tuple[NDArray, NDArray[np.bool_] | None]:
    """The whole matrix, and which of it is masked."""
    if panel.whole is not None:
        return panel.whole, _after_own(panel.whole, 0, 0) if panel.whole_is_causal else None
    if panel.causal_from is None:
        return panel.values, None
    return panel.values, _after_own(panel.values, panel.causal_from, panel.first_column)


def _after_own(values: NDArray, first_row: int, first_column: int) -> NDArray[np.bool_]:
    """Whether a column stands after the position of its row."""
    rows, columns = values.shape
    return np.arange(columns)[None] + first_column > np.arange(rows)[:, None] + first_row


def window(count: int, around: int | None, most: int = MOST_ROWS) -> tuple[int, int]:
    """First and last (exclusive) of at most `most` rows that hold `around`."""
    if count <= most:
        return 0, count
    middle = count - 1 if around is None else min(max(around, 0), count - 1)
    first = min(max(middle - most // 2, 0), count - most)
    return first, first + most


def reduce_columns(values: NDArray, most: int = MOST_COLUMNS) -> tuple[NDArray, int]:
    """Of every `k` neighbours the one of largest magnitude, so that `most` columns are left."""
    factor = -(-values.shape[1] // most)
    if factor <= 1:
        return values, 1
    padding = -values.shape[1] % factor
    wide = np.pad(values, ((0, 0), (0, padding)))
    blocks = wide.reshape(values.shape[0], -1, factor)
    chosen = np.abs(np.nan_to_num(blocks, nan=np.inf)).argmax(-1)
    return np.take_along_axis(blocks, chosen[..., None], -1)[..., 0], factor
