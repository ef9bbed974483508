"""`python -m annotations fetch|check [--folder DIR]`: bring the pinned files here, compare them."""

import argparse
import sys
from collections.abc import Mapping
from pathlib import Path

from annotations.fetch import check, fetch, wanted
from annotations.loader import load_nodes
from annotations.node import Node
from annotations.pins import pins


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m annotations", description=__doc__)
    parser.add_argument("command", choices=["fetch", "check"])
    parser.add_argument("--folder", type=Path, help="a folder with <pin>/<path> instead of caches")
    chosen = parser.parse_args(arguments)
    nodes = load_nodes()
    faults = _fetch(nodes, chosen.folder) if chosen.command == "fetch" else []
    faults += check(nodes, chosen.folder)
    for fault in dict.fromkeys(faults):
        print(fault, file=sys.stderr)
    if not faults:
        print("Every cited line is here and is what its source says.")
    return 1 if faults else 0


def _fetch(nodes: Mapping[str, Node], folder: Path | None) -> list[str]:
    results = fetch(wanted(nodes), folder)
    for result in results:
        pin = pins()[result.pin]
        print(
            f"{'failed' if result.fault else 'here':<7} {pin.repo}@{pin.commit[:12]} {result.path}"
        )
    return [result.fault for result in results if result.fault]


if __name__ == "__main__":
    sys.exit(main())
