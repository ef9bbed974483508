"""One node at one place, gathered for the templates."""

from dataclasses import dataclass, replace

from markupsafe import Markup

from annotations.changes import PAIRS, Pair
from annotations.node import GRADES, Node, Source, notes
from annotations.outline import Entry, breadcrumb
from app.models import long_name_of, name_of
from app.reader.context import Reading
from app.reader.cost_view import KeptView, kept_view, parameter_count
from app.reader.excerpts import Evidence, Lines, Ours, evidence, our_lines
from app.reader.facts import Facts
from app.reader.kept_words import LabelledFact, sentences
from app.reader.lead_on import nearest_here
from app.reader.mathml import mathml
from app.reader.numbers import show_int
from app.reader.render import render
from app.reader.shapes import Row, columns, rows
from app.reader.words import Words, node_link, title
from app.reader.work_view import Work, work

WIDEST_BAR = 192
KEPT = ("kv_cache", "kda_state", "cache")
"""Values of a node's `cost` that ask for the table of what layers keep."""
OCCURS = {"mixed": "Reads in", "seals": "Seals in"}


@dataclass(frozen=True, kw_only=True)
class Note:
    """What another model does here."""

    model: str
    node: str
    title: str
    html: Markup


@dataclass(frozen=True, kw_only=True)
class QuotedNumber:
    name: str
    means: str
    model: str
    formula: str
    substituted: str


