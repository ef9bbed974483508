"""Rows of a proof as plain data: what was asked to be replayed, and what came."""

import json
import math
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class CheckRow:
    """One equation, at its worst place, on one run."""

    name: str
    title: str
    owner: str
    taps: tuple[str, ...]
    """`Class.attribute` that the equation gives, or all that it relates."""
    layer: int | None
    at: str
    step: int
    error: float
    tolerance: float
    passed: bool
    detail: str
    places: int
    seconds: float | None = None
    """That the replay took; None where that was not stored with it."""


@dataclass(frozen=True)
class Asked:
    """The equations of one page: those that give or relate its taps."""

    taps: tuple[str, ...]
    """None of them: every equation."""
    layer: int | None = None
    at: str | None = None
    also: tuple[str, ...] = ()
    """Names of further equations, of this layer or of the whole model."""

    def concerns(self, identity: Any) -> bool:
        if identity.name in self.also:
            return True
        return not self.taps or not set(self.taps).isdisjoint(taps_of(identity))


def taps_of(identity: Any) -> tuple[str, ...]:
    """The tap that an equation gives; of one that gives none, the taps that it relates."""
    if identity.tap is not None:
        return (identity.tap,)
    own = [name for name in identity.taps if not name.startswith(("^.", "/")) and "." not in name]
    return tuple(f"{identity.owner}.{name}" for name in own)


def check_row(result: Any, identity: Any) -> CheckRow:
    parts = result.place.split(".", 2)
    inside = result.place if result.worst_layer is None else ".".join(parts[2:])
    return CheckRow(
        name=result.name,
        title=result.title,
        owner=identity.owner,
        taps=taps_of(identity),
        layer=result.worst_layer,
        at=inside,
        step=result.step,
        error=float(result.error),
        tolerance=float(result.tolerance),
        passed=bool(result.passed),
        detail=result.detail,
        places=result.places,
        seconds=float(result.seconds),
    )


def pick(rows: Iterable[CheckRow], asked: Asked) -> tuple[CheckRow, ...]:
    """Of stored rows, one a place, those asked for: the worst of each equation, all its places."""
    fitting: dict[str, list[CheckRow]] = {}
    for row in rows:
        if _fits(row, asked):
            fitting.setdefault(row.name, []).append(row)
    return tuple(_together(same) for same in fitting.values())


def _together(same: Sequence[CheckRow]) -> CheckRow:
    worst = same[0]
    for row in same[1:]:
        # not a number is worse than any
        if not (math.isnan(worst.error) or row.error <= worst.error):
            worst = row
    times = [row.seconds for row in same if row.seconds is not None]
    return replace(
        worst,
        places=sum(row.places for row in same),
        seconds=sum(times) if len(times) == len(same) else None,
    )


def _fits(row: CheckRow, asked: Asked) -> bool:
    if row.name in asked.also:
        return row.layer in (asked.layer, None)
    is_here = asked.layer is None or row.layer == asked.layer
    is_at = asked.at is None or row.at == asked.at
    return is_here and is_at and (not asked.taps or not set(asked.taps).isdisjoint(row.taps))


def save_checks(path: Path, run_id: str, rows: Sequence[CheckRow]) -> None:
    text = json.dumps({"run": run_id, "rows": [asdict(row) for row in rows]}, separators=(",", ":"))
    path.write_text(text + "\n", encoding="utf-8")


@lru_cache(maxsize=2)
def open_checks(path: Path, run_id: str) -> tuple[CheckRow, ...] | None:
    """The stored rows, if they are of this run."""
    if not path.is_file():
        return None
    stored = json.loads(path.read_text(encoding="utf-8"))
    if stored["run"] != run_id:
        return None
    return tuple(CheckRow(**(row | {"taps": tuple(row["taps"])})) for row in stored["rows"])
