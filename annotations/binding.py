"""Nodes against model, facts, outlines and pins: what disagrees, one sentence each."""

import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field

from annotations.loader import texts
from annotations.node import MODELS, Node, Symbol, for_model, for_place, target
from annotations.outline import Entry
from annotations.prose import braces_left, links, maths, placeholders, plain
from annotations.tex import occurrences

_NAMES = re.compile(
    r"\bK[23]\b|\b(?:float|bfloat|int|uint)\d+\b|\b(?:MX)?FP\d\b|\bL2\b|\b[A-Za-z]+_[A-Za-z0-9_]*\d\w*"
)
"""Words with digits that are names: models, dtypes, identifiers."""
_INDEX = re.compile(r"[_^](?:\{[^{}]*\}|\\?\w+)|\\mathcal|\\frac\{1\}")


@dataclass(frozen=True, kw_only=True)
class World:
    """What nodes may point at, as plain names."""

    taps: Collection[str]
    """`Class.attribute`"""
    parameters: Collection[str]
    """`Class.path.to.weight`"""
    settings: Collection[str]
    """Fields of the configuration, `linear_attn_config.head_dim` for an inner one."""
    facts: Mapping[str, Collection[str]]
    """By model, the names that have a value there."""
    code: Collection[str]
    """`Class`, `Class.method` and functions of our model."""
    outlines: Mapping[str, tuple[Entry, ...]]
    """By model, every entry in reading order."""
    places: Mapping[str, Mapping[str, Collection[str]]] = field(default_factory=dict)
    """By model, the classes at every module path; the empty path is the layer and the model."""
    pins: Collection[str] = ()
    moved: Mapping[str, str] = field(default_factory=dict)
    exceptions: Mapping[str, str] = field(default_factory=dict)
    """Digits in prose that may be typed, with the reason, by `node: text`."""
    unannotated: Mapping[str, str] = field(default_factory=dict)
    """Taps that deserve no node, with the reason."""


def problems(nodes: Mapping[str, Node], world: World) -> list[str]:
    """Every way in which nodes and world disagree; empty when they agree."""
    found = [*_taps(nodes, world), *_outlines(nodes, world), *_moved(nodes, world)]
    for node in nodes.values():
        found += [f"{node.id}.md: {fault}" for fault in _node(node, nodes, world)]
    return list(dict.fromkeys(found))


def _taps(nodes: Mapping[str, Node], world: World) -> Iterator[str]:
    owners: dict[str, list[str]] = {}
    for node in nodes.values():
        for tap in node.taps:
            owners.setdefault(tap, []).append(node.id)
    for tap in sorted(world.taps):
        on = owners.get(tap, [])
        if tap in world.unannotated:
            if on:
                yield f"tap {tap} is listed as unannotated and is on {on[0]}"
        elif len(on) != 1:
            yield f"tap {tap} is on {'no node' if not on else 'several nodes: ' + ', '.join(on)}"


def _outlines(nodes: Mapping[str, Node], world: World) -> Iterator[str]:
    listed = {entry.node for entries in world.outlines.values() for entry in entries}
    for node in sorted(nodes.keys() - listed):
        yield f"{node}.md: no outline lists it"
    for model, entries in world.outlines.items():
        for entry in entries:
            if entry.node not in nodes:
                yield f"outline {model}: there is no node {entry.node}"
            elif model in world.places:
                yield from _place(model, entry, nodes[entry.node], world.places[model])
        present = {entry.instance for entry in entries}
        for path in sorted(world.places.get(model, {}).keys() - present):
            yield f"outline {model}: no entry stands at {path or 'the model itself'}"


def _place(
    model: str, entry: Entry, node: Node, places: Mapping[str, Collection[str]]
) -> Iterator[str]:
    where = f"outline {model}: {entry.node} @ {entry.instance or '/'}"
    if entry.instance not in places:
        yield f"{where}: the model has no module there"
        return
    own = [s.tap.split(".")[0] for s in for_model(node, model).symbols if s.tap]
    here = places[entry.instance]
    yield from (f"{where}: {cls} is not there" for cls in dict.fromkeys(own) if cls not in here)


def _moved(nodes: Mapping[str, Node], world: World) -> Iterator[str]:
    for old, new in world.moved.items():
        if old in nodes:
            yield f"moved.toml: {old} still exists"
        if target(new)[0] not in nodes:
            yield f"moved.toml: {old} moved to {new}, which does not exist"


