"""In and out of a node: named axes, their sizes for the model, and what features are made of."""

from dataclasses import dataclass, replace

from markupsafe import Markup

from annotations.node import Node, Symbol
from annotations.outline import Entry
from app.reader.context import Reading
from app.reader.mathml import mathml
from app.reader.numbers import Formula, constant, formula, span
from model.catalog import TapInfo
from model.dims import DIMS, size

HEADINGS = {
    "batch": "batch",
    "head": "heads",
    "pos": "positions",
    "src": "positions",
    "source": "sources",
    "border": "states kept",
    "expert": "experts",
    "choice": "chosen",
    "lag": "columns",
    "vocab": "vocabulary",
}
ORDER = (
    "batch", "head", "pos", "src", "border", "source", "expert", "choice", "feature", "feature 2",
    "vocab", "lag",
)  # fmt: skip
PARTS = {
    "d_qk": (("content", "d_nope"), ("shared", "d_shared")),
    "d_kv_joint": (("latent", "d_kv_latent"), ("shared", "d_shared")),
    "d_kv_up": (("content key", "d_nope"), ("value", "d_value")),
}
"""Feature axes that are two pieces side by side."""
PIECES = {
    "d_value": "value",
    "d_nope": "content",
    "d_shared": "shared",
    "d_kv_latent": "latent",
    "d_qk": "key",
}
SEGMENT = 512
"""Rows after which a prefill keeps the recurrent state."""


@dataclass(frozen=True, kw_only=True)
class Axis:
    word: str
    letter: str
    heading: str
    size: Formula
    html: Markup


@dataclass(frozen=True, kw_only=True)
class Part:
    """One piece of a feature axis, with its share of the width."""

    name: str
    size: int
    share: float


@dataclass(frozen=True, kw_only=True)
class Row:
    """One tensor: an input or an output."""

    side: str
    symbol: str
    stream: str
    means: str
    tap: str
    axes: dict[str, Axis]
    parts: tuple[Part, ...]
    missing: str = ""
    """Why there are no sizes."""

    @property
    def count(self) -> Formula | None:
        """Elements of the tensor, where each axis but one or two is a constant."""
        made: Formula | None = None
        for axis in self.axes.values():
            made = axis.size if made is None else product(made, axis.size)
        return made


def product(a: Formula, b: Formula) -> Formula:
    """Product of two polynomials; their joint degree stays below three."""

    def times(x: tuple[int | float, ...], y: tuple[int | float, ...]) -> tuple[int | float, ...]:
        out: list[int | float] = [0] * 5
        for i, left in enumerate(x):
            for j, right in enumerate(y):
                out[i + j] += left * right
        assert not any(out[3:]), "a size grows faster than the square of the context"
        return tuple(out[:3])

    return Formula(times(a.decode, b.decode), times(a.prefill, b.prefill), a.degree + b.degree)


def rows(reading: Reading, entry: Entry, node: Node) -> tuple[Row, ...]:
    """Inputs first, then outputs, in the order that the node states them."""
    sides = [("in", tex) for tex in node.inputs] + [("out", tex) for tex in node.outputs]
    table = tuple(_row(reading, entry, node, side, tex) for side, tex in sides)
    if not any(row.parts for row in table):
        return table
    return tuple(row if row.parts else _whole(row) for row in table)


def _whole(row: Row) -> Row:
    """A row beside divided ones: its features as one piece, where they have a short name."""
    axis = row.axes.get("feature")
    if axis is None or axis.word not in PIECES or not axis.size.constant:
        return row
    return replace(row, parts=(Part(name=PIECES[axis.word], size=int(axis.size.at()), share=1.0),))


