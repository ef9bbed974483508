"""In and out of a node: named axes, their sizes for the model, and what features are made of."""

from dataclasses import dataclass, replace
from math import prod

from markupsafe import Markup

from annotations.node import Node, Symbol, target
from annotations.outline import Entry
from app.reader.context import Reading
from app.reader.cost_view import owner_path
from app.reader.mathml import mathml
from app.reader.numbers import Formula, constant, formula, span
from model.catalog import TapInfo
from model.cost_modules import LAYER, LM
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
"""Feature axes that are two pieces side by side; the shared one is rotary where it is rotated."""
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
    hatched: bool = False
    """The piece that all heads share."""


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
    return tuple(row if row.parts else _whole(reading, row) for row in table)


def _whole(reading: Reading, row: Row) -> Row:
    """A row beside divided ones: its features as one piece, where they have a short name."""
    axis = row.axes.get("feature")
    if axis is None or axis.word not in PIECES or not axis.size.constant:
        return row
    return replace(row, parts=(_part(reading, PIECES[axis.word], int(axis.size.at()), 1.0),))


def _row(reading: Reading, entry: Entry, node: Node, side: str, tex: str) -> Row:
    symbol = node.symbol(tex) or Symbol(tex=tex, node=node.id)
    math = mathml(tex, node.symbols)
    behind = _behind(reading, entry, node, symbol) if node.symbol(tex) else None
    common = {"side": side, "symbol": math, "stream": symbol.stream, "means": symbol.means}
    if behind is None:
        axes = untapped_axes(reading, entry, symbol)
        why = "" if axes else "no tensor of a run, so it has no sizes here"
        return Row(**common, tap="", axes=axes, parts=(), missing=why)
    tap, place = behind
    try:
        axes = _axes(reading, place, tap)
    except (LookupError, ValueError) as error:
        return Row(**common, tap=tap.name, axes={}, parts=(), missing=str(error))
    return Row(**common, tap=tap.name, axes=axes, parts=_parts(reading, tap))


def _behind(
    reading: Reading, entry: Entry, node: Node, symbol: Symbol
) -> tuple[TapInfo, Entry] | None:
    """The tap whose axes a symbol has: its own, or for a turned tensor that of what is turned."""
    found = reading.tap_behind(symbol, entry)
    name = target(symbol.node)[0] if symbol.node else ""
    if found is not None or name not in reading.nodes or not symbol.stream:
        return found
    maker = reading.node(replace(entry, node=name))
    alike = [s for tex in maker.inputs if (s := maker.symbol(tex)) and s.stream == symbol.stream]
    return reading.tap_behind(alike[0], entry) if len(alike) == 1 and name != "" else None


def untapped_axes(reading: Reading, entry: Entry, symbol: Symbol) -> dict[str, Axis]:
    """Axes of what no run records: a parameter, or token ids."""
    if symbol.config == "vocab_size":
        # a letter below the vocabulary's size is a token's id
        return {word: _axis(word, call_size(word)) for word in ("batch", "pos")}
    cls, _, rest = (symbol.param or "").partition(".")
    path = owner_path(reading, entry, cls) if rest else None
    if path is None:
        return {}
    module = reading.modules(entry).get(path or (LM if reading.layer_of(entry) is None else LAYER))
    words = module.parameters.get(rest, ()) if module else ()
    axes = [constant(_parameter_axis(reading, cls, word)) for word in words if word != "1"]
    keys = ("feature",) if len(axes) == 1 else ("feature", "feature 2")
    return {key: _axis(key, made) for key, made in zip(keys, axes, strict=False)}


def _parameter_axis(reading: Reading, cls: str, word: str) -> int:
    return prod(size(part, reading.config, owner=cls) for part in word.split("*"))


def _axis(key: str, made: Formula) -> Axis:
    live = "" if made.constant else "ks-live"
    heading = HEADINGS.get(key, "features")
    return Axis(word=key, letter="", heading=heading, size=made, html=span(made, live_class=live))


def call_size(word: str) -> Formula:
    """Sequences of a call, or positions of each."""

    def count(batch: int, positions: int, phase: str) -> int:
        return batch if word == "batch" else positions if phase == "prefill" else 1

    return formula(count)


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
    if entry.node == "bank/empty":
        return Markup("0")
    # a layer that seals writes the bank that its feed-forward will read
    seals = {"": "ffn"} if entry.node == "attn_res/seal" else {}
    read = {"mlp_res": "ffn", "output_attn_res": "out", **seals}.get(entry.instance, "mixer")
    less = 1 if tap.attribute == "bank" else 0
    return Markup('<span class="ks-num" data-sources="{}" data-less="{}">{}</span>').format(
        read, less, made.at()
    )


def axis_size(reading: Reading, entry: Entry, tap: TapInfo, word: str, real: str) -> Formula:
    """The size of one axis of a tap as a function of batch, context and phase."""
    config = reading.config
    if word == "border":
        # decode keeps one state; a prefill keeps one more for each whole segment before its end
        return constant(1)
    # sources grow with depth: the last layer has the most, and so has the output mix
    layer = max(reading.layers_of(entry), default=config.num_hidden_layers - 1)
    sources = config.bank_size(layer) + (tap.attribute != "bank")
    if entry.node == "bank/empty":
        sources = 0

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
            return tuple(_part(reading, name, n, n / whole) for name, n in sizes)
    return ()


def _part(reading: Reading, name: str, count: int, share: float) -> Part:
    shared = name == "shared"
    shown = "rotary" if shared and not reading.config.mla_use_nope else name
    return Part(name=shown, size=count, share=share, hatched=shared)


def columns(table: tuple[Row, ...]) -> list[tuple[str, str]]:
    """The columns that a table of rows needs: key and heading, equal axes under each other."""
    present = {key: axis for row in table for key, axis in row.axes.items()}
    return [(key, present[key].heading) for key in ORDER if key in present]
