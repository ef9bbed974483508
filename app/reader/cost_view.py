"""The cost of a node at the context on screen: parameters, what it keeps, what it writes."""

from dataclasses import dataclass

from annotations.node import Node
from annotations.outline import Entry
from app.reader.context import Reading
from app.reader.numbers import Formula, formula
from model.cost import fact, kept, layer_total, module_parameters
from model.cost_kept import Kind
from model.cost_modules import LAYER, LM

EXPERTS = "block_sparse_moe.experts."


@dataclass(frozen=True, kw_only=True)
class KeptRow:
    """One form of what a layer keeps, as a row of the table and a line of the chart."""

    name: str
    short: str
    note: str
    stream: str
    dash: str
    per_position: int
    layers: int
    values: Formula
    bytes: Formula
    total_bytes: Formula
    how: str
    """The formula in words."""
    substituted: str


@dataclass(frozen=True, kw_only=True)
class Crossing:
    """Where a growing form first holds more than a KDA layer."""

    at: int
    stream: str
    value: float
    """Values kept there by one sequence."""
    means: str


@dataclass(frozen=True, kw_only=True)
class KeptView:
    rows: tuple[KeptRow, ...]
    crossings: tuple[Crossing, ...]


_FORMS: tuple[tuple[Kind, str, str, str, str, str, str], ...] = (
    ("expanded", "Expanded keys and values", "Expanded", "as released · bf16", "key", "", "mla"),
    ("latent", "Latent and shared key", "Latent", "same scores, absorbed decode · bf16", "latent",
     "7 3", "mla"),
    ("kda", "KDA memory", "KDA memory", "fixed size · state fp32, convolution bf16", "state",
     "2 2.5", "kda"),
)  # fmt: skip


def kept_view(reading: Reading) -> KeptView:
    """Every form in which a layer of this model can keep its past."""
    rows = tuple(
        _kept_row(reading, *form[:-1]) for form in _FORMS if form[-1] in reading.config.mixers
    )
    crossings = []
    for name, stream, label in (
        ("kv_exceeds_kda_from", "key", "expanded"),
        ("latent_exceeds_kda_from", "latent", "latent"),
    ):
        if "kda" not in reading.config.mixers or "mla" not in reading.config.mixers:
            continue
        at = int(fact(name, reading.config).value)
        state = int(fact("kda_state_values", reading.config).value)
        means = f"{label} cache holds more values than a KDA layer from here"
        crossings.append(Crossing(at=at, stream=stream, value=state, means=means))
    return KeptView(rows=rows, crossings=tuple(crossings))


def _kept_row(
    reading: Reading, kind: Kind, name: str, short: str, note: str, stream: str, dash: str
) -> KeptRow:
    config = reading.config
    values = formula(lambda b, p, ph: kept(config, kind, batch=b, positions=p).values.value)
    size = formula(lambda b, p, ph: kept(config, kind, batch=b, positions=p).bytes.value)
    total = formula(lambda b, p, ph: kept(config, kind, batch=b, positions=p).total_bytes.value)
    example = kept(config, kind)
    return KeptRow(
        name=name,
        short=short,
        note=note,
        stream=stream,
        dash=dash,
        per_position=int(values.decode[1]),
        layers=example.layers,
        values=values,
        bytes=size,
        total_bytes=total,
        how=f"{example.values.formula} values; {example.bytes.formula}",
        substituted=f"{example.values.substituted} values; {example.bytes.substituted} B",
    )


def parameter_paths(reading: Reading, entry: Entry, node: Node) -> dict[str, int]:
    """The node's own parameters at this place: path inside the layer or model, and count."""
    layer = reading.layer_of(entry)
    found: dict[str, int] = {}
    for symbol in node.symbols:
        cls, _, rest = (symbol.param or "").partition(".")
        owner = owner_path(reading, entry, cls) if rest else None
        if owner is None:
            continue
        path = f"{owner}.{rest}" if owner else rest
        try:
            found[path] = int(module_parameters(reading.config, path, layer).value)
        except LookupError:
            # a model may lack what another has: an output gate, a latent
            continue
    return found


def owner_path(reading: Reading, entry: Entry, cls: str) -> str | None:
    """Path of the module of a class nearest to where it is spoken of; None where there is none."""
    modules = reading.modules(entry)
    paths = [path for path, module in modules.items() if module.cls == cls]
    around = [path for path in paths if f"{entry.instance}.".startswith(f"{path}.")]
    chosen = max(around, key=len) if around else paths[0] if len(paths) == 1 else None
    return "" if chosen in (LAYER, LM) else chosen


def all_parameters(reading: Reading, entry: Entry) -> dict[str, int]:
    """Parameters of an entry and of everything below it, each counted once."""
    found = (
        parameter_paths(reading, entry, reading.node(entry)) if entry.node in reading.nodes else {}
    )
    for child in entry.children:
        if child.place == entry.place:
            found |= all_parameters(reading, child)
    return found


def parameter_count(reading: Reading, entry: Entry) -> int:
    """How many parameters stand at an entry: a whole module's where it opens one, else its own."""
    config = reading.config
    if entry.place == "all" and entry.children and not entry.instance:
        return sum(layer_total(config, i) for i in range(config.num_hidden_layers))
    layer = reading.layer_of(entry)
    if (entry.node, entry.instance) in reading.whole_modules and layer is not None:
        return int(module_parameters(config, entry.instance, layer).value)
    counts = all_parameters(reading, entry)
    if not entry.children and counts and all(path.startswith(EXPERTS) for path in counts):
        # experts lie stacked, and a page of one of them counts one
        return sum(counts.values()) // config.num_experts
    return sum(counts.values())
