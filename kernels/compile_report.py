"""Compiles every case for every target, and says what each compiled kernel uses."""

import ast
import hashlib
import json
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

import torch
import triton

from kernels.absent_gpu import compiled_launches
from kernels.cases.case import Case, Draw
from kernels.disassembly import Usage, usage
from kernels.targets import TARGETS

FOLDER = Path(__file__).parent
RESULTS = FOLDER / "results"
DTYPES = {"bfloat16": torch.bfloat16, "float32": torch.float32}


@dataclass(frozen=True, kw_only=True)
class Row:
    case: str
    dtype: str
    target: str
    function: str
    """The Triton function, of which a case may start several."""
    programs: int
    warps: int
    used: Usage

    @property
    def key(self) -> str:
        return f"{self.case} | {self.dtype} | {self.target} | {self.function}"


def compiled_rows(cases: Iterable[Case]) -> Iterator[Row]:
    """A row for each function that each case would start."""
    for case, (target, dtype) in ((c, pair) for c in cases for pair in c.compiled_for):
        draw = Draw(torch.device("meta"), DTYPES[dtype])
        for launch in compiled_launches(TARGETS[target].gpu, lambda c=case, d=draw: c.call(d)):
            yield Row(
                case=case.name,
                dtype=dtype,
                target=target,
                function=launch.function,
                programs=launch.programs,
                warps=launch.compiled.metadata.num_warps,
                used=usage(launch.compiled),
            )


def in_words(row: Row) -> str:
    used = row.used
    kinds = ", ".join(f"{n} {kind}" for kind, n in used.instructions.items() if kind != "all")
    return (
        f"{row.case} · {row.dtype} · {row.target} · {row.function}: {row.programs} programs of "
        f"{row.warps} warps, {used.registers} registers, {used.shared} bytes shared, "
        f"{used.spilled} bytes spilled, {used.instructions['all']} instructions ({kinds})"
    )


def report_of(version: str) -> Path:
    """Where the committed report of a Triton release lies."""
    return RESULTS / f"compile-triton-{version}.json"


def write(rows: Iterable[Row], path: Path) -> None:
    text = {
        "triton": triton.__version__,
        "sources": sources(),
        "rows": [asdict(row) for row in rows],
    }
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps(text, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


def sources() -> dict[str, str]:
    """A digest of the code of each file with Triton functions, whatever its comments are."""
    return {path.stem: _digest(path) for path in sorted(FOLDER.glob("*.py")) if _is_triton(path)}


def _is_triton(path: Path) -> bool:
    return "@triton.jit" in path.read_text(encoding="utf-8").splitlines()


def _digest(path: Path) -> str:
    code = ast.unparse(ast.parse(path.read_text(encoding="utf-8")))
    return hashlib.sha256(code.encode()).hexdigest()[:16]
