"""Markdown files to nodes: facts between `+++` lines, one equation, then prose."""

import re
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import Any, TypeVar

from annotations.node import MODELS, Node, NodeError, Source, Symbol, Variant
from annotations.prose import links

HERE = Path(__file__).parent
NODES = HERE / "nodes"
T = TypeVar("T")
N = TypeVar("N", Node, Variant)
_FRONT = re.compile(r"\A\+\+\+\n(.*?)^\+\+\+\n?", re.DOTALL | re.MULTILINE)
_EQUATION = re.compile(r"\A\s*\$\$\n?(.*?)\n?\$\$", re.DOTALL)
_SECTION = re.compile(r"^# (.+)$", re.MULTILINE)
_LISTS = {
    "in": "inputs",
    "out": "outputs",
    "ours": "ours",
    "hits": "hits",
    "live": "live",
    "views": "views",
}


def load_nodes(folder: Path = NODES) -> dict[str, Node]:
    """Every node by its id, in the order of ids. All faults are raised together."""
    shared, faults = _shared_sources(folder)
    nodes: dict[str, Node] = {}
    for path in sorted(folder.rglob("*.md")):
        node_id = path.relative_to(folder).with_suffix("").as_posix()
        try:
            nodes[node_id] = parse(node_id, path.read_text(encoding="utf-8"), shared)
        except NodeError as error:
            faults.extend(error.faults)
    faults.extend(_dangling(nodes))
    if faults:
        raise NodeError(faults)
    return nodes


def parse(node_id: str, text: str, shared: Mapping[str, Source] | None = None) -> Node:
    """One file as a node; `shared` holds the sources that a node may cite by id."""
    faults: list[str] = []
    if unprintable := {c for c in text if not c.isprintable() and c != "\n"}:
        faults.append(f"control characters {sorted(unprintable)}; write LaTeX in single quotes")
    front = _FRONT.match(text)
    if front is None:
        raise _gathered(node_id, [*faults, "the file must begin with facts between two +++ lines"])
    try:
        facts = tomllib.loads(front[1])
    except tomllib.TOMLDecodeError as error:
        raise _gathered(node_id, [*faults, f"the facts are no TOML: {error}"]) from error
    if garbled := sorted(_garbled(facts)):
        faults.append(f"control characters in {', '.join(garbled)}; use single quotes for LaTeX")
    node = _node(node_id, facts, text[front.end() :], shared or {}, faults)
    if faults or node is None:
        raise _gathered(node_id, faults)
    return node


def _node(
    node_id: str,
    facts: dict[str, Any],
    body: str,
    shared: Mapping[str, Source],
    faults: list[str],
) -> Node | None:
    common, sections = _sections(body, faults)
    models = {model: facts.pop(model, {}) for model in MODELS}
    places = {f"@ {place}": table for place, table in facts.pop("at", {}).items()}
    changes = {
        name: _variant(stated, sections.get(name, ""), shared, faults)
        for name, stated in {**{name: {} for name in sections}, **models, **places}.items()
        if stated or name in sections
    }
    values = _values(facts, shared, faults)
    values["equation"], values["prose"] = _equation(common)
    built = {name: change for name, change in changes.items() if change is not None}
    values["variants"] = MappingProxyType({m: built[m] for m in MODELS if m in built})
    values["places"] = MappingProxyType(
        {name[2:]: change for name, change in built.items() if name.startswith("@ ")}
    )
    return _built(lambda: _with_lines(Node(id=node_id, **values)), faults)


def _variant(
    facts: Mapping[str, Any], section: str, shared: Mapping[str, Source], faults: list[str]
) -> Variant | None:
    values = _values(facts, shared, faults)
    values["equation"], values["prose"] = _equation(section)
    return _built(lambda: _with_lines(Variant(**values)), faults)


def _with_lines(stated: N) -> N:
    """Lines that are not stated are those of the first direct source."""
    direct = [source.lines for source in stated.sources if source.grade == "direct"]
    return replace(stated, lines=stated.lines or (direct[0] if direct else ""))


