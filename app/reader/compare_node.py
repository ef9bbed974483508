"""One node of two models side by side: equations, shapes, and what it costs in each."""

from dataclasses import dataclass
from functools import cached_property

from markupsafe import Markup

from annotations.node import Node, Symbol, for_model
from annotations.outline import Entry
from app.reader.compare import Comparison, Part
from app.reader.context import Reading
from app.reader.cost_view import kept_view, parameter_count
from app.reader.lead_on import nearest_here
from app.reader.mathml import mathml
from app.reader.numbers import show_int, span
from app.reader.pages import KEPT
from app.reader.render import render
from app.reader.shapes import Row, rows
from app.reader.words import Words, node_link, title
from app.reader.work_view import work
from model.cost import FACTS

NOTHING = "–"
ONE_PLACE = "one"


@dataclass(frozen=True, kw_only=True)
class Letter:
    """A symbol that only one of the two equations has."""

    math: Markup
    means: str


@dataclass(frozen=True, kw_only=True)
class Cost:
    label: str
    older: Markup | str
    newer: Markup | str


@dataclass(frozen=True)
class Side:
    """A node as one of the two models has it."""

    reading: Reading
    entry: Entry

    @property
    def name(self) -> str:
        return self.reading.name

    @cached_property
    def node(self) -> Node:
        return self.reading.node(self.entry)

    @cached_property
    def rows(self) -> tuple[Row, ...]:
        return rows(self.reading, self.entry, self.node)

    @cached_property
    def whole(self) -> Node:
        """The node wherever it stands, without the words of its place."""
        return for_model(self.reading.nodes[self.entry.node], self.reading.family)

    @property
    def title(self) -> str:
        return self._words.plain(self.whole.title)

    @property
    def link(self) -> Markup:
        return node_link(self.reading.model, self.entry, f"Open the page of {self.name}")

    @property
    def lede(self) -> Markup:
        return self._words.inline(self.whole.lede)

    @property
    def _words(self) -> Words:
        return Words(self.reading, self.entry, self.whole.symbols)

    @property
    def equation(self) -> Markup | str:
        """Empty for a group, which only holds other parts."""
        if not self.node.equation:
            return ""
        return Markup(mathml(self.node.equation, self.node.symbols, display=True))

    @property
    def occurs(self) -> str:
        layers = len(self.reading.layers_of(self.entry))
        return f"{layers} of {self.reading.config.num_hidden_layers}" if layers else "once"

    @property
    def places(self) -> Markup | str:
        """How many places of the model the node stands at, and what they are called there."""
        held = [e for e in self.reading.by_place.values() if e.node == self.entry.node]
        names = dict.fromkeys(title(self.reading, entry) for entry in held)
        if len(held) == 1:
            return ONE_PLACE
        listed = Markup("<small>{}</small>").format(", ".join(names)) if len(names) > 1 else ""
        return Markup("{}{}").format(len(held), listed)

    @cached_property
    def parameters(self) -> int:
        return parameter_count(self.reading, self.entry)

    def letters_beyond(self, other: "Side") -> list[Letter]:
        known = {symbol.tex for symbol in other.node.symbols}
        found: list[Symbol] = [s for s in self.node.symbols if s.tex not in known]
        return [Letter(math=Markup(mathml(s.tex, (s,))), means=s.means) for s in found]

    @cached_property
    def costs(self) -> dict[str, Markup | str]:
        """What the node takes, by what is counted; nothing where there is nothing to count."""
        count = show_int(self.parameters) if self.parameters else NOTHING
        found: dict[str, Markup | str] = {
            "Places": self.places,
            "Layers that have it": self.occurs,
            "Parameters": count,
        }
        done = work(
            self.reading, self.entry, self.node, self.rows, self.node.title, self.parameters
        )
        found["Operations"] = done.operations
        if self.node.cost in KEPT:
            kept = kept_view(self.reading).rows
            return found | {f"{row.name}, one layer": span(row.bytes, "bytes") for row in kept}
        return found | {"Values written": done.values, "Bytes written": done.bytes}


@dataclass(frozen=True)
class SideBySide:
    """Both sides of a part; where a model has none, what comes nearest there."""

    comparison: Comparison
    part: Part

    @cached_property
    def older(self) -> Side | None:
        return Side(self.comparison.older, self.part.older) if self.part.older else None

    @cached_property
    def newer(self) -> Side | None:
        return Side(self.comparison.newer, self.part.newer) if self.part.newer else None

    @property
    def names(self) -> tuple[str, str]:
        return self.comparison.older.name, self.comparison.newer.name

    @property
    def sides(self) -> tuple[Side | None, Side | None]:
        return self.older, self.newer

    @property
    def nearest(self) -> Markup:
        """A link to what comes nearest in the model that has no such part."""
        here, family = (
            (self.comparison.newer, self.comparison.older.family)
            if self.newer is None
            else (self.comparison.older, self.comparison.newer.family)
        )
        entry = nearest_here(here, family, self.part.entry)
        return node_link(here.model, entry, title(here, entry))

    @property
    def letters(self) -> tuple[list[Letter], list[Letter]]:
        """Letters that only one of the two equations has."""
        if self.older is None or self.newer is None:
            return [], []
        return self.older.letters_beyond(self.newer), self.newer.letters_beyond(self.older)

    @property
    def costs(self) -> list[Cost]:
        before = self.older.costs if self.older else {}
        after = self.newer.costs if self.newer else {}
        labels = dict.fromkeys((*before, *after))
        counted = [
            Cost(label=label, older=before.get(label, NOTHING), newer=after.get(label, NOTHING))
            for label in labels
        ]
        return [cost for cost in counted if not {cost.older, cost.newer} <= {NOTHING, ONE_PLACE}]

    @property
    def sizes(self) -> str:
        """Sizes of axes that are another number in each model: `heads 64 → 96`."""
        if self.older is None or self.newer is None:
            return ""
        before, after = _axes(self.older.rows), _axes(self.newer.rows)
        changed = [
            f"{name} {show_int(before[name])} → {show_int(after[name])}"
            for name in before
            if name in after and before[name] != after[name]
        ]
        return ", ".join(changed)

    def html(self) -> str:
        return str(render("compare_node.html.j2", self))


def _axes(table: tuple[Row, ...]) -> dict[str, int]:
    """Constant sizes by what they are called."""
    found: dict[str, int] = {}
    for row in table:
        for axis in row.axes.values():
            if axis.size.constant and axis.word != "source":
                name = FACTS[axis.word].means if axis.word in FACTS else axis.heading
                found.setdefault(name.rstrip("."), int(axis.size.at()))
    return found
