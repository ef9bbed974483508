"""Where a node comes from and where it goes: the symbols that point at other nodes."""

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import asdict, dataclass

from annotations.node import Symbol
from annotations.outline import Entry
from app.reader.context import PlaceKey, Reading
from app.reader.mathml import mathml
from app.reader.words import title

KINDS = {"gate": "gate", "routing": "routing", "latent": "latent", "state": "state"}


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
    for here, entry in reading.by_place.items():
        if reading.node(entry).kind.startswith("state") and entry.place:
            into[here][("", "last call")] = _call("This layer’s last call")
            out[here][("", "next call")] = _call("This layer’s next call")
    return _plain(into), _plain(out)


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


def _plain(found: dict[PlaceKey, dict[PlaceKey, Edge]]) -> dict[PlaceKey, list[dict]]:
    return {place: [asdict(edge) for edge in row.values()] for place, row in found.items()}
