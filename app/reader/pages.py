"""One node at one place, gathered for the templates."""

from dataclasses import dataclass

from markupsafe import Markup

from annotations.node import Node
from annotations.outline import Entry, breadcrumb
from app.reader.context import LONG_NAMES, NAMES, Reading
from app.reader.cost_view import (
    KeptView,
    Written,
    kept_view,
    multiplications,
    parameter_count,
    parameter_paths,
    written,
)
from app.reader.excerpts import Evidence, Lines, Ours, evidence, our_lines
from app.reader.mathml import mathml
from app.reader.numbers import show_int, span
from app.reader.render import render
from app.reader.shapes import Row, columns, rows
from app.reader.words import Words, node_link, title
from model.cost import fact

WIDEST_BAR = 192
OCCURS = {"mixed": "Reads in", "seals": "Seals in"}


@dataclass(frozen=True, kw_only=True)
class LabelledFact:
    label: str
    value: Markup | str


@dataclass(frozen=True, kw_only=True)
class Note:
    """What another model does here."""

    title: str
    html: Markup


@dataclass(frozen=True, kw_only=True)
class CostRow:
    name: str
    note: str
    parameters: Markup | str
    operations: Markup | str
    values: Markup | str
    bytes: Markup | str


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
        self.prose = self._prose()
        self.notes = self._notes()
        self.evidence: tuple[Evidence, ...] = tuple(
            evidence(source, lines) for source in self.node.sources
        )
        self.ours: tuple[Ours, ...] = our_lines(reading, self.node, lines)
        self.kept: KeptView | None = kept_view(reading) if self.node.cost == "kv_cache" else None
        self.written: Written | None = written(self.rows)

    @property
    def model_name(self) -> str:
        return NAMES[self.reading.model]

    @property
    def crumb(self) -> list[Markup]:
        above = breadcrumb(self.reading.model, self.entry.node, self.entry.instance)[:-1]
        steps = [e for e in above if e.node in self.reading.nodes]
        overview = Markup('<a href="?view=overview" data-view="overview">{}</a>').format(
            LONG_NAMES[self.reading.model]
        )
        links = [node_link(self.reading.model, e, title(self.reading, e)) for e in steps]
        return [overview, *links]

    @property
    def kinds(self) -> list[str]:
        kinds = [] if self.node.kind in ("group", "layer") else [self.node.kind]
        count = f"{show_int(self.parameters)} parameters" if self.parameters else "no parameters"
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

    @property
    def facts(self) -> list[LabelledFact]:
        found = [LabelledFact(label="Parameters here", value=show_int(self.parameters))]
        if self.kept:
            found = _kept_facts(self.kept)
        if self.entry.node.startswith("attn_res/"):
            found += self._residual_facts()
        if self.written:
            found.append(LabelledFact(label="Written by this call", value=self.written.bytes))
        if self.node.kind.startswith("state"):
            longest = show_int(self.reading.config.max_position_embeddings)
            found.append(LabelledFact(label="Longest context", value=f"{longest}, not enforced"))
        else:
            found.append(LabelledFact(label="Kept between calls", value="nothing"))
        return found

    def _residual_facts(self) -> list[LabelledFact]:
        config = self.reading.config
        labels = {"residual_reads": "All reads of a token", "residual_sources_out": "Most sources"}
        return [
            LabelledFact(label=label, value=fact(name, config).substituted)
            for name, label in labels.items()
        ]

    @property
    def kept_words(self) -> list[Markup]:
        """What the crossing chart says, in sentences."""
        if self.kept is None:
            return []
        form = {row.stream: row for row in self.kept.rows}
        said = []
        if (big := form.get("key")) and (state := form.get("state")):
            said.append(
                Markup('<b data-f="{}" data-b="1" data-over="{}" data-fmt="times">{}</b>').format(
                    big.values.text(),
                    state.values.text(),
                    f"{big.values.at() / state.values.at():.1f} times",
                )
                + " what a KDA layer keeps, in values."
            )
        for crossing in self.kept.crossings:
            said.append(
                Markup("The {} <b>{}</b> positions on.").format(
                    crossing.means.removesuffix(" from here") + " from", show_int(crossing.at)
                )
            )
        if "kda" in self.reading.config.mixers:
            said.append(
                Markup(
                    "In bytes it takes {} positions, and {} in the latent form: the KDA state is float32."
                ).format(
                    *(
                        show_int(fact(name, self.reading.config).value)
                        for name in ("kv_bytes_exceed_kda_from", "latent_bytes_exceed_kda_from")
                    )
                )
            )
        if big and (small := form.get("latent")):
            said.append(
                Markup(
                    "Each decoded token reads the whole cache: <b>{}</b> over the {} layers, or {} in the latent form."
                ).format(
                    span(big.total_bytes, "bytes"), big.layers, span(small.total_bytes, "bytes")
                )
            )
        return said

    @property
    def costs(self) -> list[CostRow]:
        if self.kept or (not self.parameters and self.written is None):
            return []
        operations = multiplications(self.reading, self.entry, self._matrix_parameters)
        return [
            CostRow(
                name=self.title,
                note=f"{show_int(self.layer_count)} layers have it" if self.where else "",
                parameters=show_int(self.parameters),
                operations=operations or "–",
                values=self.written.values if self.written else "–",
                bytes=self.written.bytes if self.written else "–",
            )
        ]

    @property
    def _matrix_parameters(self) -> int:
        """Parameters that one token row multiplies once; experts are read by choice."""
        if "experts" in self.node.kind or self.entry.node.startswith("moe/expert"):
            return int(fact("expert_parameters", self.reading.config).value) * (
                self.reading.config.num_experts_per_token
            )
        if self.entry.node.startswith(("moe/layers", "moe/latent_moe", "layers/", "embed/")):
            return 0
        return self.parameters

    @property
    def cost_how(self) -> list[tuple[str, str]]:
        own = parameter_paths(self.reading, self.entry, self.node)
        found = [(path, f"{show_int(count)} parameters") for path, count in own.items()]
        if self._matrix_parameters:
            found.append(
                (
                    "operations",
                    "2 for each parameter and token row; prefill has as many rows as positions, decode one, times the batch",
                )
            )
        if self.written:
            found.append(("written", "elements of the outputs above, 2 bytes each in bfloat16"))
        return found

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

    def _prose(self) -> Markup:
        variant = self.node.variants.get(self.reading.model)
        own = self.words.blocks(self.node.prose)
        if variant and variant.prose:
            own += Markup("\n<p><b>In {}.</b></p>\n").format(self.model_name)
            own += self.words.blocks(variant.prose)
        return own

    def _notes(self) -> list[Note]:
        return [
            Note(
                title=f"In {NAMES[model]}",
                html=self.words.about(model).blocks(variant.prose),
            )
            for model, variant in self.node.variants.items()
            if model != self.reading.model
            and variant.prose
            and not self.node.places.get(self.entry.instance)
        ]

    @property
    def numbers(self) -> list[QuotedNumber]:
        own = self.reading.model
        return [
            QuotedNumber(
                name=number.name,
                means=number.means.rstrip("."),
                model="" if number.model == own else f"in {NAMES[number.model]}",
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
    def no_lines(self) -> str:
        if self.node.kind == "group":
            return "A group of parts: each part shows the lines that compute it."
        return "No tap of ours is bound to this node, so there are no lines to point at."

    def head(self) -> str:
        return str(render("node_head.html.j2", self))

    def body(self) -> str:
        return str(render("node_body.html.j2", self))


def _kept_facts(view: KeptView) -> list[LabelledFact]:
    first = view.rows[0]
    per = show_int(first.per_position)
    return [
        LabelledFact(label="Kept per position", value=f"{per} values"),
        LabelledFact(label="In bfloat16", value=f"{show_int(2 * first.per_position)} B"),
        LabelledFact(label="Grows with", value="context × batch"),
    ]
