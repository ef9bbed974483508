"""Kernels as pages: which nodes each serves, what its names stand for, how it cuts its work."""

import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Literal, get_args

from annotations.node import NodeError

HERE = Path(__file__).parent
KERNELS = HERE / "kernels"
ROLES = ("in", "out", "kept")
Phase = Literal["", "prefill", "decode"]
_FRONT = re.compile(r"\A\+\+\+\n(.*?)^\+\+\+\n", re.DOTALL | re.MULTILINE)


@dataclass(frozen=True, kw_only=True, slots=True)
class Term:
    """One letter of the nodes' equations, and what the kernel calls it."""

    tex: str
    """A symbol of one of the nodes, in at least one model."""
    names: tuple[str, ...]
    """Identifiers of the kernel's files; `function.name` where others use the name otherwise."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Operand:
    """One tensor of a launch, and the part of it that one program holds."""

    of: str
    """The parameter of the Triton function."""
    role: str
    """`in`, `out`, or `kept` in registers from the first step of the loop to the last."""
    axes: tuple[str, ...]
    """`word / BLOCK` for each axis of the tensor: what it counts, and how much a program holds."""
    tex: str = ""

    def __post_init__(self) -> None:
        if self.role not in ROLES:
            raise ValueError(f"operand {self.of} has the role {self.role!r}, not one of {ROLES}")
        if odd := [axis for axis in self.axes if axis.count(" / ") != 1]:
            raise ValueError(f"operand {self.of} has the axis {odd[0]!r}, not 'word / BLOCK'")


@dataclass(frozen=True, kw_only=True, slots=True)
class Tile:
    """What one program of one Triton function holds, at the sizes of one case."""

    function: str
    case: str
    """The sizes of a case of `kernels/cases`, in its words."""
    says: str
    operands: tuple[Operand, ...]
    loops: tuple[str, ...] = ()
    """Words of the axes along which a program walks."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Kernel:
    """One page. Its id is the name of its file, and that of its cases."""

    id: str
    title: str
    lede: str
    files: tuple[str, ...]
    """Of `kernels/`, without `.py`; what these import is found in the source."""
    nodes: tuple[str, ...]
    """Nodes that it computes, the one it is about first."""
    call: str
    """What is counted as one call."""
    terms: tuple[Term, ...]
    tiles: tuple[Tile, ...]
    prose: str
    phase: Phase = ""
    """The only phase in which it runs, or empty for both."""

    def __post_init__(self) -> None:
        if self.phase not in get_args(Phase):
            raise ValueError(f"phase {self.phase!r} is not one of {get_args(Phase)}")


@cache
def load_kernels(folder: Path = KERNELS) -> Mapping[str, Kernel]:
    """Every kernel by its id. All faults are raised together, as a `NodeError`."""
    kernels, faults = {}, []
    for path in sorted(folder.glob("*.md")):
        try:
            kernels[path.stem] = parse(path.stem, path.read_text(encoding="utf-8"))
        except ValueError as error:
            faults.append(f"kernels/{path.name}: {error}")
    if faults:
        raise NodeError(faults)
    return kernels


def parse(name: str, text: str) -> Kernel:
    """One file as a kernel; ValueError says what is wrong with it."""
    front = _FRONT.match(text)
    if front is None:
        raise ValueError("the file must begin with facts between two +++ lines")
    facts = tomllib.loads(front[1])
    try:
        return _built(name, facts, text[front.end() :].strip())
    except TypeError as error:
        # a key that is missing, or that nothing here knows
        raise ValueError(str(error)) from error


def _built(name: str, facts: dict[str, Any], prose: str) -> Kernel:
    terms = [Term(**_with_tuples(row, "names")) for row in facts.pop("term", [])]
    tiles = [_tile(row) for row in facts.pop("tile", [])]
    return Kernel(
        id=name,
        prose=prose,
        terms=tuple(terms),
        tiles=tuple(tiles),
        **_with_tuples(facts, "files", "nodes"),
    )


def serving(node: str) -> tuple[Kernel, ...]:
    """The kernels that compute a node, those that are about it first."""
    found = [kernel for kernel in load_kernels().values() if node in kernel.nodes]
    return tuple(sorted(found, key=lambda kernel: kernel.nodes.index(node)))


def _tile(row: Mapping[str, Any]) -> Tile:
    facts = _with_tuples(row, "loops")
    operands = [Operand(**_with_tuples(one, "axes")) for one in facts.pop("operand", [])]
    return Tile(operands=tuple(operands), **facts)


def _with_tuples(row: Mapping[str, Any], *keys: str) -> dict[str, Any]:
    return {key: tuple(value) if key in keys else value for key, value in row.items()}