def _values(
    facts: Mapping[str, Any], shared: Mapping[str, Source], faults: list[str]
) -> dict[str, Any]:
    """The keyword arguments that a table of facts states. Unknown keys pass, and fail there."""
    values = dict(facts)
    for key, name in _LISTS.items():
        if key in values:
            values[name] = _strings(key, values.pop(key), faults)
    symbols = [_built(lambda row=row: Symbol(**row), faults) for row in values.pop("symbol", [])]
    sources = [_built(lambda row=row: _source(row), faults) for row in values.pop("source", [])]
    for cited in values.pop("cite", []):
        if cited not in shared:
            faults.append(f"cites {cited!r}, which sources.toml does not hold")
        sources.append(shared.get(cited))
    values["symbols"] = tuple(symbol for symbol in symbols if symbol is not None)
    values["sources"] = tuple(source for source in sources if source is not None)
    return values


def _strings(key: str, value: object, faults: list[str]) -> tuple[str, ...]:
    if isinstance(value, list) and all(isinstance(item, str) for item in value):
        return tuple(value)
    faults.append(f"{key} must be a list of strings, not {value!r}")
    return ()


def _source(row: Mapping[str, Any]) -> Source:
    return Source(**{**row, "names": tuple(row.get("names", ()))})


def _built(build: Callable[[], T], faults: list[str]) -> T | None:
    try:
        return build()
    except (TypeError, ValueError) as error:
        message = str(error).replace("__init__() got an unexpected keyword argument", "has no key")
        faults.append(message)
        return None


def _sections(body: str, faults: list[str]) -> tuple[str, dict[str, str]]:
    """What stands before the first heading, and the section of each model or `@ place`."""
    parts = _SECTION.split(body)
    sections = dict(zip(parts[1::2], parts[2::2], strict=True))
    for name in sections.keys() - set(MODELS):
        if not name.startswith("@ "):
            faults.append(f"section {name!r} is neither a place nor one of {', '.join(MODELS)}")
    if len(sections) < len(parts) // 2:
        faults.append("two sections have the same heading")
    return parts[0], sections


def _equation(section: str) -> tuple[str, str]:
    found = _EQUATION.match(section)
    if found is None:
        return "", section.strip()
    return found[1].strip(), section[found.end() :].strip()


def _garbled(value: object, name: str = "") -> set[str]:
    """The keys whose strings hold a character that TOML made of a backslash."""
    if isinstance(value, str):
        return {name} if any(not c.isprintable() and c != "\n" for c in value) else set()
    if isinstance(value, Mapping):
        return {found for key, item in value.items() for found in _garbled(item, str(key))}
    if isinstance(value, list):
        return {found for item in value for found in _garbled(item, name)}
    return set()


def _shared_sources(folder: Path) -> tuple[dict[str, Source], list[str]]:
    path, faults = folder.parent / "sources.toml", []
    if not path.exists():
        return {}, faults
    rows = tomllib.loads(path.read_text(encoding="utf-8"))
    built = {
        name: _built(lambda name=name, row=row: _source({"id": name, **row}), faults)
        for name, row in rows.items()
    }
    return {k: v for k, v in built.items() if v is not None}, [f"sources.toml: {f}" for f in faults]


def texts(node: Node) -> list[str]:
    """Every sentence of ours in a node, those of its models included."""
    found = [node.title, node.lede, node.prose, node.remark, node.look]
    found += [symbol.means for symbol in node.symbols]
    found += [source.claim for source in node.sources]
    for variant in node.changes:
        found += [variant.title, variant.lede, variant.prose, variant.remark, variant.look]
        found += [symbol.means for symbol in variant.symbols]
        found += [source.claim for source in variant.sources]
    return [text for text in found if text]


def _dangling(nodes: Mapping[str, Node]) -> list[str]:
    faults = []
    for node in nodes.values():
        wanted = {found.node for text in texts(node) for found in links(text)}
        faults += [
            f"{node.id}.md: links to {target!r}, and no such node exists"
            for target in sorted(wanted - nodes.keys())
        ]
    return faults


def _gathered(node_id: str, faults: list[str]) -> NodeError:
    return NodeError([f"{node_id}.md: {fault}" for fault in faults])
