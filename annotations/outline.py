"""Which nodes a model has, in what order, and where in a layer each of them stands."""

import re
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from annotations.node import NodeError, target

OUTLINES = Path(__file__).parent / "outline"
MOVED = Path(__file__).parent / "moved.toml"
PLACES = ("all", "kda", "mla", "dense", "moe", "seals", "mixed")
"""The layers that an entry stands in: all of them, those with that mixer or feed-forward, those
that seal a block, those that mix before their mixer."""
_LINE = re.compile(r"( *)- ([a-z0-9_/]+)(?: @ ([\w.]+|/))?(?: in (\w+))?")


@dataclass(frozen=True, kw_only=True, slots=True)
class Entry:
    """One line of an outline, with the lines below it."""

    node: str
    instance: str
    """The module path inside a layer, or inside the model where `place` is empty."""
    place: str
    """One of `PLACES`, or empty outside the layers."""
    depth: int
    children: tuple["Entry", ...] = ()

    def path(self, layer: int) -> str:
        """The module path in the running model: `layers.3.self_attn`, `output_attn_res`."""
        parts = [f"layers.{layer}"] if self.place else []
        return ".".join([*parts, *([self.instance] if self.instance else [])])


@cache
def outline(model: str) -> tuple[Entry, ...]:
    """The tree of `model`, read once. Its file is named for the model."""
    path = OUTLINES / f"{model}.md"
    if not path.exists():
        known = sorted(path.stem for path in OUTLINES.glob("*.md"))
        raise LookupError(f"there is no outline of {model!r}; outlines are {', '.join(known)}")
    return parse(path.read_text(encoding="utf-8"), path.name)


def models() -> tuple[str, ...]:
    """Every model that has an outline."""
    return tuple(sorted(path.stem for path in OUTLINES.glob("*.md")))


def parse(text: str, name: str) -> tuple[Entry, ...]:
    """Two spaces a level. What a line leaves out, instance or place, is its parent's."""
    rows, faults = [], []
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip() or line.startswith("#"):
            continue
        match = _LINE.fullmatch(line.rstrip())
        if match is None or len(match[1]) % 2:
            faults.append(f"{name} line {number}: {line.strip()!r} is not '- node @ instance in x'")
        elif match[4] and match[4] not in PLACES:
            faults.append(f"{name} line {number}: {match[4]!r} is not one of {', '.join(PLACES)}")
        elif len(match[1]) // 2 > (rows[-1][0] + 1 if rows else 0):
            faults.append(f"{name} line {number}: {match[2]!r} is indented by more than one level")
        else:
            rows.append((len(match[1]) // 2, match[2], match[3], match[4]))
    entries, _ = _tree(rows, 0, 0, "", "")
    twice = _repeated(entries)
    faults += [f"{name}: {node} @ {instance} stands twice" for node, instance in twice]
    if faults:
        raise NodeError(faults)
    return entries


def flat(model: str) -> tuple[Entry, ...]:
    """Every entry in reading order."""
    return tuple(_walk(outline(model)))


def find(model: str, node: str, instance: str = "") -> Entry:
    """The entry of a node at an instance, or at its first one."""
    places = [entry for entry in flat(model) if entry.node == node]
    for entry in places:
        if not instance or entry.instance == instance:
            return entry
    if places:
        known = ", ".join(entry.instance or "the model itself" for entry in places)
        raise LookupError(f"{model} has {node} at {known}, not at {instance!r}")
    raise LookupError(f"{model} has no node {node!r}")


def nearest(model: str, node: str, instance: str) -> Entry:
    """The entry of a node at the same instance, else below or above it, else its first one.

    A step of the mix before the feed-forward that points at another step means the one beside it.
    """
    places = [entry for entry in flat(model) if entry.node == node]

    def distance(entry: Entry) -> int:
        if entry.instance == instance:
            return 0
        related = f"{entry.instance}.".startswith(f"{instance}.") or f"{instance}.".startswith(
            f"{entry.instance}."
        )
        return 1 if related and entry.instance and instance else 2

    return min(places, key=distance) if places else find(model, node)


def breadcrumb(model: str, node: str, instance: str = "") -> tuple[Entry, ...]:
    """The entry after all that it lies under, outermost first."""
    wanted = find(model, node, instance)
    return _above(outline(model), wanted) or (wanted,)


def neighbours(model: str, node: str, instance: str = "") -> tuple[Entry | None, Entry | None]:
    """The entries before and after in reading order."""
    row = flat(model)
    at = row.index(find(model, node, instance))
    return (row[at - 1] if at else None), (row[at + 1] if at + 1 < len(row) else None)


def _tree(
    rows: list[tuple[int, str, str | None, str | None]],
    at: int,
    depth: int,
    instance: str,
    place: str,
) -> tuple[tuple[Entry, ...], int]:
    entries = []
    while at < len(rows) and rows[at][0] == depth:
        _, node, own_instance, own_place = rows[at]
        here = "" if own_instance == "/" else own_instance or instance
        children, at = _tree(rows, at + 1, depth + 1, here, own_place or place)
        entries.append(
            Entry(
                node=node,
                instance=here,
                place=own_place or place,
                depth=depth,
                children=children,
            )
        )
    return tuple(entries), at


def _walk(entries: tuple[Entry, ...]) -> Iterator[Entry]:
    for entry in entries:
        yield entry
        yield from _walk(entry.children)


def _above(entries: tuple[Entry, ...], wanted: Entry) -> tuple[Entry, ...]:
    for entry in entries:
        if entry == wanted:
            return (entry,)
        if below := _above(entry.children, wanted):
            return (entry, *below)
    return ()


def _repeated(entries: tuple[Entry, ...]) -> list[tuple[str, str]]:
    seen: set[tuple[str, str, str]] = set()
    repeated = []
    for entry in _walk(entries):
        key = (entry.node, entry.instance, entry.place)
        if key in seen:
            repeated.append(key[:2])
        seen.add(key)
    return repeated


def moved() -> dict[str, tuple[str, str]]:
    """Old node ids, each with the node and the instance that took its place."""
    rows = tomllib.loads(MOVED.read_text(encoding="utf-8"))
    return {old: target(new) for old, new in rows.items()}
