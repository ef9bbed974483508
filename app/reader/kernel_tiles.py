"""Pictures of tiles: which block of which tensor one program holds, and where it walks."""

import json
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

from annotations.kernel import Kernel, Operand, Tile
from app.reader.kernel_source import FOLDER
from app.reader.numbers import show_int

LAUNCHES = FOLDER / "results" / "launches.json"
MOST_CELLS = 7
"""Blocks along an axis that are drawn one by one; of more, the first and the last."""
SHORTEST, PER_DOUBLING, LONGEST = 18, 9, 150
"""Pixels of an axis: it grows with the logarithm of its size."""
FLAT = 18
"""Height of a tensor with one axis drawn."""
_BLOCK = re.compile(r"(\w+)(?: // (\d+))?")


@dataclass(frozen=True, kw_only=True, slots=True)
class Axis:
    """One axis of a tensor, as a program sees it."""

    word: str
    size: int
    block: int
    """How much a program holds at a time; more than `size` where a tile is rounded up."""
    is_walked: bool

    @property
    def blocks(self) -> int:
        return math.ceil(self.size / self.block)

    @property
    def held(self) -> str:
        """What a program holds of it, in words."""
        if self.block < self.size:
            what = f"{show_int(self.block)} of {show_int(self.size)} {plural(self.word)}"
            return f"{what} at a time" if self.is_walked else what
        if self.size == 1:
            return f"the one {self.word}"
        return f"all {show_int(self.size)} {plural(self.word)}"


@dataclass(frozen=True, kw_only=True, slots=True)
class Cell:
    x: float
    y: float
    width: float
    height: float
    kind: str
    """`held`, `walked` (held earlier or later), or empty."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Picture:
    """One tensor: cells of its blocks, and an arrow along what a program walks."""

    operand: Operand
    axes: tuple[Axis, ...]
    cells: tuple[Cell, ...]
    width: float
    height: float
    arrow: str
    """`right`, `down`, or empty."""

    @property
    def shape(self) -> str:
        return " × ".join(show_int(axis.size) for axis in self.axes)

    @property
    def held(self) -> str:
        return ", ".join(axis.held for axis in self.axes)


@dataclass(frozen=True, kw_only=True, slots=True)
class Drawn:
    """One tile with the numbers of its launch."""

    tile: Tile
    programs: int
    warps: int
    pictures: tuple[Picture, ...]


@cache
def launches() -> Mapping[str, list[dict[str, Any]]]:
    """By case: what its launchers would start, as committed."""
    return json.loads(LAUNCHES.read_text(encoding="utf-8"))


def drawn(kernel: Kernel, tile: Tile) -> Drawn:
    """A tile at the sizes of its case; LookupError where that case starts no such function."""
    launch = launch_of(kernel, tile)
    pictures = tuple(_picture(operand, tile, launch["arguments"]) for operand in tile.operands)
    return Drawn(tile=tile, programs=launch["programs"], warps=launch["warps"], pictures=pictures)


def launch_of(kernel: Kernel, tile: Tile) -> dict[str, Any]:
    case = f"{kernel.id}, {tile.case}"
    for launch in launches().get(case, []):
        if launch["function"] == tile.function:
            return launch
    raise LookupError(f"{case!r} starts no {tile.function}; see {LAUNCHES.name}.")


def axes_of(operand: Operand, tile: Tile, arguments: Mapping[str, Any]) -> tuple[Axis, ...]:
    """Axes with sizes; LookupError where the launch has other ones."""
    shape = arguments.get(operand.of)
    if not isinstance(shape, list) or len(shape) != len(operand.axes):
        raise LookupError(f"{tile.function}: {operand.of} is {shape}, not {operand.axes}.")
    found = []
    for stated, size in zip(operand.axes, shape, strict=True):
        word, block = stated.split(" / ", 1)
        walked = word in tile.loops
        found.append(Axis(word=word, size=size, block=_block(block, arguments), is_walked=walked))
    return tuple(found)


def _block(stated: str, arguments: Mapping[str, Any]) -> int:
    """`1`, `BLOCK`, `BLOCK // 2`, or a sum of such."""
    total = 0
    for part in stated.split(" + "):
        match = _BLOCK.fullmatch(part)
        if match is None:
            raise LookupError(f"{part!r} is no block; write a number, NAME, or NAME // 2.")
        name, divisor = match[1], int(match[2] or 1)
        value = int(name) if name.isdecimal() else arguments.get(name)
        if not isinstance(value, int):
            raise LookupError(f"The launch has no number {name!r}.")
        total += value // divisor
    return total


def _picture(operand: Operand, tile: Tile, arguments: Mapping[str, Any]) -> Picture:
    axes = axes_of(operand, tile, arguments)
    down, across = _two_drawn(axes)
    columns, width = _spans(across)
    rows, height = _spans(down) if down else ([(0.0, float(FLAT), "held")], float(FLAT))
    cells = [
        Cell(x=x, y=y, width=w, height=h, kind=_kind(kind, other))
        for y, h, kind in rows
        for x, w, other in columns
    ]
    # last, so that no neighbour is drawn over its edge
    cells.sort(key=lambda cell: cell.kind == "held")
    arrow = "down" if down and down.is_walked else "right" if across.is_walked else ""
    return Picture(
        operand=operand, axes=axes, cells=tuple(cells), width=width, height=height, arrow=arrow
    )


def _two_drawn(axes: tuple[Axis, ...]) -> tuple[Axis | None, Axis]:
    """The last axis, and before it one that is walked, else one that is cut into larger blocks."""
    *others, last = axes
    rest = [axis for axis in reversed(others) if axis.size > 1]
    walked = [axis for axis in rest if axis.is_walked]
    cut = [axis for axis in rest if axis.block > 1]
    return next(iter([*walked, *cut, *rest]), None), last


def _spans(axis: Axis) -> tuple[list[tuple[float, float, str]], float]:
    """Start, length and kind of each block that is drawn, and the length of the axis."""
    length = min(SHORTEST + PER_DOUBLING * math.log2(axis.size), float(LONGEST))
    if axis.blocks == 1:
        return [(0.0, length, "held")], length
    few = axis.blocks <= MOST_CELLS
    shown = axis.blocks if few else MOST_CELLS - 1
    gap = 0.0 if few else length / MOST_CELLS
    each = (length - gap) / shown
    held = min(1, shown - 1)
    spans = []
    for i in range(shown):
        start = i * each + (gap if not few and i == shown - 1 else 0.0)
        kind = "held" if i == held else "walked" if axis.is_walked else ""
        spans.append((start, each, kind))
    return spans, length


def _kind(a: str, b: str) -> str:
    if a == b == "held":
        return "held"
    return "walked" if {a, b} <= {"held", "walked"} else ""


def plural(word: str) -> str:
    """`query` as `queries`, `key channel` as `key channels`."""
    if word.endswith("y") and word[-2] not in "aeiou":
        return f"{word[:-1]}ies"
    return f"{word}s"
