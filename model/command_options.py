"""What the commands of `python -m model` have in common: their options, and how they print."""

import argparse
import math
import re
from collections.abc import Iterable
from dataclasses import asdict, is_dataclass
from typing import Any

from model.presets import PRESETS

UNITS = {
    "": 1,
    **{f"{letter}B": 1000**i for i, letter in enumerate(("", "k", "M", "G"))},
    **{f"{letter}iB": 1024**i for i, letter in enumerate(("", "K", "M", "G"))},
}
SOURCE = f"{', '.join(PRESETS)}, a folder with config.json, or a Hub id org/name"


def add_source(part: argparse.ArgumentParser) -> None:
    part.add_argument("source", metavar="SOURCE", help=SOURCE)
    part.add_argument(
        "--revision", metavar="NAME", help="branch, tag or commit of a Hub id; default the newest"
    )
    part.add_argument("--json", action="store_true", help="one JSON object instead of a table")


def add_bound(part: argparse.ArgumentParser, default: int) -> None:
    part.add_argument(
        "--bound",
        type=byte_count,
        default=default,
        metavar="BYTES",
        help="most bytes to read or transfer, as 200kB or 1.5GiB; default "
        f"{default // 2**20} MiB. Nothing is read that would go beyond",
    )


def byte_count(text: str) -> int:
    """A number of bytes, with or without a unit."""
    found = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([kKMG]?i?B|)", text)
    if found is None or found[2] not in UNITS:
        raise argparse.ArgumentTypeError(
            f"{text!r} is no number of bytes; write 5000, 200kB, 64MiB or 1.5GB"
        )
    return int(float(found[1]) * UNITS[found[2]])


def span(text: str) -> tuple[int, int]:
    """`A:B`, from A to before B."""
    found = re.fullmatch(r"(\d+):(\d+)", text)
    if found is None or not int(found[1]) < int(found[2]):
        raise argparse.ArgumentTypeError(f"{text!r} is no range; write A:B, from A to before B")
    return int(found[1]), int(found[2])


def plain(value: Any) -> Any:
    """Dataclasses and arrays as JSON has them; what is no number there becomes a word."""
    if is_dataclass(value) and not isinstance(value, type):
        return plain(asdict(value))
    if isinstance(value, dict):
        return {key: plain(held) for key, held in value.items()}
    if tolist := getattr(value, "tolist", None):
        return plain(tolist())
    if isinstance(value, list | tuple):
        return [plain(held) for held in value]
    if isinstance(value, float) and not math.isfinite(value):
        return {True: "NaN", value > 0: "Infinity", value < 0: "-Infinity"}[True]
    return value


def flat(table: dict[str, Any], prefix: str = "") -> list[tuple[str, int | str]]:
    """Rows of a nested table, with dotted keys; empty ones are left out."""
    rows: list[tuple[str, int | str]] = []
    for key, value in table.items():
        if isinstance(value, dict):
            rows += flat(value, f"{prefix}{key}.")
        elif value not in ([], None):
            rows.append((prefix + key, ", ".join(value) if isinstance(value, list) else value))
    return rows


def print_rows(rows: Iterable[tuple[str, int | str]]) -> None:
    for key, value in rows:
        print(f"{key:46} {value:>24,}" if isinstance(value, int) else f"{key:46} {value:>24}")
