"""One kernel as one model has it, gathered for the templates."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import PurePath

from markupsafe import Markup

from annotations.kernel import Kernel, Term
from annotations.node import MODELS, Node, Symbol, for_model
from annotations.outline import Entry, flat
from app.models import long_name_of, name_of
from app.reader.context import Reading
from app.reader.kernel_report import Compiled, compiled
from app.reader.kernel_source import Place, Stretch, places, stretches
from app.reader.kernel_tiles import Drawn, drawn
from app.reader.kernel_timed import Timed, timed
from app.reader.kernel_work import Load, load
from app.reader.mathml import mathml
from app.reader.render import render
from app.reader.words import Words, node_link
from model.cost import Phase

PHASES: tuple[Phase, ...] = ("decode", "prefill")
PHASE_WORDS = {
    "prefill": "prefill: many positions of a sequence in one call",
    "decode": "decode: one new position of every sequence",
    "": "prefill and decode",
}
FOLDS = {
    "kernel": "Kernel",
    "part": "What it is made of",
    "launcher": "Launcher",
}


@dataclass(frozen=True, kw_only=True)
class Served:
    """A node that the kernel computes, as this model has it."""

    link: Markup
    equation: Markup | str


@dataclass(frozen=True, kw_only=True)
class TermRow:
    symbol: Markup
    means: str
    names: tuple[str, ...]
    places: tuple[tuple[str, Place], ...]
    """Each line as it is called, and where it is."""


@dataclass(frozen=True, kw_only=True)
class Fold:
    """Functions that are shown together: those of one kind in one file."""

    title: str
    path: str
    stretches: tuple[Stretch, ...]
    is_open: bool


class KernelPage:
    """Everything that a kernel's page shows before a model has run."""

    def __init__(self, reading: Reading, kernel: Kernel) -> None:
        self.reading, self.kernel = reading, kernel

    @cached_property
    def entries(self) -> list[Entry]:
        """The first place of each served node that this model has."""
        found: dict[str, Entry] = {}
        for entry in self.reading.entries:
            if entry.node in self.kernel.nodes:
                found.setdefault(entry.node, entry)
        return sorted(found.values(), key=lambda entry: self.kernel.nodes.index(entry.node))

    @property
    def is_here(self) -> bool:
        return bool(self.entries)

    @property
    def model_name(self) -> str:
        return self.reading.name

    @property
    def crumb(self) -> list[Markup]:
        return [
            Markup('<a href="?view=overview" data-view="overview">{}</a>').format(
                long_name_of(self.reading.model)
            ),
            Markup('<a href="?view=kernel" data-view="kernel">Kernels</a>'),
        ]

    @property
    def elsewhere(self) -> list[Markup]:
        """Links to released models that have what this one lacks."""
        have = [
            model
            for model in MODELS
            if any(entry.node in self.kernel.nodes for entry in flat(model))
        ]
        return [
            Markup(
                '<a href="?model={}&amp;view=kernel&amp;kernel={}" data-switch="{}">{}</a>'
            ).format(model, self.kernel.id, model, name_of(model))
            for model in have
        ]

    def _node(self, entry: Entry) -> Node:
        return for_model(self.reading.nodes[entry.node], self.reading.family)

    @cached_property
    def symbols(self) -> Mapping[str, Symbol]:
        """Of all served nodes by TeX; where two have the same letter, the earlier node's."""
        found: dict[str, Symbol] = {}
        for entry in self.entries:
            for symbol in self._node(entry).symbols:
                found.setdefault(symbol.tex, symbol)
        return found

    @property
    def served(self) -> list[Served]:
        return [self._served(entry) for entry in self.entries]

    def _served(self, entry: Entry) -> Served:
        node = self._node(entry)
        equation = mathml(node.equation, node.symbols, display=True) if node.equation else ""
        return Served(link=self._link(entry), equation=Markup(equation))

    def _link(self, entry: Entry) -> Markup:
        node = self._node(entry)
        words = Words(self.reading, entry, node.symbols).plain(node.title)
        return node_link(self.reading.model, entry, words)

    @property
    def links(self) -> list[Markup]:
        """The served nodes, and of those that stand in several places how many these are."""
        return [self._counted(entry) for entry in self.entries]

    def _counted(self, entry: Entry) -> Markup:
        places = sum(node == entry.node for node, _ in self.reading.by_place)
        link = self._link(entry)
        return Markup("{} in {} places").format(link, places) if places > 1 else link

    @property
    def lede(self) -> str:
        return self.kernel.lede

    @property
    def prose(self) -> Markup:
        return self._words.blocks(self.kernel.prose)

    @property
    def _words(self) -> Words:
        return Words(self.reading, self.entries[0], tuple(self.symbols.values()))

    @property
    def phase_words(self) -> str:
        return PHASE_WORDS[self.kernel.phase]

    @property
    def files(self) -> list[str]:
        return [f"kernels/{name}.py" for name in self.kernel.files]

    @property
    def terms(self) -> list[TermRow]:
        return [self._term(term) for term in self.kernel.terms if term.tex in self.symbols]

    def _term(self, term: Term) -> TermRow:
        return TermRow(
            symbol=self.symbol(term.tex),
            means=self.symbols[term.tex].means,
            names=tuple(dict.fromkeys(name.rpartition(".")[2] for name in term.names)),
            places=tuple(self._where(place) for place in places(self.kernel, term)),
        )

    def _where(self, place: Place) -> tuple[str, Place]:
        """A line by its number, and of several files by the file's name too."""
        own = len(self.kernel.files) == 1 and place.path == self.files[0]
        name = "" if own else f"{PurePath(place.path).stem} "
        return f"{name}{place.line}", place

    def symbol(self, tex: str) -> Markup:
        """A letter, in its stream's colour where this model has it."""
        return Markup(mathml(tex, self.symbols.values())) if tex else Markup("")

    def stream(self, tex: str) -> str:
        symbol = self.symbols.get(tex)
        return symbol.stream if symbol and symbol.stream else "soft"

    @property
    def folds(self) -> list[Fold]:
        grouped: dict[tuple[str, str], list[Stretch]] = {}
        for stretch in stretches(self.kernel, self.symbols):
            kind = stretch.function.kind if stretch.function.is_own else "borrowed"
            grouped.setdefault((kind, stretch.function.path), []).append(stretch)
        return [
            Fold(
                title=FOLDS.get(kind, "From another file"),
                path=path,
                stretches=tuple(shown),
                is_open=kind == "kernel",
            )
            for (kind, path), shown in grouped.items()
        ]

    @property
    def tiles(self) -> list[Drawn]:
        return [drawn(self.kernel, tile) for tile in self.kernel.tiles]

    @property
    def reports(self) -> tuple[Compiled, ...]:
        return compiled(self.kernel.id)

    @property
    def times(self) -> tuple[Timed, ...]:
        return timed(self.kernel.id)

    @property
    def load(self) -> dict[str, dict[str, list[float]]]:
        """For the browser: work by phase. A kernel of one phase has that phase's work in both."""
        return {phase: self._load(self.kernel.phase or phase).as_json() for phase in PHASES}

    def _load(self, phase: Phase) -> Load:
        return load(self.kernel.id, self.reading.config, phase)

    def sizes(self, words: str) -> str:
        """The words of a case, its numbers as pages write them."""
        return re.sub(r"\d{4,}", lambda number: f"{int(number[0]):,}", words)

    def html(self) -> str:
        template = "kernel.html.j2" if self.is_here else "kernel_absent.html.j2"
        return str(render(template, self))
