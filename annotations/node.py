"""What one page of the reader is made of, as frozen data."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from types import MappingProxyType

from annotations.tex import occurrences

STREAMS = (
    "query",
    "key",
    "value",
    "latent",
    "gate",
    "decay",
    "state",
    "residual",
    "routing",
)
GRADES = ("direct", "contextual")
KINDS = (
    "group",
    "layer",
    "embedding",
    "head",
    "projection",
    "convolution",
    "norm",
    "gate",
    "mix",
    "router",
    "experts",
    "feed-forward",
    "no parameters",
    "state · kept between calls",
)
FIGURES = ("heatmap", "split_heatmap", "weights_over_depth", "state", "routing", "none")
MODELS = ("k3", "k2", "kimi-linear")
_LINES = re.compile(r"\d+(-\d+)?(, \d+(-\d+)?)*")


class NodeError(ValueError):
    """Faults of node files, every one found, each with the path it stands in."""

    def __init__(self, faults: list[str]) -> None:
        self.faults = tuple(faults)
        super().__init__("\n".join(faults))


@dataclass(frozen=True, kw_only=True, slots=True)
class Symbol:
    """One letter of the equation and the one thing it stands for."""

    tex: str
    means: str = ""
    stream: str = ""
    """A key of the colour table, or empty for what belongs to no stream."""
    tap: str | None = None
    """`Class.attribute`. A tap is bound by one symbol of one node; others point at that node."""
    param: str | None = None
    """`Class.path.to.weight`"""
    config: str | None = None
    node: str | None = None
    """`family/node` or `family/node @ instance`: an edge of the graph."""

    def __post_init__(self) -> None:
        targets = [self.tap, self.param, self.config, self.node]
        if sum(target is not None for target in targets) != 1:
            raise ValueError(f"symbol {self.tex!r} must name one of tap, param, config, node")
        if self.stream and self.stream not in STREAMS:
            raise ValueError(
                f"symbol {self.tex!r} has the stream {self.stream!r}; "
                f"streams are {', '.join(STREAMS)}"
            )


@dataclass(frozen=True, kw_only=True, slots=True)
class Source:
    """Upstream lines, and what they show in our words."""

    id: str
    claim: str
    grade: str
    """`direct`: these lines compute this. `contextual`: they define or feed it."""
    pin: str
    path: str
    lines: str
    """`442-444` or `127-135, 150`, as upstream numbers them."""
    within: str = ""
    """The enclosing definition, or the last parts of its dotted name; empty for data files."""
    names: tuple[str, ...] = ()
    """Identifiers that must occur in the lines."""

    def __post_init__(self) -> None:
        if self.grade not in GRADES:
            raise ValueError(
                f"source {self.id!r} has the grade {self.grade!r}; grades are {', '.join(GRADES)}"
            )
        check_lines(self.lines)

    @property
    def ranges(self) -> tuple[tuple[int, int], ...]:
        return line_ranges(self.lines)


@dataclass(frozen=True, kw_only=True, slots=True)
class Variant:
    """What one model, or one place, changes in a node. Empty fields leave the node as it is."""

    title: str = ""
    kind: str = ""
    lede: str = ""
    code: str = ""
    lines: str = ""
    symbols: tuple[Symbol, ...] = ()
    inputs: tuple[str, ...] = ()
    outputs: tuple[str, ...] = ()
    equation: str = ""
    prose: str = ""
    """Says how this model differs. Its placeholders are filled in for this model."""
    remark: str = ""
    look: str = ""
    sources: tuple[Source, ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class Node:
    """One page. It knows neither its models, its parent nor its place in an outline."""

    id: str
    title: str
    kind: str
    lede: str
    code: str = ""
    """The upstream expression under the title."""
    lines: str = ""
    """Its lines in the pinned file; the first direct source's where the file states none."""
    symbols: tuple[Symbol, ...] = ()
    inputs: tuple[str, ...] = ()
    outputs: tuple[str, ...] = ()
    equation: str = ""
    prose: str = ""
    remark: str = ""
    """What implementers get wrong, or what a name hides."""
    look: str = ""
    """What to look for in the live tensor."""
    sources: tuple[Source, ...] = ()
    variants: Mapping[str, Variant] = field(default_factory=lambda: MappingProxyType({}))
    """By model, from the sections `# k2` and the tables `[k2]`."""
    places: Mapping[str, Variant] = field(default_factory=lambda: MappingProxyType({}))
    """By instance, from the sections `# @ mlp_res` and the tables `[at.mlp_res]`."""
    ours: tuple[str, ...] = ()
    """`Class`, `Class.method` or `function` of our model to show."""
    hits: tuple[str, ...] = ()
    """Taps whose call is marked in our lines; the taps of the symbols where none is stated."""
    live: tuple[str, ...] = ()
    """Taps shown live; those of the outputs where none is stated."""
    figure: str = "heatmap"
    cost: str = ""
    """The table of costs that the page shows, or empty."""
    views: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        kinds = [self.kind, *(v.kind for v in self.changes if v.kind)]
        if unknown := [kind for kind in kinds if kind not in KINDS]:
            raise ValueError(f"kind {unknown[0]!r} is not one of {', '.join(KINDS)}")
        if self.figure not in FIGURES:
            raise ValueError(f"figure {self.figure!r} is not one of {', '.join(FIGURES)}")
        if self.lines:
            check_lines(self.lines)

    @property
    def changes(self) -> tuple[Variant, ...]:
        return (*self.variants.values(), *self.places.values())

    @property
    def taps(self) -> tuple[str, ...]:
        """Every tap that this node owns, for any model and at any place."""
        rows = (*self.symbols, *(s for v in self.changes for s in v.symbols))
        return tuple(dict.fromkeys(row.tap for row in rows if row.tap))

    def symbol(self, tex: str) -> Symbol | None:
        return next((symbol for symbol in self.symbols if symbol.tex == tex), None)


