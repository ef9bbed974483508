"""Two models, part by part: what is the same, what changed, what is new and what is gone."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

from annotations.changes import Change, Changes, changes, family_of
from annotations.node import Node, for_model
from annotations.outline import Entry, breadcrumb
from app.reader.context import Reading
from model.config import KimiConfig

Standing = Literal["same", "changed", "new", "gone"]
STANDINGS: tuple[Standing, ...] = ("changed", "new", "gone", "same")


@dataclass(frozen=True, kw_only=True)
class Part:
    """One node that either model has, at the first place where each has it."""

    node: str
    standing: Standing
    older: Entry | None
    newer: Entry | None

    @property
    def entry(self) -> Entry:
        """The newer model's place, or the older's where it is gone."""
        entry = self.newer or self.older
        assert entry is not None
        return entry


@dataclass(frozen=True)
class Comparison:
    """An older and a newer released model, read from the same nodes."""

    older: Reading
    newer: Reading

    @cached_property
    def told(self) -> Changes:
        return changes()

    @cached_property
    def changes(self) -> Mapping[str, Change]:
        return self.told.between[self.older.model, self.newer.model]

    @cached_property
    def parts(self) -> tuple[Part, ...]:
        """Every node of either model once, in reading order."""
        before, after = _first_places(self.older), _first_places(self.newer)
        return tuple(
            Part(
                node=node,
                standing=self._standing(node, before, after),
                older=before.get(node),
                newer=after.get(node),
            )
            for node in _merged(list(before), list(after))
        )

    @cached_property
    def by_node(self) -> dict[str, Part]:
        return {part.node: part for part in self.parts}

    @cached_property
    def families(self) -> dict[str, list[Part]]:
        """The parts by the heading that they stand under."""
        found: dict[str, list[Part]] = {title: [] for title in self.told.families}
        for part in self.parts:
            found[family_of(part.node, self.told.families)].append(part)
        return found

    def reading(self, part: Part) -> Reading:
        """The model that a part is told of: the newer, or the older where it is gone."""
        return self.newer if part.newer else self.older

    def count(self, standing: Standing) -> int:
        return sum(part.standing == standing for part in self.parts)

    def belongs_to(self, part: Part) -> Part | None:
        """What a new or gone part came or went with: the nearest group of the same standing that
        says why.
        """
        reading = self.reading(part)
        above = breadcrumb(reading.family, part.node, part.entry.instance)[:-1]
        for entry in reversed(above):
            group = self.by_node[entry.node]
            if group.standing == part.standing and entry.node in self.changes:
                return group
        return None

    def _standing(
        self, node: str, before: Mapping[str, Entry], after: Mapping[str, Entry]
    ) -> Standing:
        if node not in before:
            return "new"
        if node not in after:
            return "gone"
        stated = node in self.changes and bool(self.changes[node].what)
        return "changed" if stated or self.differs(node) else "same"

    def differs(self, node: str) -> bool:
        """Whether the equation, what goes in or out, or a setting that both name is another."""
        older, newer = (
            for_model(reading.nodes[node], reading.family) for reading in (self.older, self.newer)
        )
        if (older.equation, older.inputs, older.outputs) != (
            newer.equation,
            newer.inputs,
            newer.outputs,
        ):
            return True
        return any(
            _setting(self.older.config, name) != _setting(self.newer.config, name)
            for name in _settings(older) & _settings(newer)
        )


def _first_places(reading: Reading) -> dict[str, Entry]:
    found: dict[str, Entry] = {}
    for entry in reading.entries:
        found.setdefault(entry.node, entry)
    return found


def _merged(before: list[str], after: list[str]) -> list[str]:
    """The newer model's order; what is gone stands behind what it stood behind in the older."""
    order = list(after)
    for at, node in enumerate(before):
        if node not in after:
            order.insert(order.index(before[at - 1]) + 1 if at else 0, node)
    return order


def _settings(node: Node) -> set[str]:
    return {symbol.config for symbol in node.symbols if symbol.config}


def _setting(config: KimiConfig, path: str) -> object:
    value: object = config
    for name in path.split("."):
        value = getattr(value, name, None)
    return value
