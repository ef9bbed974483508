"""Where a node comes from and where it goes: the symbols that point at other nodes."""

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace

from annotations.node import Symbol
from annotations.outline import Entry, breadcrumb
from app.reader.context import PlaceKey, Reading
from app.reader.mathml import mathml
from app.reader.words import title

KINDS = {"gate": "gate", "routing": "routing", "latent": "latent", "state": "state"}
JOINS = (
    ("layers/all", "", ("embed/tokens",)),
    ("norm/rms", "input_layernorm", ("attn_res/mix @ self_attention_res", "layers/all")),
    ("norm/rms", "post_attention_layernorm", ("attn_res/mix @ mlp_res", "block/add_mixer")),
    ("norm/rms", "block_sparse_moe.routed_expert_norm", ("moe/weighted_sum",)),
    ("norm/rms", "norm", ("attn_res/output_mix", "block/add_ffn")),
    ("attn_res/seal", "", ("bank/empty",)),
    ("mla/output_gate", "self_attn", ("mla/join_heads",)),
    ("mla/output", "self_attn", ("mla/output_gate", "mla/join_heads")),
    ("block/add_mixer", "", ("mla/output",)),
    ("block/add_ffn", "", ("mlp/down @ mlp",)),
)
"""Inputs that a node's own symbols cannot name, because they differ by place, layer or model: the
node, its instance, and what feeds it; the first that the model has."""
FED = {
    "attn_res/seal": r"\mathcal B",
    "block/add_mixer": "a",
    "block/add_ffn": "m",
    "mla/output_gate": "o",
}
"""The symbol that such an input is, where it is not the first of the node's inputs."""


@dataclass(frozen=True, kw_only=True)
class Edge:
    """One arrow into or out of a node, seen from that node."""

    node: str
    at: str
    title: str
    stream: str
    kind: str
    """How it is drawn: state, read, gate, routing, latent or nothing special."""
    maths: str
    tap: str
    """The tap whose small picture stands beside it."""


def edges(reading: Reading) -> tuple[dict[PlaceKey, list[dict]], dict[PlaceKey, list[dict]]]:
    """Edges into and out of every place of a model."""
    into: dict[PlaceKey, dict[PlaceKey, Edge]] = defaultdict(dict)
    out: dict[PlaceKey, dict[PlaceKey, Edge]] = defaultdict(dict)
    for here, entry in reading.by_place.items():
        node = reading.node(entry)
        below = {(e.node, e.instance) for e in inside(entry)}
        for symbol in node.symbols:
            source = reading.entry_for(symbol.node, entry) if symbol.node else None
            if source is None or source.node == entry.node:
                continue
            # a group's outputs and inner symbols are made by its own parts
            if symbol.tex in node.outputs or (source.node, source.instance) in below:
                continue
            there = (source.node, source.instance)
            into[here].setdefault(there, _edge(reading, source, symbol, source, entry))
            out[there].setdefault(here, _edge(reading, entry, symbol, source, entry))
    for entry, symbol, source in _joins(reading):
        here, there = (entry.node, entry.instance), (source.node, source.instance)
        into[here].setdefault(there, _edge(reading, source, symbol, source, entry))
        out[there].setdefault(here, _edge(reading, entry, symbol, source, entry))
    _lift(reading, into, out)
    for here, entry in reading.by_place.items():
        if reading.node(entry).kind.startswith("state"):
            whose = "This layer’s" if entry.place else "The model’s"
            into[here][("", "last call")] = _call(f"{whose} last call")
            out[here][("", "next call")] = _call(f"{whose} next call")
    return _plain(reading, into), _plain(reading, out)


def _joins(reading: Reading) -> Iterator[tuple[Entry, Symbol, Entry]]:
    """The node that is fed, the symbol it knows the input by, and what feeds it."""
    for name, instance, feeders in JOINS:
        entry = reading.by_place.get((name, instance))
        if entry is None:
            continue
        node = reading.node(entry)
        symbol = node.symbol(FED.get(name) or next(iter(node.inputs), ""))
        for feeder in feeders:
            source = reading.entry_for(feeder, entry)
            if symbol is not None and source is not None:
                yield entry, symbol, source
                break


def _lift(
    reading: Reading,
    into: dict[PlaceKey, dict[PlaceKey, Edge]],
    out: dict[PlaceKey, dict[PlaceKey, Edge]],
) -> None:
    """A group comes from and goes to what its parts do, as far as that lies outside it."""
    for here, entry in reading.by_place.items():
        below = {(e.node, e.instance) for e in inside(entry)}
        made = set(reading.node(entry).outputs)
        for row in (into, out):
            if row[here] or not below or _holds_layers(entry):
                continue
            parts = _last(reading, entry, made) if row is out and made else below
            for part in parts:
                for there, edge in row[part].items():
                    if there not in below and there != here and there[0]:
                        row[here].setdefault(there, edge)
    for here, entry in reading.by_place.items():
        for part in _last(reading, entry, set(reading.node(entry).outputs)):
            if not out[part] and entry.children:
                out[part] = dict(out[here])


def _last(reading: Reading, entry: Entry, made: set[str]) -> list[PlaceKey]:
    """The parts that make what a group gives, by the symbols that stand for its outputs."""
    node = reading.node(entry)
    found = []
    for tex in made:
        symbol = node.symbol(tex)
        part = reading.entry_for(symbol.node, entry) if symbol and symbol.node else None
        if part is not None:
            found.append((part.node, part.instance))
    return found


def _holds_layers(entry: Entry) -> bool:
    return entry.place == "all" and not entry.instance


def inside(entry: Entry) -> Iterator[Entry]:
    """Every entry below one."""
    for child in entry.children:
        yield child
        yield from inside(child)


def _edge(reading: Reading, shown: Entry, symbol: Symbol, source: Entry, target: Entry) -> Edge:
    behind = reading.tap_behind(symbol, target)
    return Edge(
        node=shown.node,
        at=shown.instance,
        title=title(reading, shown),
        stream=symbol.stream,
        kind=_kind(symbol, source),
        maths=mathml(symbol.tex, (symbol,)),
        tap=behind[0].name if behind else "",
    )


def _kind(symbol: Symbol, source: Entry) -> str:
    if symbol.stream == "residual" and source.node in ("bank/empty", "attn_res/seal"):
        return "read"
    return KINDS.get(symbol.stream, "")


def _call(name: str) -> Edge:
    return Edge(node="", at="", title=name, stream="state", kind="state", maths="", tap="")


def _plain(
    reading: Reading, found: dict[PlaceKey, dict[PlaceKey, Edge]]
) -> dict[PlaceKey, list[dict]]:
    """Edges as JSON. A part is left out beside its group; equal titles are told apart."""
    plain: dict[PlaceKey, list[dict]] = {}
    for place, row in found.items():
        groups = [reading.by_place[there] for there in row if there in reading.by_place]
        held = [{(e.node, e.instance) for e in inside(group)} for group in groups]
        covered = {part for parts in held if place not in parts for part in parts}
        shown = [(there, edge) for there, edge in row.items() if there not in covered]
        titles = [edge.title for _, edge in shown]
        plain[place] = [
            asdict(replace(edge, title=f"{edge.title}, {_group(reading, there)}"))
            if titles.count(edge.title) > 1
            else asdict(edge)
            for there, edge in shown
        ]
    return plain


def _group(reading: Reading, place: PlaceKey) -> str:
    above = breadcrumb(reading.family, *place)[:-1]
    return title(reading, above[-1]) if above else reading.name
