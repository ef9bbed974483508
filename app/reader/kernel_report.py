"""What compilers made of a kernel, from the committed reports; compiled without a GPU."""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

from annotations.gpu import gpus
from app.reader.kernel_source import FOLDER

RESULTS = FOLDER / "results"
_RELEASE = re.compile(r"compile-triton-(\d+(?:\.\d+)*)\.json")
PRODUCTS = ("matrix products, warpgroup", "matrix products, warp")


@dataclass(frozen=True, kw_only=True, slots=True)
class Row:
    """One function compiled for one target and dtype."""

    function: str
    target: str
    gpus: str
    """Names of the GPUs that this target is of."""
    dtype: str
    programs: int
    warps: int
    registers: int
    shared: int
    limit: int
    """Bytes of shared memory that a program may have there."""
    spilled: int
    instructions: Mapping[str, int]

    @property
    def products(self) -> str:
        """How matrix products are made there, or that there are none."""
        found = [f"{self.instructions[name]} {name}" for name in PRODUCTS if self._has(name)]
        return ", ".join(found) or "none"

    @property
    def others(self) -> list[tuple[str, int]]:
        left_out = ("all", *PRODUCTS)
        return [(name, n) for name, n in self.instructions.items() if name not in left_out]

    def _has(self, name: str) -> bool:
        return self.instructions.get(name, 0) > 0


@dataclass(frozen=True, kw_only=True, slots=True)
class Compiled:
    """One kernel in one release of Triton: its rows, case by case."""

    triton: str
    cases: tuple[tuple[str, tuple[Row, ...]], ...]
    """The sizes in words, and what was compiled for them."""


def compiled(kernel: str) -> tuple[Compiled, ...]:
    """Of each release, the one that kernels are developed with first."""
    return tuple(
        Compiled(triton=release, cases=_cases(kernel, report["rows"]))
        for release, report in reports().items()
    )


@cache
def reports() -> Mapping[str, dict[str, Any]]:
    """By release of Triton, oldest first."""
    found = {}
    for path in RESULTS.iterdir():
        if match := _RELEASE.fullmatch(path.name):
            found[match[1]] = json.loads(path.read_text(encoding="utf-8"))
    return dict(sorted(found.items(), key=lambda item: [*map(int, item[0].split("."))]))


def _cases(kernel: str, rows: list[dict[str, Any]]) -> tuple[tuple[str, tuple[Row, ...]], ...]:
    found: dict[str, list[Row]] = {}
    for row in rows:
        name, _, sizes = row["case"].partition(", ")
        if name == kernel:
            found.setdefault(sizes, []).append(_row(row))
    return tuple((sizes, tuple(made)) for sizes, made in found.items())


def _row(row: dict[str, Any]) -> Row:
    used, here = row["used"], [gpu for gpu in gpus() if gpu.target == row["target"]]
    return Row(
        function=row["function"],
        target=row["target"],
        gpus=", ".join(gpu.name for gpu in here),
        dtype=row["dtype"],
        programs=row["programs"],
        warps=row["warps"],
        registers=used["registers"],
        shared=used["shared"],
        limit=min(gpu.shared for gpu in here),
        spilled=used["spilled"],
        instructions=used["instructions"],
    )
