"""The comparison page of two models, and the message that brings it to the browser."""

import gzip
import hashlib
import json
import threading
from dataclasses import dataclass
from functools import cached_property, lru_cache

from markupsafe import Markup

from annotations.changes import PAIRS, Pair
from app.models import long_name_of, name_of
from app.reader.compare import STANDINGS, Comparison, Part, Standing
from app.reader.compare_node import Side, SideBySide
from app.reader.compare_totals import Total, totals
from app.reader.context import Reading
from app.reader.kept import made_once
from app.reader.numbers import show_int
from app.reader.payload import current_nodes, fingerprint
from app.reader.render import render
from app.reader.words import Words

MADE_AFTER = 8.0
"""Seconds from a first page until the comparisons are made."""
MARKS: dict[Standing, str] = {"changed": "≠", "new": "+", "gone": "−", "same": "="}


@dataclass(frozen=True)
class Line:
    """One part in the list: how it stands, what changed, why and at what cost."""

    comparison: Comparison
    part: Part

    @property
    def node(self) -> str:
        return self.part.node

    @property
    def standing(self) -> Standing:
        return self.part.standing

    @property
    def mark(self) -> str:
        return MARKS[self.part.standing]

    @property
    def side(self) -> Side:
        """The model that the line is told of."""
        side = self.sides.newer or self.sides.older
        assert side is not None
        return side

    @property
    def title(self) -> str:
        return self.side.title

    @property
    def once(self) -> str:
        """The older model's title, where it is another."""
        side = self.sides.older
        return side.title if side and self.sides.newer and side.title != self.title else ""

    @cached_property
    def sides(self) -> SideBySide:
        return SideBySide(self.comparison, self.part)

    @cached_property
    def words(self) -> Words:
        # reasons name numbers of the newer model, also where a part is gone
        model = self.comparison.newer.model
        return Words(self.side.reading, self.part.entry, self.side.whole.symbols, model)

    @property
    def what(self) -> Markup | str:
        if self.standing == "same":
            return ""
        change = self.comparison.changes.get(self.node)
        if change and change.what:
            return self.words.inline(change.what)
        return self.side.lede

    @property
    def why(self) -> Markup | str:
        change = self.comparison.changes.get(self.node)
        return self.words.inline(change.why) if change else ""

    @property
    def cost(self) -> Markup | str:
        change = self.comparison.changes.get(self.node)
        return self.words.inline(change.cost) if change else ""

    @property
    def group(self) -> "Line | None":
        """What the part came or went with, where no reason of its own is told."""
        if self.node in self.comparison.changes:
            return None
        part = self.comparison.belongs_to(self.part)
        return Line(self.comparison, part) if part else None

    @property
    def counts(self) -> list[tuple[str, str, str]]:
        """Name, parameters and layers of either model; empty where it has no such part."""
        return [
            (name, show_int(side.parameters) if side.parameters else "–", side.occurs)
            if side
            else (name, "", "")
            for name, side in zip(self.sides.names, self.sides.sides, strict=True)
        ]


class ComparePage:
    """Everything that the page shows, for the template."""

    def __init__(self, older: Reading, newer: Reading) -> None:
        self.comparison = Comparison(older, newer)
        self.older, self.newer = older, newer
        self.totals: list[Total] = totals(older, newer)
        self.families: dict[str, list[Line]] = {
            family: [Line(self.comparison, part) for part in parts]
            for family, parts in self.comparison.families.items()
        }

    @property
    def pair(self) -> Pair:
        return self.older.model, self.newer.model

    @property
    def pairs(self) -> list[tuple[Pair, str]]:
        return [(pair, f"{name_of(pair[0])} → {name_of(pair[1])}") for pair in PAIRS]

    @property
    def title(self) -> str:
        return f"From {self.older.name} to {self.newer.name}"

    @property
    def counted(self) -> list[tuple[str, str, int]]:
        """How many parts stand how: name, what the choice is called, and the count."""
        whole = ("all", "all", len(self.comparison.parts))
        return [whole, *((s, s, self.comparison.count(s)) for s in STANDINGS)]

    @property
    def shorter(self) -> Reading | None:
        """The model with the shorter context, where they differ."""
        first, second = sorted((self.older, self.newer), key=_longest)
        return None if _longest(first) == _longest(second) else first

    @property
    def shorter_context(self) -> int:
        return _longest(self.shorter) if self.shorter else 0

    @property
    def foot(self) -> str:
        names = f"{long_name_of(self.older.model)} and {long_name_of(self.newer.model)}"
        return f"Sizes are those of {names} as released. Weights of neither are loaded here."

    def html(self) -> str:
        return str(render("compare.html.j2", self))

    def message(self) -> dict:
        """Plain JSON types: the page, and what opens below each of its lines."""
        lines = [line for family in self.families.values() for line in family]
        return {
            "from": self.older.model,
            "to": self.newer.model,
            "title": self.title,
            "max": max(_longest(self.older), _longest(self.newer)),
            "html": self.html(),
            "nodes": {line.node: line.sides.html() for line in lines},
            "foot": self.foot,
        }


def _longest(reading: Reading) -> int:
    return reading.config.max_position_embeddings


def packed(older: str, newer: str) -> bytes:
    """The page as the reader's mount "above" takes it: a line with its hash, then gzip."""
    return _packed(older, newer, fingerprint())


@lru_cache(maxsize=1)
def make_soon(made_from: str) -> None:
    """A reader who compares should not wait while pages are rendered; other pages come first."""

    def make() -> None:
        for pair in PAIRS:
            _packed(*pair, made_from)

    later = threading.Timer(MADE_AFTER, make)
    later.daemon = True
    later.start()


@lru_cache(maxsize=8)
def _packed(older: str, newer: str, made_from: str) -> bytes:
    name = f"{hashlib.sha256(made_from.encode()).hexdigest()[:24]}.gz"

    def make() -> bytes:
        nodes = current_nodes()
        page = ComparePage(Reading(older, nodes), Reading(newer, nodes))
        text = json.dumps(page.message(), ensure_ascii=False, separators=(",", ":"))
        # mtime=0, so that equal pages are equal bytes
        return gzip.compress(text.encode(), 6, mtime=0)

    body = made_once(f"compare-{older}-{newer}", name, make)
    return f"above {hashlib.sha256(body).hexdigest()[:12]}\n".encode() + body
