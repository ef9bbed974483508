"""Our own source files, read as text: what they define, tap, call and assign."""

import ast
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
MODEL = ROOT / "model"

WHOLE_METHOD = 30
"""A method up to this long is shown whole; of a longer one, the lines around the tap."""
AROUND = 7


@dataclass(frozen=True, kw_only=True, slots=True)
class TapInfo:
    """One tap of a class, however many layers hold it."""

    cls: str
    attribute: str
    dims: tuple[str, ...]
    path: str
    """File relative to the repository."""
    line: int
    """Where it is declared."""
    calls: tuple[int, ...]
    """Lines of the statements that pass a tensor through it."""

    @property
    def name(self) -> str:
        return f"{self.cls}.{self.attribute}"


@dataclass(frozen=True, kw_only=True, slots=True)
class SourceLines:
    """Lines of ours, as they stand in the file at this moment."""

    path: str
    first_line: int
    lines: tuple[str, ...]
    hits: tuple[int, ...]
    """Numbers of the lines that the question was about."""
    name: str
    """The class, function or method they belong to."""


class SourceFile:
    """One source file, parsed when something in it is asked for."""

    def __init__(self, path: str, text: str) -> None:
        self.path = path
        self.text = text
        self.lines = self.text.splitlines()

    @cached_property
    def tree(self) -> ast.Module:
        return ast.parse(self.text)

    @cached_property
    def definitions(self) -> dict[str, tuple[int, int]]:
        """First and last line of every class, function and method."""
        return dict(_definitions(self.tree))

    @cached_property
    def constants(self) -> dict[str, Any]:
        return dict(_constants(self.tree.body))

    @cached_property
    def taps(self) -> tuple[TapInfo, ...]:
        if "Tap(" not in self.text:
            return ()
        classes = [node for node in self.tree.body if isinstance(node, ast.ClassDef)]
        return tuple(tap for node in classes for tap in _taps_of(node, self.path))

    def definition(self, name: str) -> SourceLines:
        first, last = self.definitions[name]
        return self.cut(name, first, last, ())

    def around(self, tap: TapInfo) -> SourceLines:
        name, (first, last) = min(
            (
                (name, span)
                for name, span in self.definitions.items()
                if span[0] <= tap.calls[0] <= span[1]
            ),
            key=lambda found: found[1][1] - found[1][0],
        )
        hits = tuple(line for line in tap.calls if first <= line <= last)
        if last - first >= WHOLE_METHOD:
            first, last = max(first, hits[0] - AROUND), min(last, hits[-1] + AROUND)
        return self.cut(name, first, last, hits)

    def cut(self, name: str, first: int, last: int, hits: tuple[int, ...]) -> SourceLines:
        lines = tuple(self.lines[first - 1 : last])
        return SourceLines(path=self.path, first_line=first, lines=lines, hits=hits, name=name)


def read(path: Path) -> SourceFile:
    return _parse(path, path.stat().st_mtime_ns)


@lru_cache(maxsize=128)
def _parse(path: Path, changed: int) -> SourceFile:
    return SourceFile(path.relative_to(ROOT).as_posix(), path.read_text())


def _definitions(tree: ast.Module) -> Iterator[tuple[str, tuple[int, int]]]:
    for node in tree.body:
        if not isinstance(node, ast.ClassDef | ast.FunctionDef):
            continue
        yield node.name, _span(node)
        for inner in node.body:
            if isinstance(node, ast.ClassDef) and isinstance(inner, ast.FunctionDef):
                yield f"{node.name}.{inner.name}", _span(inner)


def _constants(body: list[ast.stmt], owner: str = "") -> Iterator[tuple[str, Any]]:
    for node in body:
        match node:
            case ast.ClassDef(name=name, body=inner) if not owner:
                yield from _constants(inner, f"{name}.")
            case ast.Assign(targets=[ast.Name(id=name)], value=value):
                with suppress(ValueError):
                    yield f"{owner}{name}", ast.literal_eval(value)


def _span(node: ast.ClassDef | ast.FunctionDef) -> tuple[int, int]:
    first = min([node.lineno, *(decorator.lineno for decorator in node.decorator_list)])
    assert node.end_lineno is not None
    return first, node.end_lineno


def _taps_of(cls: ast.ClassDef, path: str) -> Iterator[TapInfo]:
    declared: dict[str, tuple[tuple[str, ...], int]] = {}
    for node in ast.walk(cls):
        match node:
            case ast.Assign(
                targets=[ast.Attribute(value=ast.Name(id="self"), attr=attribute)],
                value=ast.Call(func=ast.Name(id="Tap"), args=[ast.Constant(value=str(dims))]),
            ):
                declared[attribute] = tuple(dims.split()), node.lineno
    calls = _calls_of(cls)
    for attribute, (dims, line) in declared.items():
        yield TapInfo(
            cls=cls.name,
            attribute=attribute,
            dims=dims,
            path=path,
            line=line,
            calls=tuple(sorted(calls.get(attribute, ()))),
        )


def _calls_of(cls: ast.ClassDef) -> dict[str, set[int]]:
    """Lines of the innermost simple statements around each `self.attribute(…)`."""
    found: dict[str, set[int]] = {}
    for statement in ast.walk(cls):
        if not isinstance(statement, ast.Assign | ast.AnnAssign | ast.Expr | ast.Return):
            continue
        for node in ast.walk(statement):
            match node:
                case ast.Call(func=ast.Attribute(value=ast.Name(id="self"), attr=attribute)):
                    last = statement.end_lineno or statement.lineno
                    found.setdefault(attribute, set()).update(range(statement.lineno, last + 1))
    return found