def for_model(node: Node, model: str) -> Node:
    """The node as `model` has it: a variant's fields replace the node's, its prose follows."""
    variant = node.variants.get(model)
    if variant is None:
        return node
    prose = "\n\n".join(text for text in (node.prose, variant.prose) if text)
    return _changed(node, replace(variant, prose=prose))


def notes(node: Node, model: str) -> dict[str, str]:
    """What the page of `model` says of the others: their sections, to be read with their values."""
    return {
        name: variant.prose
        for name, variant in node.variants.items()
        if name != model and variant.prose
    }


def for_place(node: Node, instance: str) -> Node:
    """The node as it stands at one instance, its title and prose included."""
    variant = node.places.get(instance)
    return _changed(node, variant) if variant else node


def page(node: Node, model: str, instance: str = "") -> Node:
    """The node as a page shows it: words of its place, evidence of its model where it has any."""
    placed = for_place(for_model(node, model), instance)
    variant = node.variants.get(model)
    if variant is None or not variant.sources:
        return placed
    return replace(placed, sources=variant.sources, lines=variant.lines)


def target(text: str) -> tuple[str, str]:
    """`family/node @ instance` in its two parts; the instance may be empty."""
    node, _, instance = (part.strip() for part in text.partition("@"))
    return node, instance


def tap_of(nodes: Mapping[str, Node], symbol: Symbol, instance: str = "") -> tuple[str, str] | None:
    """The tap that holds a symbol's values, and the instance to read it at.

    A symbol that points at a node stands for the tap or output of the same letter there, or for
    the first output. None where it stands for a parameter, a setting, or nothing that is tapped.
    """
    seen = set()
    while symbol.tap is None:
        if symbol.node is None or symbol.node in seen:
            return None
        seen.add(symbol.node)
        name, stated = target(symbol.node)
        node = for_place(nodes[name], stated)
        same = node.symbol(symbol.tex)
        if same is None or not (same.tap or same.tex in node.outputs):
            same = node.symbol(next(iter(node.outputs), ""))
        if same is None:
            return None
        symbol, instance = same, stated or instance
    return symbol.tap, instance


def _changed(node: Node, variant: Variant) -> Node:
    changed = {f.name: getattr(variant, f.name) for f in fields(variant) if f.name != "symbols"}
    new = replace(node, **{name: value for name, value in changed.items() if value})
    # letters of the old equation that the new one still has keep their meaning
    stated = {symbol.tex for symbol in variant.symbols}
    kept = [symbol for symbol in node.symbols if symbol.tex not in stated]
    if variant.equation:
        kept = [symbol for symbol in kept if occurrences(new.equation, symbol.tex)]
    return replace(new, symbols=(*variant.symbols, *kept))


def check_lines(lines: str) -> None:
    if not _LINES.fullmatch(lines):
        raise ValueError(f"lines {lines!r} must read like '442-444' or '127-135, 150'")
    ranges = line_ranges(lines)
    flat = [number for pair in ranges for number in pair]
    if flat != sorted(flat) or flat[0] < 1:
        raise ValueError(f"lines {lines!r} must ascend")


def line_ranges(lines: str) -> tuple[tuple[int, int], ...]:
    """`'127-135, 150'` as `((127, 135), (150, 150))`."""
    pairs = (part.strip().split("-") for part in lines.split(","))
    return tuple((int(pair[0]), int(pair[-1])) for pair in pairs)
