"""The first page: what the model is, three ways in, and what the architecture graph needs."""

from dataclasses import dataclass

from markupsafe import Markup, escape

from annotations.changes import PAIRS, Pair
from annotations.outline import Entry
from app.models import config_of, long_name_of, name_of
from app.reader.context import Reading
from app.reader.numbers import Formula, formula, show_int, span
from app.reader.render import render
from app.reader.tour import Station, stations
from app.reader.words import node_link, title
from model.config import KimiConfig
from model.cost import fact, kept, layer_total
from model.cost_kept import Kind

READ = ("attn_res/mix", "kda/state", "mla/kv_cache", "moe/router")
"""Nodes that the first way in offers, where the model has them."""
RUN = (
    ("kda/state", "The memory of a layer, live", "state"),
    ("mla/softmax", "Which token looks at which", "pattern"),
    ("moe/weights", "Which experts a token chose", "routing"),
    ("head/logits", "What comes next", "logits"),
)
"""Nodes whose live half the second way in offers."""
SEARCHES = ("mla/kv_cache", "mla/k_shared", "kda/state", "moe/pick")


_KEPT: tuple[tuple[Kind, str, str], ...] = (
    ("kda", "kda", "KDA memory, all layers"),
    ("latent", "mla", "MLA latent, all layers"),
    ("expanded", "mla", "MLA keys and values"),
)


@dataclass(frozen=True, kw_only=True)
class OverviewFact:
    label: str
    value: Markup | str


@dataclass(frozen=True, kw_only=True)
class Way:
    """One of the three ways in."""

    title: str
    text: str
    links: tuple[tuple[Markup, str], ...]


class Overview:
    def __init__(self, reading: Reading) -> None:
        self.reading = reading
        self.title = f"{long_name_of(reading.model)}, part by part"
        self.lede = (
            "K3, K2 and Kimi-Linear, each part on a page of its own: the equation, its size at any "
            "context, the lines that define it, the values of a run beside it, and the proof that "
            "tensor and equation agree."
        )

    @property
    def facts(self) -> list[OverviewFact]:
        config = self.reading.config
        found = [
            OverviewFact(label=label, value=show_int(fact(name, config).value))
            for label, name in (
                ("Parameters", "text_parameters"),
                ("Active for a token", "active_parameters"),
            )
        ]
        found.append(OverviewFact(label="Layers", value=layer_kinds(self.reading.config)))
        for kind, mixer, label in _KEPT:
            if mixer in config.mixers:
                size = _total(self.reading, kind)
                found.append(OverviewFact(label=label, value=span(size, "bytes")))
        return found

    @property
    def examples(self) -> list[Markup]:
        return [self._link(entry) for node in SEARCHES if (entry := self._entry(node))]

    @property
    def ways(self) -> list[Way]:
        return [
            Way(
                title="Read",
                text="Follow a token from embedding to logits, one part at a time.",
                links=tuple(
                    (self._link(entry), self._where(entry))
                    for node in READ
                    if (entry := self._entry(node))
                ),
            ),
            Way(
                title="Run",
                text="Send your own text through a small model and look inside every step.",
                links=tuple(
                    (self._link(entry, words), note)
                    for node, words, note in RUN
                    if (entry := self._entry(node))
                ),
            ),
            Way(
                title="Compare",
                text="Two models part by part: what stayed, what changed and why, and its cost.",
                links=tuple(
                    (self._pair_link(pair), self._layer_counts(pair))
                    for pair in PAIRS
                    if self.reading.family in pair
                )
                + tuple(
                    (self._link(entry, "Memory against context"), "1 … " + self._longest())
                    for entry in [self._entry("mla/kv_cache")]
                    if entry
                ),
            ),
        ]

    def _longest(self) -> str:
        return show_int(self.reading.config.max_position_embeddings)

    def _pair_link(self, pair: Pair) -> Markup:
        older, newer = pair
        return Markup(
            '<a href="?view=compare&amp;from={}&amp;to={}" data-view="compare" data-from="{}" '
            'data-to="{}">{} → {}</a>'
        ).format(older, newer, older, newer, name_of(older), name_of(newer))

    def _layer_counts(self, pair: Pair) -> str:
        older, newer = (config_of(model).num_hidden_layers for model in pair)
        return f"{older}, {newer} layers"

    def _entry(self, node: str) -> Entry | None:
        return next((e for e in self.reading.entries if e.node == node), None)

    def _link(self, entry: Entry, words: str = "") -> Markup:
        return node_link(self.reading.model, entry, escape(words or title(self.reading, entry)))

    def _where(self, entry: Entry) -> str:
        layers = len(self.reading.layers_of(entry))
        return f"{layers} layers" if layers else "once"

    @property
    def sealed(self) -> bool:
        return self.reading.config.attn_res_block_size is not None

    @property
    def rows_word(self) -> str:
        block = self.reading.config.attn_res_block_size
        row = f"residual block of {block} layers" if block else "dozen layers"
        return f"{self.reading.name}, a row is a {row}"

    @property
    def stack_words(self) -> str:
        config = self.reading.config
        blocks = f" in residual blocks of {config.attn_res_block_size}" if self.sealed else ""
        return f"{config.num_hidden_layers} layers{blocks}"

    @property
    def tour(self) -> list[Station]:
        return stations(self.reading)

    def html(self) -> str:
        return str(render("overview.html.j2", self))


def layer_kinds(config: KimiConfig) -> Markup:
    """How many layers mix tokens by which means."""
    counts = [("kda", "KDA", "state"), ("mla", "MLA", "key")]
    parts = [
        Markup('<span class="stream-{}">{} {}</span>').format(
            stream, config.mixers.count(mixer), word
        )
        for mixer, word, stream in counts
        if mixer in config.mixers
    ]
    return Markup(" + ").join(parts)


def _total(reading: Reading, kind: Kind) -> Formula:
    config = reading.config
    return formula(lambda b, p, ph: kept(config, kind, batch=b, positions=p).total_bytes.value)


def graph_sizes(reading: Reading) -> dict:
    """What the architecture graph draws under its overlays: parameters and bytes of each kind."""
    config = reading.config
    parameters, kinds = {}, {}
    for i, (mixer, feed) in enumerate(zip(config.mixers, config.feed_forwards, strict=True)):
        key = letter(mixer) + letter(feed)
        if key not in parameters:
            parameters[key] = int(layer_total(config, i))
    forms: tuple[tuple[str, Kind], ...] = (("kda", "kda"), ("mla", "latent"))
    for mixer, kind in forms:
        if mixer in config.mixers:
            made = formula(
                lambda b, p, ph, k=kind: kept(config, k, batch=b, positions=p).bytes.value
            )
            kinds[letter(mixer)] = made.decode
    return {"parameters": parameters, "kept": kinds, "vocabulary": config.vocab_size}


def letter(kind: str) -> str:
    """One letter for each kind of layer part, as the browser keeps them."""
    return {"kda": "k", "mla": "m", "dense": "d", "moe": "e"}[kind]