def _node(node: Node, nodes: Mapping[str, Node], world: World) -> Iterator[str]:
    yield from _forms(node, world)
    for symbol in (*node.symbols, *(s for change in node.changes for s in change.symbols)):
        yield from _target(symbol, nodes, world)
    yield from (f"live: the model has no tap {tap}" for tap in node.live if tap not in world.taps)
    yield from (f"hits: the model has no tap {tap}" for tap in node.hits if tap not in world.taps)
    yield from (f"ours: the model has no {name}" for name in node.ours if name not in world.code)
    for sources in (node.sources, *(change.sources for change in node.changes)):
        yield from (
            f"source {s.id!r}: there is no pin {s.pin!r}"
            for s in sources
            if s.pin not in world.pins
        )
    for text in texts(node):
        for link in links(text):
            if link.instance and not _stands(link.node, link.instance, world):
                yield f"links to {link.node} @ {link.instance}, which is in no outline"
        if left := braces_left(text):
            yield f"{left[0]!r} is neither a placeholder nor a link"
        yield from _numbers(node, text, world)
    yield from _facts(node, world)
    for model, entries in world.outlines.items():
        if any(entry.node == node.id for entry in entries):
            present = {entry.node for entry in entries}
            yield from _elsewhere(for_model(node, model), model, present)


def _elsewhere(form: Node, model: str, present: Collection[str]) -> Iterator[str]:
    """What a page of one model takes from a model it is not about."""
    for symbol in form.symbols:
        if symbol.node and target(symbol.node)[0] not in present:
            yield f"symbol {symbol.tex!r} points at {symbol.node}, which {model} has not"
    for text in (form.lede, form.prose, form.remark, form.look):
        for link in links(text):
            if link.node not in present:
                yield f"links to {link.node}, which {model} has not"
    if not any(source.pin == model or source.pin not in MODELS for source in form.sources):
        yield f"no source is about {model}"


def _forms(node: Node, world: World) -> Iterator[str]:
    """The node as each model and each place has it: letters in equations, ins and outs bound."""
    models = [m for m, entries in world.outlines.items() if any(e.node == node.id for e in entries)]
    forms = {"": node}
    forms |= {f" ({model})": for_model(node, model) for model in models}
    forms |= {f" (@ {place})": for_place(node, place) for place in node.places}
    for where, form in forms.items():
        if not form.equation:
            continue
        for symbol in form.symbols:
            if not occurrences(form.equation, symbol.tex):
                yield f"symbol {symbol.tex!r}{where} is not in the equation"
        bound = {symbol.tex for symbol in form.symbols}
        for tex in (*form.inputs, *form.outputs):
            if tex not in bound:
                yield f"{tex!r}{where} is an input or output and no symbol"


def _target(symbol: Symbol, nodes: Mapping[str, Node], world: World) -> Iterator[str]:
    known = (
        ("tap", symbol.tap, world.taps),
        ("parameter", symbol.param, world.parameters),
        ("setting", symbol.config, world.settings),
    )
    for kind, name, names in known:
        if name is not None and name not in names:
            yield f"symbol {symbol.tex!r}: the model has no {kind} {name}"
    if symbol.node is not None:
        node, instance = target(symbol.node)
        if node not in nodes:
            yield f"symbol {symbol.tex!r}: there is no node {node}"
        elif instance and not _stands(node, instance, world):
            yield f"symbol {symbol.tex!r}: {node} @ {instance} is in no outline"


def _stands(node: str, instance: str, world: World) -> bool:
    entries = (entry for entries in world.outlines.values() for entry in entries)
    return any(entry.node == node and entry.instance == instance for entry in entries)


def _facts(node: Node, world: World) -> Iterator[str]:
    """Every placeholder has a value in every model that would show it."""
    for model, entries in world.outlines.items():
        if not any(entry.node == node.id for entry in entries):
            continue
        form = for_model(node, model)
        shown = [form.title, form.lede, form.prose, form.remark, form.look]
        shown += [source.claim for source in form.sources]
        for place in form.places:
            if any(e.node == node.id and e.instance == place for e in entries):
                own = form.places[place]
                shown += [own.title, own.lede, own.prose, own.remark, own.look]
        yield from _unknown(shown, model, world)
    for model, variant in node.variants.items():
        yield from _unknown([variant.prose], model, world)


def _unknown(shown: list[str], model: str, world: World) -> Iterator[str]:
    for text in shown:
        for found in placeholders(text):
            of = found.model or model
            if of in world.facts and found.name not in world.facts[of]:
                yield f"{{{found.name}}} is no fact of {of}"


def _numbers(node: Node, text: str, world: World) -> Iterator[str]:
    """Digits that a sentence types instead of naming a fact."""
    for number in typed_numbers(text):
        if f"{node.id}: {number}" not in world.exceptions:
            yield f"the number {number} is typed in {text[:40]!r}…; name a fact, or list it"


def typed_numbers(text: str) -> list[str]:
    """Digits that stand in a sentence itself, names, dtypes and indices apart."""
    words = _NAMES.sub(" ", plain(text))
    typed = re.findall(r"\d[\d.,]*", words)
    typed += [d for tex in maths(text) for d in re.findall(r"\d+", _INDEX.sub(" ", tex))]
    return [number.rstrip(".,") for number in typed]
