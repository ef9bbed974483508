"""Times that were measured on GPUs, from the committed results; none of them is a bound."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from app.reader.kernel_report import RESULTS


@dataclass(frozen=True, kw_only=True, slots=True)
class Timed:
    """One case of a kernel on one GPU."""

    device: str
    sizes: str
    dtype: str
    seconds: float
    torch_seconds: float | None
    share_of_copy: float | None
    """Of the bytes a second that a copy reaches there."""


def timed(kernel: str, folder: Path = RESULTS) -> tuple[Timed, ...]:
    """Every measured case of a kernel, file by file; empty where nothing was timed."""
    found = []
    for path in sorted(folder.glob("bench-*.json")):
        report = json.loads(path.read_text(encoding="utf-8"))
        found += [_timed(report["device"], row) for row in report["rows"] if _is_of(kernel, row)]
    return tuple(found)


def _is_of(kernel: str, row: Mapping[str, Any]) -> bool:
    return row["case"].partition(", ")[0] == kernel and row["seconds"] is not None


def _timed(device: str, row: Mapping[str, Any]) -> Timed:
    return Timed(
        device=device,
        sizes=row["case"].partition(", ")[2],
        dtype=row["dtype"],
        seconds=row["seconds"],
        torch_seconds=row["torch_seconds"],
        share_of_copy=row["share_of_copy"],
    )
