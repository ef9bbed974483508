"""A kernel's own lines, read from its files: what is shown of them, and where each term stands."""

import ast
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from annotations.kernel import Kernel, Term
from annotations.node import Symbol
from app.reader.excerpts import numbered
from model.catalog_source import ROOT, SourceFile, read

FOLDER = ROOT / "kernels"
JIT = "triton.jit"
MOST_LINES = 4
"""Lines that a term names; a name that is set again and again is marked in the source anyway."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Function:
    """One function of a kernel's files, or one that they import."""

    name: str
    path: str
    first: int
    last: int
    lines: tuple[str, ...]
    kind: str
    """`kernel` (launched), `part` (called by kernels), or `launcher`."""
    is_own: bool
    """Whether it stands in the kernel's files, and not in one that these import."""
    node: ast.FunctionDef


@dataclass(frozen=True, kw_only=True, slots=True)
class Stretch:
    """A function as HTML."""

    function: Function
    html: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Place:
    """A line of a shown function."""

    path: str
    line: int


def functions(kernel: Kernel) -> tuple[Function, ...]:
    """Kernels first, then what they are made of, then launchers, then what comes from elsewhere."""
    own = [f for name in kernel.files for f in _functions_of(_file(name), is_own=True)]
    known = {(f.path, f.name) for f in own}
    borrowed: list[Function] = []
    waiting = [_file(name) for name in kernel.files]
    while waiting:
        for module, name in _imports(waiting.pop(0)):
            for found in _functions_of(_file(module), is_own=False):
                is_new = (found.path, found.name) not in known
                if found.name == name and found.kind == "part" and is_new:
                    known.add((found.path, name))
                    borrowed.append(found)
                    waiting.append(_file(module))
    order = ("kernel", "part", "launcher")
    return (*sorted(own, key=lambda f: order.index(f.kind)), *borrowed)


def stretches(kernel: Kernel, symbols: Mapping[str, Symbol]) -> tuple[Stretch, ...]:
    """Every function with the terms of the equations marked; `symbols` are the model's, by TeX."""
    shown = []
    for function in functions(kernel):
        marked = identifiers(kernel, function, symbols)
        html = numbered([(function.first, function.lines)], function.path, marked, frozenset())
        shown.append(Stretch(function=function, html=html))
    return tuple(shown)


def identifiers(
    kernel: Kernel, function: Function, symbols: Mapping[str, Symbol]
) -> dict[str, Symbol]:
    """Names of a function that stand for a symbol; of two terms, the first that the model has."""
    found: dict[str, Symbol] = {}
    for term in kernel.terms:
        if term.tex in symbols:
            for name in _names_in(term, function):
                found.setdefault(name, symbols[term.tex])
    return found


def _names_in(term: Term, function: Function) -> list[str]:
    """Bare names hold in the kernel's own Triton functions, `function.name` in that one alone."""
    is_wide = function.is_own and function.kind != "launcher"
    names = []
    for stated in term.names:
        owner, _, name = stated.rpartition(".")
        if owner == function.name or (not owner and is_wide):
            names.append(name)
    return names


def places(kernel: Kernel, term: Term) -> tuple[Place, ...]:
    """Where a term is set, or where it is first used if it comes in from outside."""
    found: list[Place] = []
    for function in functions(kernel):
        names = set(_names_in(term, function))
        lines = _lines_setting(function.node, names) or _first_use(function.node, names)
        found += [Place(path=function.path, line=line) for line in lines]
    return tuple(found[:MOST_LINES])


def _lines_setting(node: ast.FunctionDef, names: set[str]) -> list[int]:
    set_here = [
        (inner.lineno, inner.col_offset)
        for inner in ast.walk(node)
        if isinstance(inner, ast.Name) and isinstance(inner.ctx, ast.Store) and inner.id in names
    ]
    return sorted({line for line, _ in set_here})


def _first_use(node: ast.FunctionDef, names: set[str]) -> list[int]:
    used = [
        inner.lineno
        for statement in node.body
        for inner in ast.walk(statement)
        if isinstance(inner, ast.Name) and inner.id in names
    ]
    return [min(used)] if used else []


def _file(name: str) -> SourceFile:
    return read(FOLDER / f"{name}.py")


def _functions_of(file: SourceFile, *, is_own: bool) -> Iterator[Function]:
    for found in _parsed(file.path, file.text):
        yield _as_function(found, file, is_own)


@lru_cache(maxsize=64)
def _parsed(path: str, text: str) -> tuple[ast.FunctionDef, ...]:
    return tuple(node for node in ast.parse(text).body if isinstance(node, ast.FunctionDef))


def _as_function(node: ast.FunctionDef, file: SourceFile, is_own: bool) -> Function:
    first, last = file.definitions[node.name]
    is_triton = any(ast.unparse(decorator) == JIT for decorator in node.decorator_list)
    launched = is_triton and node.name.endswith("_kernel")
    return Function(
        name=node.name,
        path=file.path,
        first=first,
        last=last,
        lines=tuple(file.lines[first - 1 : last]),
        kind="kernel" if launched else "part" if is_triton else "launcher",
        is_own=is_own,
        node=node,
    )


def _imports(file: SourceFile) -> Iterator[tuple[str, str]]:
    """Files of `kernels/` and the names that a file takes from them."""
    for node in ast.parse(file.text).body:
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("kernels."):
            module = (node.module or "").removeprefix("kernels.")
            if (FOLDER / Path(*module.split(".")).with_suffix(".py")).is_file():
                for alias in node.names:
                    yield module, alias.name


def unknown_names(kernel: Kernel) -> list[str]:
    """Names of terms that occur in none of the functions that they should: for the contract."""
    missing = []
    for term in kernel.terms:
        for stated in term.names:
            one = Term(tex=term.tex, names=(stated,))
            if not any(_occurs(one, function) for function in functions(kernel)):
                missing.append(stated)
    return missing


def _occurs(term: Term, function: Function) -> bool:
    names = set(_names_in(term, function))
    return any(
        (isinstance(node, ast.Name) and node.id in names)
        or (isinstance(node, ast.arg) and node.arg in names)
        for node in ast.walk(function.node)
    )
