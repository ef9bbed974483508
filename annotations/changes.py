"""What changed at a node from one model to a later one: sentences, by pair of models and node."""

import tomllib
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from functools import cache
from itertools import combinations
from pathlib import Path
from typing import Any

from annotations.node import NodeError

FILE = Path(__file__).parent / "changes.toml"
BY_AGE = ("k2", "kimi-linear", "k3")
PAIRS = tuple(combinations(BY_AGE, 2))
"""Every pair that can be compared, the older model first."""

Pair = tuple[str, str]


@dataclass(frozen=True, kw_only=True, slots=True)
class Change:
    """What a later model does differently, each a sentence or two; `what` is empty at a part that
    only one of the two has, for which its own page says what it is.
    """

    what: str = ""
    why: str
    cost: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Changes:
    families: Mapping[str, tuple[str, ...]]
    """By heading, the first parts of node ids that stand under it."""
    between: Mapping[Pair, Mapping[str, Change]]
    """By pair and node id."""


@cache
def changes(path: Path = FILE) -> Changes:
    """The file, read once. All its faults are raised together."""
    return parse(path.read_text(encoding="utf-8"), path.name)


def parse(text: str, name: str) -> Changes:
    table = tomllib.loads(text)
    between: dict[Pair, dict[str, Change]] = {pair: {} for pair in PAIRS}
    faults: list[str] = []
    for row in table.get("change", []):
        where = f"{name}: {row.get('node', 'a change without a node')}"
        try:
            change = Change(**{k: v for k, v in row.items() if k not in ("node", "from", "to")})
        except TypeError as error:
            faults.append(f"{where}: {error}")
            continue
        for pair in _pairs(row, where, faults):
            if row["node"] in between[pair]:
                faults.append(f"{where}: {pair[0]} to {pair[1]} is told twice")
            between[pair][row["node"]] = change
    if faults:
        raise NodeError(faults)
    families = {title: tuple(ids) for title, ids in table.get("families", {}).items()}
    return Changes(families=families, between=between)


def _pairs(row: Mapping[str, Any], where: str, faults: list[str]) -> list[Pair]:
    """The pairs that a change is told for; those that cannot be one are faults."""
    stated = [(older, newer) for older in row.get("from", []) for newer in row.get("to", [])]
    if not stated or "node" not in row:
        faults.append(f"{where}: a change names its node, and lists models in from and to")
        return []
    for older, newer in stated:
        if (older, newer) not in PAIRS:
            faults.append(
                f"{where}: {older} to {newer} is no pair; models by age are {', '.join(BY_AGE)}"
            )
    return [pair for pair in stated if pair in PAIRS]


def texts(change: Change) -> tuple[str, ...]:
    return tuple(text for text in (change.what, change.why, change.cost) if text)


def family_of(node: str, families: Mapping[str, Collection[str]]) -> str:
    """The heading that a node stands under; LookupError where there is none."""
    first = node.partition("/")[0]
    for title, ids in families.items():
        if first in ids:
            return title
    raise LookupError(f"changes.toml names no family for {node}")