def _row(reading: Reading, entry: Entry, node: Node, side: str, tex: str) -> Row:
    symbol = node.symbol(tex) or Symbol(tex=tex, node=node.id)
    math = mathml(tex, node.symbols)
    behind = reading.tap_behind(symbol, entry) if node.symbol(tex) else None
    common = {"side": side, "symbol": math, "stream": symbol.stream, "means": symbol.means}
    if behind is None:
        why = "no tap stands behind it, so its shape is not known here"
        return Row(**common, tap="", axes={}, parts=(), missing=why)
    tap, place = behind
    try:
        axes = _axes(reading, place, tap)
    except (LookupError, ValueError) as error:
        return Row(**common, tap=tap.name, axes={}, parts=(), missing=str(error))
    return Row(**common, tap=tap.name, axes=axes, parts=_parts(reading, tap))


def _axes(reading: Reading, entry: Entry, tap: TapInfo) -> dict[str, Axis]:
    axes: dict[str, Axis] = {}
    two_lengths = "pos" in tap.dims and "src" in tap.dims
    for word in tap.dims:
        real = feature_word(reading, entry, tap) if word == "feature" else word
        key = word if word in HEADINGS else "feature" if "feature" not in axes else "feature 2"
        heading = HEADINGS.get(word, "features")
        if word == "src" and two_lengths:
            heading = "keys"
        if key == "src" and not two_lengths:
            key = "pos"
        made = axis_size(reading, entry, tap, word, real)
        live = "" if made.constant else "ks-live"
        axes[key] = Axis(
            word=real,
            letter=DIMS[real].letter if real in DIMS else "",
            heading=heading,
            size=made,
            html=_by_layer(entry, tap, made) if word == "source" else span(made, live_class=live),
        )
    return axes


def _by_layer(entry: Entry, tap: TapInfo, made: Formula) -> Markup:
    """A number of sources: it depends on the layer, and the browser follows the layer chosen."""
    read = {"mlp_res": "ffn", "output_attn_res": "out"}.get(entry.instance, "mixer")
    less = 1 if tap.attribute == "bank" else 0
    return Markup('<span class="ks-num" data-sources="{}" data-less="{}">{}</span>').format(
        read, less, made.at()
    )


def axis_size(reading: Reading, entry: Entry, tap: TapInfo, word: str, real: str) -> Formula:
    """The size of one axis of a tap as a function of batch, context and phase."""
    config, layer = reading.config, reading.layer_of(entry) or 0
    if word == "border":
        # decode keeps one state; a prefill keeps one more for each whole segment before its end
        return constant(1)
    sources = config.bank_size(layer) + (tap.attribute != "bank")
    if entry.instance == "output_attn_res":
        sources = config.bank_size(config.num_hidden_layers - 1) + 1

    def count(batch: int, positions: int, phase) -> int:
        queries = positions if phase == "prefill" else 1
        return size(
            real, config, batch=batch, pos=queries, src=positions, source=sources, owner=tap.cls
        )

    return formula(count)


def feature_word(reading: Reading, entry: Entry, tap: TapInfo) -> str:
    """The word behind `feature`: what the instance declares."""
    modules = reading.modules(entry)
    for path in (entry.instance, f"{entry.instance}.{tap.attribute}"):
        module = modules.get(path)
        if module is not None and module.feature:
            return module.feature
    owners = [m.feature for m in modules.values() if m.cls == tap.cls and m.feature]
    if len(set(owners)) == 1:
        return owners[0]
    raise LookupError(f"the width of {tap.name} at {entry.instance or 'the model'} is not declared")


def _parts(reading: Reading, tap: TapInfo) -> tuple[Part, ...]:
    for word in tap.dims:
        if word in PARTS:
            sizes = [(name, size(w, reading.config, owner=tap.cls)) for name, w in PARTS[word]]
            whole = sum(n for _, n in sizes)
            return tuple(Part(name=name, size=n, share=n / whole) for name, n in sizes)
    return ()


def columns(table: tuple[Row, ...]) -> list[tuple[str, str]]:
    """The columns that a table of rows needs: key and heading, equal axes under each other."""
    present = {key: axis for row in table for key, axis in row.axes.items()}
    return [(key, present[key].heading) for key in ORDER if key in present]
