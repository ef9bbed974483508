"""Pictures of a checkpoint's tensors: bars of a histogram, a line of singular values, maps."""

import math
import re
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from app.figures.heat import Group, Panel, Rows, heat_figure, reduce_columns
from app.figures.mosaic import Mosaic

DECADES = 12
"""Powers of ten below the largest singular value that a chart goes down to."""
MOST_BARS = 64
MOST_NUMBERS, SIDE = 12, 7
"""Columns that have room for numbers; pixels of a cell in a small picture."""
MOST_MAP_ROWS = 256
"""So many that each of K3's reads of its residual bank has a row."""


def heights(counts: Sequence[int]) -> list[float]:
    """Height of each bin's bar in per cent of the tallest; empty bins have none."""
    most = max(counts, default=0)
    # a single value must be seen beside a million
    return [round(max(100 * count / most, 1.0), 2) if count else 0.0 for count in counts]


def falling(values: Sequence[float]) -> list[float]:
    """Height in per cent of values that fall, largest first, on a logarithmic axis.

    The axis ends `DECADES` below the largest, as what is smaller is rounding. Of many values every
    second, third … has a bar. Empty where none is positive.
    """
    if not values or values[0] <= 0:
        return []
    step = -(-len(values) // MOST_BARS)
    floor = values[0] * 10.0**-DECADES
    shown = [max(value, floor) for value in values[::step]]
    lowest = math.log10(shown[-1])
    span = max(math.log10(shown[0]) - lowest, 1e-9)
    return [round(max(100 * (math.log10(v) - lowest) / span, 1.0), 2) for v in shown]


def rank_of(values: Sequence[float], shape: Sequence[int]) -> int:
    """How many singular values are above the rounding of float32, as matrix ranks are counted."""
    if not values:
        return 0
    floor = values[0] * max(shape) * float(np.finfo(np.float32).eps)
    return sum(value > floor for value in values)


def map_figure(
    values: NDArray,
    *,
    name: str,
    symbol: str,
    rows: tuple[str, Sequence[str]],
    column: str,
    columns: Sequence[str] | None = None,
    signed: bool,
    bound: float | None = None,
    taps: Sequence[str],
    facts: Sequence[str],
    stream: str,
) -> dict[str, Any]:
    """A matrix as the canvas draws it; `rows` are the word and the labels of its rows.

    `columns` are labels of columns that have any, `bound` what no value exceeds. Of more rows than
    fit every second, third … is shown, and said.
    """
    step = -(-values.shape[0] // MOST_MAP_ROWS)
    shown, factor = reduce_columns(values[::step])
    notes = [f"every {step} rows one is shown"] if step > 1 else []
    if factor > 1:
        notes.append(f"of every {factor} columns the largest is shown")
    panel = Panel(
        symbol=symbol,
        values=shown.astype(np.float32),
        groups=(Group(name=f"{name}, {column}", word=column, size=shown.shape[1], stream=stream),),
        signed=signed,
        bound=bound,
        is_bounded=bound is not None,
        column_step=factor,
        column_labels=tuple(columns[::factor]) if columns is not None else None,
    )
    return _figure(panel, rows[0], rows[1][::step], taps, [*facts, *notes])


def mosaic_figure(mosaic: Mosaic, name: str) -> dict[str, Any]:
    """A tensor of a checkpoint as the canvas draws it: its values, or how large they are where."""
    down, across = mosaic.steps
    count, width = mosaic.cells.shape
    behind = "value" if mosaic.is_exact else f"root mean square of {down:,} × {across:,} values"
    panel = Panel(
        symbol=name,
        values=mosaic.cells.astype(np.float32),
        groups=(Group(name=behind, word="column", size=width),),
        signed=mosaic.is_exact,
        column_step=across,
    )
    facts = ["as stored"] if mosaic.is_exact else [f"each cell is the {behind}"]
    figure = _figure(panel, "row", [str(i * down) for i in range(count)], [name], facts)
    # few values are written into their cells, many are a small picture with square ones
    if count == 1:
        return figure
    is_small = width > MOST_NUMBERS or count > MOST_NUMBERS
    return figure | ({"widest": SIDE, "tallest": SIDE} if is_small else {})


def _figure(
    panel: Panel, word: str, labels: Sequence[str], taps: Sequence[str], facts: Sequence[str]
) -> dict[str, Any]:
    return heat_figure(
        [panel],
        Rows(word=word, labels=tuple(labels), is_position=False),
        node="weights",
        layer=-1,
        run="",
        name=_file_name(panel.symbol),
        note="",
        token=None,
        ask_token=False,
        tools={"heads": 0, "head": None, "tokens": None, "token": None},
        provenance=[{"kind": "derived", "taps": list(taps), "facts": list(facts)}],
    )


def _file_name(symbol: str) -> str:
    """For exports: letters, digits and little else."""
    return re.sub(r"[^\w.]+", "-", symbol).strip("-")
