"""The bench of the kernels on small sizes, in the interpreter: all it does but time on a GPU."""

import json
import subprocess
import sys
import time
from pathlib import Path
from types import ModuleType

import pytest
import torch

from kernels.cases import kda, mla, moe, norms, residual
from kernels.cases.case import Case
from kernels.cases.registry import CASES
from tests.bench import gpu as bench
from tests.parity.triton.conftest import ON_GPU

ONCE = {(case.kernel, bench.launcher_name(case)): case for case in reversed(CASES)}
"""The first case of each launcher."""
ROOT = Path(__file__).parents[3]
SMALL: dict[ModuleType, dict[str, int]] = {
    kda: {"LONG": 20, "MANY": 2, "HEADS": 2, "WIDTH": 24, "INNER": 48},
    mla: {"LONG": 24, "SHORT": 8, "MANY": 2, "HEADS": 2, "FAR": 40, "TURNING_HEADS": 2},
    moe: {"LONG": 6, "EXPERTS": 16, "LATENT": 64, "HIDDEN": 32, "K2_EXPERTS": 32},
    norms: {"LONG": 5, "WIDTH": 100},
    residual: {"LONG": 3, "WIDTH": 100},
}


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every case draws little; sizes are read when a case is called."""
    for module, sizes in SMALL.items():
        for name, size in sizes.items():
            assert hasattr(module, name)
            monkeypatch.setattr(module, name, size)


def wall_clock(call) -> float:
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize(
    ("case", "dtype"),
    [
        pytest.param(case, dtype, id=f"{case.name} {dtype}")
        for case in ONCE.values()
        for dtype in case.dtypes
    ],
)
def test_every_launcher_is_measured_and_near_torch(case: Case, dtype, device):
    row = bench.measure(case, dtype, device, wall_clock, {})
    assert row.left_out is None
    assert row.error is not None
    assert row.error <= (1e-5 if dtype == torch.float32 else 8e-3)
    assert row.seconds
    assert row.torch_seconds
    assert row.bytes_per_second


@pytest.mark.usefixtures("small")
def test_results_are_written_with_their_shares_and_a_page(device, tmp_path):
    peaks = bench.measure_peaks(device, wall_clock, size=16)
    rows = [
        bench.with_shares(bench.measure(case, torch.float32, device, wall_clock, {}), peaks)
        for case in norms.CASES
    ]
    bench.write(rows, peaks, "a test", tmp_path / "bench.json")
    written = json.loads((tmp_path / "bench.json").read_text())
    assert written["rows"][0]["share_of_copy"] > 0
    assert "of a copy" in bench.in_words(rows[0])
    assert "Share of what a test can do" in (tmp_path / "bench.html").read_text()


def test_a_case_that_does_not_fit_says_so(device):
    def too_much(_):
        raise torch.OutOfMemoryError("Tried to allocate 1.00 TiB. More words")

    case = Case(
        kernel="rms_norm",
        sizes="too many rows",
        launcher=norms.rms_norm,
        arguments=too_much,
        work=norms.CASES[0].work,
    )
    row = bench.measure(case, torch.float32, device, wall_clock, {})
    assert "needs more memory: Tried to allocate 1.00 TiB" in bench.in_words(row)


@pytest.mark.skipif(ON_GPU, reason="here is a GPU")
def test_without_a_gpu_the_bench_says_what_it_needs():
    command = [sys.executable, "-m", "kernels", "bench"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 1
    assert "This machine has no GPU" in done.stdout
    assert not done.stderr
