"""Sentences of a node to HTML: Markdown, numbers, links and mathematics."""

import re
from collections.abc import Callable
from dataclasses import dataclass, field

from markdown_it import MarkdownIt
from markupsafe import Markup, escape

from annotations.node import Symbol
from annotations.outline import Entry
from annotations.prose import Link, Placeholder, fill
from app.models import config_of, name_of
from app.reader.context import Reading
from app.reader.mathml import mathml
from app.reader.numbers import Formula, constant, formula, span
from model.cost import FACTS, Value, fact

_MARKDOWN = MarkdownIt("commonmark", {"html": False}).enable("table")
_HOLD = re.compile("\ue000(\\d+)\ue001")
_MATHS = re.compile(r"(`[^`]*`)|\$([^$]+)\$")


class MissingNumberError(LookupError):
    """A placeholder that no model on the page can fill."""


@dataclass(frozen=True, slots=True)
class Number:
    """A number quoted in a sentence, and how it comes about."""

    name: str
    model: str
    means: str
    value: Value


@dataclass
class Words:
    """Renders the sentences of one page, and keeps the numbers they quoted."""

    reading: Reading
    entry: Entry
    symbols: tuple[Symbol, ...]
    model: str = ""
    """Whose numbers: the model on screen, or the model a note speaks of."""
    quoted: dict[tuple[str, str], Number] = field(default_factory=dict)

    def inline(self, text: str) -> Markup:
        return self._rendered(text, lambda source: _MARKDOWN.renderInline(source))

    def blocks(self, text: str) -> Markup:
        return self._rendered(text, lambda source: _MARKDOWN.render(source))

    def plain(self, text: str) -> str:
        """Without markup: for titles, the outline and the search."""
        filled = fill(
            text,
            placeholder=lambda p: self._number(p)[0],
            link=lambda link: link.label or self._title(link),
        )
        return re.sub(r"[`$*]", "", filled)

    def about(self, model: str) -> "Words":
        """The same page speaking of another model."""
        return Words(self.reading, self.entry, self.symbols, model, self.quoted)

    def _rendered(self, text: str, render: Callable[[str], str]) -> Markup:
        held: list[Markup] = []

        def hold(html: Markup) -> str:
            held.append(html)
            return f"\ue000{len(held) - 1}\ue001"

        source = fill(
            text,
            placeholder=lambda p: hold(self._number_html(p)),
            link=lambda link: hold(self._link_html(link)),
        )
        source = _MATHS.sub(lambda m: m[1] or hold(Markup(mathml(m[2], self.symbols))), source)
        html = render(source)
        return Markup(_HOLD.sub(lambda m: str(held[int(m[1])]), html))

    def _number_html(self, asked: Placeholder) -> Markup:
        text, note, made, value = self._known(asked)
        inside = span(made) if made and not made.constant and "," in asked.format else escape(text)
        if value is None:
            return Markup("{}{}").format(inside, note)
        how = f"{value.formula} = {value.substituted}" if value.formula != text else value.formula
        return Markup('<span class="ks-fact ks-num" title="{}">{}</span>{}').format(
            how, inside, note
        )

    def _number(self, asked: Placeholder) -> tuple[str, str]:
        text, note, _, _ = self._known(asked)
        return f"{text}{note}", note

    def _known(self, asked: Placeholder) -> tuple[str, str, Formula | None, Value | None]:
        """A number as text, whose it is where that is not said, its formula and its derivation."""
        own = asked.model or self.model or self.reading.model
        # the common text of a node speaks of K3 where the model on screen has no such part
        for model in dict.fromkeys((own, "k3")):
            try:
                value = fact(asked.name, config_of(model))
            except LookupError:
                continue
            self.quoted[asked.name, model] = Number(
                asked.name, model, FACTS[asked.name].means, value
            )
            note = "" if model == own else f" (in {name_of(model)})"
            return (
                format_number(value.value, asked.format),
                note,
                _formula(asked.name, model),
                value,
            )
        raise MissingNumberError(
            f"{self.reading.model} and k3 know no {asked.name!r}, which "
            f"{self.entry.node}.md quotes as a number."
        )

    def _link_html(self, link: Link) -> Markup:
        target = f"{link.node} @ {link.instance}" if link.instance else link.node
        entry = self.reading.entry_for(target, self.entry)
        label = self.inline(link.label) if link.label else escape(self._title(link))
        if entry is None:
            return Markup("{}").format(label)
        return node_link(self.reading.model, entry, label)

    def _title(self, link: Link) -> str:
        target = f"{link.node} @ {link.instance}" if link.instance else link.node
        entry = self.reading.entry_for(target, self.entry)
        if entry is None:
            node = self.reading.nodes.get(link.node)
            return node.title if node else link.node
        return title(self.reading, entry)


def title(reading: Reading, entry: Entry) -> str:
    """The title of an entry, its numbers filled in."""
    node = reading.node(entry)
    return Words(reading, entry, node.symbols).plain(node.title)


def node_link(model: str, entry: Entry, label: Markup | str) -> Markup:
    at = f"&at={entry.instance}" if entry.instance else ""
    return Markup(
        '<a href="?model={}&amp;node={}{}" data-model="{}" data-node="{}" data-at="{}">{}</a>'
    ).format(model, entry.node, at, model, entry.node, entry.instance, label)


def format_number(value: object, spec: str) -> str:
    if isinstance(value, bool | str) or value is None:
        return str(value)
    text = format(value, spec) if spec else str(value)
    return text.replace("-", "−")


def _formula(name: str, model: str) -> Formula | None:
    """The polynomial behind a fact; None for what is no count of context and batch."""
    config = config_of(model)

    def count(batch: int, positions: int, phase) -> int | float:
        return fact(name, config, batch=batch, positions=positions, phase=phase).value

    first = count(1, 4_096, "decode")
    if not isinstance(first, int):
        return None
    if all(count(b, p, ph) == first for b, p, ph in ((2, 9, "decode"), (1, 5, "prefill"))):
        return constant(first)
    return formula(count)
