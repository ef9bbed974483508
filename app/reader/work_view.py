"""What one call does at a node: operations, values written, bytes written."""

from dataclasses import dataclass
from functools import lru_cache

from markupsafe import Markup

from annotations.node import Node, target
from annotations.outline import Entry
from app.reader.context import Reading
from app.reader.cost_view import parameter_paths
from app.reader.edges import inside
from app.reader.numbers import Formula, constant, formula, show_int, span
from app.reader.shapes import Row, product
from model.config import KimiConfig
from model.cost import element_bytes, flops

TapPlace = tuple[str, str]
"""A tap and the instance it stands at."""


@dataclass(frozen=True, kw_only=True)
class Work:
    """The row of the cost table, and how its numbers come about."""

    name: str
    note: str
    parameters: str
    operations: Markup | str
    values: Markup | str
    bytes: Markup | str
    how: tuple[tuple[str, str], ...]


def work(
    reading: Reading, entry: Entry, node: Node, rows: tuple[Row, ...], name: str, count: int
) -> Work:
    operations = node_operations(reading, entry, node)
    once = node_operations(reading, entry, node, degree=0)
    values, size = written_values(rows), written_bytes(reading, rows)
    how = [
        (path, f"{show_int(n)} parameters") for path, n in parameters_below(reading, entry, node)
    ]
    counted = "a multiply and an add count as two; see model/cost_flops.py"
    moved = "no multiply or add: values are moved, compared or passed through a function"
    how.append(("operations", moved if operations is None and once is None else counted))
    if size is not None:
        how.append(("written", _widths(reading, rows)))
    return Work(
        name=name,
        note=_where(reading, entry),
        parameters=show_int(count),
        operations=_shown(operations) if once is None else _with_once(operations, once),
        values=_shown(values),
        bytes=_shown(size, "bytes"),
        how=tuple(how),
    )


def parameters_below(reading: Reading, entry: Entry, node: Node) -> list[tuple[str, int]]:
    return list(parameter_paths(reading, entry, node).items())


def node_operations(reading: Reading, entry: Entry, node: Node, degree: int = 1) -> Formula | None:
    """Operations of a node's taps and of all below it that grow so with the batch; or None."""
    if _spans_layers(entry):
        return model_operations(reading.config) if degree == 1 else None
    found: dict[TapPlace, Formula] = {}
    places = [(entry, node), *((e, reading.node(e)) for e in inside(entry))]
    for place, inner in places:
        for tap in (*inner.taps, *_into_state(reading, inner, place)):
            # a tap has one owner; a group counts each of its parts once
            if tap in reading.taps and (tap, place.instance) not in found:
                made = _tap_operations(reading, place, tap)
                if made is not None:
                    found[tap, place.instance] = made
    return total(list(found.values()), degree)


def _into_state(reading: Reading, node: Node, place: Entry) -> list[str]:
    """Taps of states that a node writes: the state has a page of its own, the work is here."""
    found = []
    for symbol in filter(None, map(node.symbol, node.outputs)):
        keeper = reading.nodes.get(target(symbol.node)[0]) if symbol.node else None
        if keeper is not None and keeper.id != node.id and keeper.kind.startswith("state"):
            behind = reading.tap_behind(symbol, place)
            found += [behind[0].name] if behind else []
    return found


def _tap_operations(reading: Reading, place: Entry, tap: str) -> Formula | None:
    layers = reading.layers_of(place)
    # sources grow with depth: the last layer reads the most
    layer = layers[-1] if layers else None
    return _operations(reading.config, tap, layer, place.instance or None)


@lru_cache(maxsize=8)
def model_operations(config: KimiConfig) -> Formula:
    """Of the whole model in one call, for every sequence of the batch."""
    return formula(lambda b, p, ph: flops(config, "lm", batch=b, positions=p, phase=ph).value)


@lru_cache(maxsize=1024)
def _operations(config: KimiConfig, tap: str, layer: int | None, at: str | None) -> Formula | None:
    def count(batch: int, positions: int, phase) -> int | float:
        asked = {"batch": batch, "positions": positions, "phase": phase}
        return flops(config, tap, layer=layer, at=at, **asked).value

    try:
        return formula(count)
    except LookupError:
        return None


def total(parts: list[Formula], degree: int = 1) -> Formula | None:
    """The sum of the polynomials that grow so with the batch; None where there are none."""
    grown = [part for part in parts if part.degree == degree and any((*part.decode, *part.prefill))]
    if not grown:
        return None
    return Formula(
        tuple(sum(c) for c in zip(*(part.decode for part in grown), strict=True)),
        tuple(sum(c) for c in zip(*(part.prefill for part in grown), strict=True)),
        degree,
    )


def written_values(rows: tuple[Row, ...]) -> Formula | None:
    counts = [row.count for row in rows if row.side == "out"]
    known = [count for count in counts if count is not None]
    if len(known) != len(counts) or len({count.degree for count in known}) > 1:
        return None
    return total(known, known[0].degree) if known else None


def written_bytes(reading: Reading, rows: tuple[Row, ...]) -> Formula | None:
    """Bytes of the outputs at the width that each of them has in a bfloat16 model."""
    if written_values(rows) is None:
        return None
    sized = [(row.count, _width(reading, row)) for row in rows if row.side == "out"]
    counts = [product(count, constant(width)) for count, width in sized if count is not None]
    return total(counts, counts[0].degree)


def _width(reading: Reading, row: Row) -> int:
    return element_bytes(reading.taps[row.tap], "bfloat16")


def _widths(reading: Reading, rows: tuple[Row, ...]) -> str:
    outputs = [(row, _width(reading, row)) for row in rows if row.side == "out" and row.tap]
    return "; ".join(f"{row.tap}: {width} bytes an element" for row, width in outputs)


def _shown(made: Formula | None, fmt: str = "int") -> Markup | str:
    return "–" if made is None else span(made, fmt)


def _with_once(each: Formula | None, once: Formula) -> Markup:
    """Operations of every sequence, and those that a call does once however large the batch."""
    alone = Markup("{} once a call").format(span(once))
    return alone if each is None else Markup("{}<small>and {}</small>").format(span(each), alone)


def _spans_layers(entry: Entry) -> bool:
    return entry.place == "all" and bool(entry.children) and not entry.instance


def _where(reading: Reading, entry: Entry) -> str:
    layers = reading.layers_of(entry)
    if not layers:
        return "once in the model"
    if _spans_layers(entry):
        return "parameters of all layers; operations of the whole model"
    if entry.node.startswith("attn_res/") and entry.node != "attn_res/add":
        return f"layer {layers[-1]}, where sources are most; {len(layers)} layers have it"
    return f"one of {len(layers)} layers"
