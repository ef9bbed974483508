"""Pictures of a checkpoint's tensors: bars of a histogram, a line of singular values, maps."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from app.figures.heat import MOST_ROWS, Group, Panel, Rows, heat_figure, reduce_columns

DECADES = 12
"""Powers of ten below the largest singular value that a chart goes down to."""
MOST_BARS = 64


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
    signed: bool,
    bound: float | None,
    facts: Sequence[str],
    stream: str,
) -> dict[str, Any]:
    """A matrix as the canvas draws it; `rows` are the word and the labels of its rows.

    Of more rows than fit every second, third … is shown, and said.
    """
    step = -(-values.shape[0] // MOST_ROWS)
    shown, factor = reduce_columns(values[::step])
    notes = [f"every {step} rows one is shown"] if step > 1 else []
    if factor > 1:
        notes.append(f"of every {factor} columns the largest is shown")
    panel = Panel(
        symbol=symbol,
        values=shown.astype(np.float32),
        groups=(Group(name=name, word=column, size=shown.shape[1], stream=stream),),
        signed=signed,
        bound=bound,
        column_step=factor,
    )
    labels = tuple(rows[1])[::step]
    return heat_figure(
        [panel],
        Rows(word=rows[0], labels=labels, is_position=False),
        node="weights",
        layer=-1,
        run="",
        name=name,
        note="",
        token=None,
        ask_token=False,
        tools={"heads": 0, "head": None, "tokens": None, "token": None},
        provenance=[{"kind": "derived", "taps": [symbol], "facts": [*facts, *notes]}],
    )
