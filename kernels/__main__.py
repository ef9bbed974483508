"""`python -m kernels compile|bench`: what the kernels use of GPUs, and their speed on one."""

import argparse
import os
import runpy
import sys
from pathlib import Path

BENCH = Path(__file__).parents[1] / "tests" / "bench" / "gpu.py"


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m kernels", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    compiling = commands.add_parser("compile", help="compile for every target; needs no GPU")
    compiling.add_argument("kernels", nargs="*", help="only these; no report is written")
    compiling.add_argument("--to", type=Path, help="the report's file, if not the committed one")
    timing = commands.add_parser("bench", help="compare and time on this machine's GPU")
    timing.add_argument("--to", type=Path, help="the JSON file; a page is written beside it")
    asked = parser.parse_args()
    # read by Triton when it is imported
    os.environ.pop("TRITON_INTERPRET", None)
    return compile_all(asked.kernels, asked.to) if asked.command == "compile" else bench(asked.to)


def compile_all(kernels: list[str], to: Path | None) -> int:
    import triton

    from kernels.cases.registry import CASES
    from kernels.compile_report import compiled_rows, in_words, report_of, write

    known = {case.kernel for case in CASES}
    if unknown := sorted(set(kernels) - known):
        print(f"No kernel is called {', '.join(unknown)}; there are {', '.join(sorted(known))}.")
        return 2
    rows = []
    for row in compiled_rows(case for case in CASES if not kernels or case.kernel in kernels):
        print(in_words(row), flush=True)
        rows.append(row)
    if not kernels:
        path = to or report_of(triton.__version__)
        write(rows, path)
        print(f"Written to {path}.")
    return 0


def bench(to: Path | None) -> int:
    """Run by path: what kernels are compared with knows the model, which kernels do not."""
    return runpy.run_path(str(BENCH))["main"](to)


if __name__ == "__main__":
    sys.exit(main())
