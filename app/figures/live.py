"""From the taps of a page to the pictures that show them."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from app.figures.encode import largest, spread
from app.figures.heat import (
    MOST_COLUMNS,
    Group,
    Panel,
    Rows,
    heat_figure,
    reduce_columns,
    window,
)
from app.figures.matrix import POSITIONS, matrix, word

UNIT_SCALE = frozenset(
    (
        "AttnResidual.weights",
        "KimiDeltaAttention.beta",
        "KimiDeltaAttention.retention",
        "KimiMLAAttention.output_gate",
        "KimiMLAAttention.pattern",
    )
)
"""Taps with values from 0 to 1, shown on that scale."""
FROM_ZERO = frozenset(("KimiMoEGate.scores", "KimiMoEGate.chosen_weight", "KimiMoEGate.chosen"))
"""Taps with values from 0 on, shown up to their largest."""


@dataclass(frozen=True, kw_only=True)
class Shown:
    """One tap as read: values without batch and head, and what stands beside them."""

    tap: str
    symbol: str
    stream: str
    dims: tuple[str, ...]
    values: NDArray
    parts: tuple[tuple[str, int], ...] = ()
    """Named parts of the last axis: `(("content", 32), ("shared", 16))`."""
    all_heads: NDArray | None = None


@dataclass(frozen=True, kw_only=True)
class Tokens:
    """The positions of the run so far."""

    labels: tuple[str, ...]
    ids: tuple[int, ...]
    new_from: int | None

    def cut(self, first: int, last: int) -> dict[str, Any]:
        return {
            "labels": list(self.labels[first:last]),
            "ids": list(self.ids[first:last]),
            "first": first,
            "new_from": self.new_from,
        }


@dataclass(frozen=True)
class Slice:
    """A matrix cut to what a page can hold, and the sentences that say so."""

    panel: Panel
    rows: Rows
    notes: tuple[str, ...]


def live_figure(shown: Sequence[Shown], tokens: Tokens, around: int | None, **shared: Any) -> Any:
    """Taps with equal rows side by side in one picture, others as further pictures."""
    slices = [_slice(each, tokens, around) for each in shown]
    groups: list[list[Slice]] = []
    for each in slices:
        if groups and groups[-1][0].rows == each.rows and len(groups[-1]) < 3:
            groups[-1].append(each)
        else:
            groups.append([each])
    return [_figure(group, shared, index) for index, group in enumerate(groups)]


def _figure(group: list[Slice], shared: dict[str, Any], index: int) -> dict[str, Any]:
    notes = tuple(dict.fromkeys(note for each in group for note in each.notes))
    symbols = [each.panel.symbol for each in group]
    parts = dict(shared)
    parts["note"] = "; ".join(notes) if notes else "whole tensor"
    parts["provenance"] = _merged([r for r in shared["provenance"] if r["symbol"] in symbols])
    parts["name"] = f"{shared['name']}-{'-'.join(symbols)}"
    if index:
        # the tools stand once
        parts["tools"] = shared["tools"] | {"tokens": None, "heads": 0}
    return heat_figure([each.panel for each in group], group[0].rows, **parts)


def _merged(rows: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Taps that come about in the same way in one row."""
    merged: dict[object, dict[str, Any]] = {}
    for row in rows:
        key = (row["kind"], tuple(row["facts"]))
        known = merged.setdefault(key, {"kind": row["kind"], "taps": [], "facts": row["facts"]})
        known["taps"] += row["taps"]
    return list(merged.values())


def _slice(each: Shown, tokens: Tokens, around: int | None) -> Slice:
    flat = matrix(each.values, each.dims)
    values, notes = flat.values, []
    is_position = flat.row_axis in POSITIONS
    count = values.shape[0]
    first, last = window(count, around if is_position else None)
    if last - first < count:
        notes.append(f"rows {first:,} … {last - 1:,} of {count:,}, around the chosen token")
        values = values[first:last]
    is_causal = flat.column_axis == "src" and is_position
    values, factor = reduce_columns(values, MOST_COLUMNS)
    if factor > 1:
        notes.append(f"of every {factor} columns the value of largest magnitude")
    if notes:
        notes.append("scale and statistics of the whole")
    rows = _rows(flat.row_axis, tokens, first, last)
    causal_from = first if is_causal and factor == 1 else None
    panel = _panel(each, values, flat.column_axis, causal_from)
    whole = replace(panel, whole=flat.values, whole_is_causal=is_causal, column_step=factor)
    return Slice(whole, rows, tuple(notes))


def _rows(axis: str, tokens: Tokens, first: int, last: int) -> Rows:
    if axis in POSITIONS:
        return Rows(
            word="position",
            labels=tokens.labels[first:last],
            ids=tokens.ids[first:last],
            first=first,
            new_from=tokens.new_from,
        )
    labels = ("",) if axis == "" else tuple(str(row) for row in range(first, last))
    return Rows(word=word(axis) if axis else "row", labels=labels, first=first, is_position=False)


def _panel(each: Shown, values: NDArray, column_axis: str, causal_from: int | None) -> Panel:
    signed = each.tap not in UNIT_SCALE | FROM_ZERO
    whole = each.all_heads
    bound_of_all = None
    if whole is not None and each.tap not in UNIT_SCALE:
        bound_of_all = spread(whole) if signed else largest(whole)
    columns = values.shape[1]
    return Panel(
        symbol=each.symbol,
        values=np.ascontiguousarray(values),
        groups=_groups(each, column_axis, columns),
        signed=signed,
        bound=1.0 if each.tap in UNIT_SCALE else None,
        bound_of_all=bound_of_all,
        causal_from=causal_from,
        scale_of=f"of {each.symbol}" if signed else "",
    )


def _groups(each: Shown, column_axis: str, columns: int) -> tuple[Group, ...]:
    if each.parts and sum(size for _, size in each.parts) == columns:
        return tuple(
            Group(name=f"{each.symbol}, {name}", word=name, size=size, stream=each.stream)
            for name, size in each.parts
        )
    name = word(column_axis)
    return (Group(name=f"{each.symbol}, {name}", word=name, size=columns, stream=each.stream),)
