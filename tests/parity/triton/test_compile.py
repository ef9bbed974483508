"""Every kernel compiles for every target without a GPU, and stays within its budget."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from kernels.targets import TARGETS

ROOT = Path(__file__).parents[3]
KERNELS = ROOT / "kernels"
BUDGETS: dict[str, dict[str, int]] = json.loads((KERNELS / "budgets.json").read_text())
COMMITTED = sorted((KERNELS / "results").glob("compile-triton-*.json"))
KERNELS_HERE = {
    name
    for path in KERNELS.glob("*.py")
    for name in re.findall(r"^@triton\.jit\ndef (\w+_kernel)\(", path.read_text(), re.MULTILINE)
}
NEVER_SPILLING = ("sm_90", "sm_100")

Report = dict[str, Any]


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Report:
    """A fresh report, from a process in which Triton compiles rather than interprets."""
    path = tmp_path_factory.mktemp("compiled") / "report.json"
    environment = {k: v for k, v in os.environ.items() if k != "TRITON_INTERPRET"}
    command = [sys.executable, "-m", "kernels", "compile", "--to", str(path)]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return json.loads(path.read_text())


def key(row: dict[str, Any]) -> str:
    return " | ".join(row[name] for name in ("case", "dtype", "target", "function"))


def test_every_kernel_is_compiled_for_every_target(report: Report):
    compiled = {(row["function"], row["target"]) for row in report["rows"]}
    assert compiled == {(function, target) for function in KERNELS_HERE for target in TARGETS}


def test_every_kernel_stays_within_its_budget(report: Report):
    over = {
        f"{key(row)}: {row['used'][what]} {what}"
        for row in report["rows"]
        for what in ("registers", "shared", "spilled")
        if row["used"][what] > BUDGETS[key(row)][what]
    }
    assert not over


def test_no_budget_is_left_over(report: Report):
    assert BUDGETS.keys() == {key(row) for row in report["rows"]}


def test_nothing_spills_on_newer_nvidia_gpus(report: Report):
    spilling = [
        key(row)
        for row in report["rows"]
        if row["target"] in NEVER_SPILLING and row["used"]["spilled"]
    ]
    assert not spilling


def test_shared_memory_fits_each_target(report: Report):
    for row in report["rows"]:
        assert row["used"]["shared"] <= TARGETS[row["target"]].shared_limit, key(row)


def test_the_committed_report_is_what_compiling_gives(report: Report):
    committed = [path for path in COMMITTED if path.stem.endswith(report["triton"])]
    assert len(committed) == 1
    assert json.loads(committed[0].read_text()) == report


@pytest.mark.parametrize("path", COMMITTED, ids=lambda path: path.stem)
def test_reports_of_other_releases_are_of_the_same_code(path: Path, report: Report):
    other = json.loads(path.read_text())
    assert other["sources"] == report["sources"], (
        "run `python -m kernels compile` with that release"
    )
    assert {key(row) for row in other["rows"]} == {key(row) for row in report["rows"]}