class Page:
    """Everything that a node page shows before a model has run."""

    def __init__(self, reading: Reading, entry: Entry, lines: Lines) -> None:
        self.reading, self.entry = reading, entry
        self.node: Node = reading.node(entry)
        self.words = Words(reading, entry, self.node.symbols)
        self.rows: tuple[Row, ...] = rows(reading, entry, self.node)
        self.parameters = parameter_count(reading, entry)
        self.title = self.words.plain(self.node.title)
        self.lede = self.words.inline(self.node.lede)
        self.remark = self.words.inline(self.node.remark) if self.node.remark else ""
        self.prose = self.words.blocks(self.node.prose)
        self.notes = self._notes()
        self.evidence: tuple[Evidence, ...] = tuple(
            evidence(replace(source, claim=self._claim(source)), lines)
            for source in sorted(self.node.sources, key=lambda s: GRADES.index(s.grade))
        )
        self.ours: tuple[Ours, ...] = our_lines(reading, self.node, lines)
        self.kept: KeptView | None = kept_view(reading) if self.node.cost in KEPT else None

    def _claim(self, source: Source) -> str:
        # apart from the page's words: the numbers of a claim are not the page's to explain
        return Words(self.reading, self.entry, self.node.symbols).plain(source.claim)

    @property
    def model_name(self) -> str:
        return self.reading.name

    @property
    def crumb(self) -> list[Markup]:
        above = breadcrumb(self.reading.family, self.entry.node, self.entry.instance)[:-1]
        steps = [e for e in above if e.node in self.reading.nodes]
        overview = Markup('<a href="?view=overview" data-view="overview">{}</a>').format(
            long_name_of(self.reading.model)
        )
        links = [node_link(self.reading.model, e, title(self.reading, e)) for e in steps]
        return [overview, *links]

    @property
    def kinds(self) -> list[str]:
        kinds = [] if self.node.kind in ("group", "layer") else [self.node.kind]
        count = f"{show_int(self.parameters)} parameters" if self.parameters else "no parameters"
        if self.parameters:
            kinds = [kind for kind in kinds if kind != "no parameters"]
        return list(dict.fromkeys([*kinds, count]))[:2]

    @property
    def code(self) -> str:
        return self.node.code

    @property
    def lines(self) -> str:
        return self.node.lines.replace("-", "–") if self.node.sources else ""

    @property
    def equation(self) -> Markup | str:
        if not self.node.equation:
            return ""
        return Markup(mathml(self.node.equation, self.node.symbols, display=True))

    @property
    def where(self) -> str:
        return self.entry.place

    @property
    def occurs(self) -> str:
        return OCCURS.get(self.entry.place, "Occurs in")

    @property
    def layer_count(self) -> int:
        return len(self.reading.layers_of(self.entry))

    @property
    def num_layers(self) -> int:
        return self.reading.config.num_hidden_layers

    @property
    def stream(self) -> str:
        """The stream of what comes out, for the strip of layers."""
        outputs = [s.stream for tex in self.node.outputs if (s := self.node.symbol(tex))]
        if any(outputs):
            return next(stream for stream in outputs if stream)
        family = self.entry.node.partition("/")[0]
        named = {"kda": "state", "mla": "key", "moe": "routing", "attn_res": "residual"}
        return named.get(family, "")

    @property
    def columns(self) -> list[tuple[str, str]]:
        return columns(self.rows)

    def bar(self, row: Row) -> int:
        """Width of the bar that shows what a row's features are made of, to one scale."""
        widest = max((sum(p.size for p in r.parts) for r in self.rows if r.parts), default=1)
        return round(WIDEST_BAR * sum(part.size for part in row.parts) / widest)

    def draws_parts(self, at: int) -> bool:
        """A bar for the first row of each make-up; a later row names the pieces."""
        return all(row.parts != self.rows[at].parts for row in self.rows[:at])

    def names_parts(self, at: int) -> bool:
        return all(row.parts != self.rows[at].parts for row in self.rows[at + 1 :])

    @property
    def facts(self) -> list[LabelledFact]:
        return Facts(
            reading=self.reading,
            entry=self.entry,
            node=self.node,
            rows=self.rows,
            kept=self.kept,
        ).all()

    @property
    def kept_words(self) -> list[Markup]:
        return sentences(self.reading, self.kept) if self.kept else []

    @property
    def work(self) -> Work | None:
        """The cost of one call, for nodes that do something; states have their own table."""
        if self.kept:
            return None
        made = work(self.reading, self.entry, self.node, self.rows, self.title, self.parameters)
        empty = all(v == "–" for v in (made.operations, made.values, made.bytes))
        return None if empty and not self.parameters else made

    @property
    def schedule(self) -> bool:
        mixes = ("attn_res/mix", "attn_res/seal", "attn_res/output_mix", "attn_res/stack")
        return self.reading.config.attn_res_block_size is not None and self.entry.node in mixes

    @property
    def block(self) -> int | None:
        return self.reading.config.attn_res_block_size

    @property
    def seals(self) -> list[int]:
        return [i for i in range(self.num_layers) if self.reading.config.seals(i)]

    @property
    def schedule_words(self) -> Markup:
        block, seals = self.block or 1, self.seals
        second, last = seals[1] if len(seals) > 1 else seals[0], seals[-1]
        before = (second - 1) // block + 2
        return Markup(
            "The bank starts empty, and layer 0 seals the embedding. <b>A read comes before a "
            "seal:</b> layer {} mixes {} sources before attention, seals, then mixes {} before its "
            "feed-forward. After layer {} nothing is sealed: that sum lives on as the last of {} "
            "sources of the output mix."
        ).format(second, before, second // block + 2, last, len(seals) + 1)

    def _notes(self) -> list[Note]:
        whole = self.reading.nodes[self.entry.node]
        said = notes(whole, self.reading.family)
        found = []
        for model, other in self.reading.others.items():
            lacks = all(entry.node != self.entry.node for entry in other.entries)
            if model in said:
                found.append(self._note(model, self.words.about(model).blocks(said[model])))
            elif lacks:
                near = nearest_here(other, self.reading.family, self.entry)
                html = Markup("<p>No such part. What comes nearest: {}.</p>").format(
                    title(other, near)
                )
                found.append(self._note(model, html))
        return found

    def _note(self, model: str, html: Markup) -> Note:
        return Note(model=model, node=self.entry.node, title=f"In {name_of(model)}", html=html)

    @property
    def pairs(self) -> list[tuple[Pair, str]]:
        """Comparisons of this model with another, in each of which the node has its line."""
        mine = [pair for pair in PAIRS if self.reading.family in pair]
        return [(pair, " → ".join(map(name_of, pair))) for pair in mine]

    @property
    def numbers(self) -> list[QuotedNumber]:
        own = self.reading.model
        return [
            QuotedNumber(
                name=number.name,
                means=number.means.rstrip("."),
                model="" if number.model == own else f"in {name_of(number.model)}",
                formula=number.value.formula,
                substituted=number.value.substituted,
            )
            for number in self.words.quoted.values()
        ]

    @property
    def repo(self) -> Markup:
        pinned = {(card.repo, card.commit) for card in self.evidence}
        parts = [Markup("{} at <code>{}</code>").format(r, c[:12]) for r, c in sorted(pinned)]
        return Markup(", ").join(parts)

    @property
    def advice(self) -> list[Markup]:
        said = dict.fromkeys(card.advice for card in self.evidence if card.advice)
        return [self.words.inline(text) for text in said]

    @property
    def no_lines(self) -> str:
        if self.node.kind == "group":
            return "A group of parts: each part shows the lines that compute it."
        return "No tap of ours is bound to this node, so there are no lines to point at."

    def head(self) -> str:
        return str(render("node_head.html.j2", self))

    def body(self) -> str:
        return str(render("node_body.html.j2", self))
