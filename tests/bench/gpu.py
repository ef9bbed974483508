"""Kernels on this machine's GPU: error, time, and share of what its memory or its cores can do.

`python -m kernels bench` runs this; it takes less than five minutes.
"""

import json
import platform
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median
from typing import Any

import plotly.graph_objects as go
import torch
import triton
from torch import Tensor

from kernels.cases.case import Case, Draw
from tests.bench.kernel_rivals import TORCH, Outputs, Rival, fla

RESULTS = Path(__file__).parents[2] / "kernels" / "results"
NO_GPU = (
    "This machine has no GPU that torch {version} can use, and kernels are timed on one only. "
    "What they compute was compared in Triton's interpreter: pytest tests/parity/triton."
)
STACKS = ("w1", "w2", "w3")
"""Arguments too large for a second copy in float32."""
Clock = Callable[[Callable[[], object]], float]
"""Seconds of a call, the median of some."""


@dataclass(frozen=True)
class Peaks:
    """What this GPU does when nothing else is in the way."""

    bytes_per_second: float
    """Of a copy, each byte read and written counted."""
    flops_per_second: dict[str, float]
    """Of a large matrix product, by dtype."""


@dataclass(frozen=True, kw_only=True)
class Row:
    case: str
    dtype: str
    left_out: str | None = None
    """Why there is nothing else in this row."""
    error: float | None = None
    """Root mean square, relative to torch's in float32; the worst of all results."""
    seconds: float | None = None
    torch_seconds: float | None = None
    fla_seconds: float | None = None
    bytes_per_second: float | None = None
    flops_per_second: float | None = None
    share_of_copy: float | None = None
    share_of_products: float | None = None


def gpu_clock(call: Callable[[], object]) -> float:
    """Each call finds the cache full of something else."""
    call()
    other = torch.empty(2**28, dtype=torch.uint8, device="cuda")
    took: list[float] = []
    until = time.monotonic() + 0.3
    while not took or (time.monotonic() < until and len(took) < 50):
        other.zero_()
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        start.record()
        call()
        end.record()
        torch.cuda.synchronize()
        took.append(start.elapsed_time(end) / 1e3)
    return median(took)


def measure_peaks(device: torch.device, clock: Clock, size: int = 8192) -> Peaks:
    x = torch.ones(size * size * 4, device=device)
    y = torch.empty_like(x)
    copied = 2 * x.nbytes / clock(lambda: y.copy_(x))
    products = {}
    for name in ("bfloat16", "float32"):
        a = torch.ones(size, size, dtype=getattr(torch, name), device=device)
        products[name] = 2 * size**3 / clock(lambda a=a: a @ a)
    return Peaks(copied, products)


def measure(
    case: Case, dtype: torch.dtype, device: torch.device, clock: Clock, others: dict[str, Rival]
) -> Row:
    name = str(dtype).removeprefix("torch.")
    try:
        return _measured(case, dtype, device, clock, others, name)
    except torch.OutOfMemoryError as error:
        said = str(error).split(". ")[0]
        return Row(case=case.name, dtype=name, left_out=f"It needs more memory: {said}.")


def _measured(
    case: Case,
    dtype: torch.dtype,
    device: torch.device,
    clock: Clock,
    others: dict[str, Rival],
    name: str,
) -> Row:
    torch.manual_seed(0)
    given = dict(case.arguments(Draw(device, dtype)))
    launcher = launcher_name(case)
    rival = case_rival(case)
    ours = comparable(launcher, given, case.launcher(**given))
    error = worst_error(ours, rival(**in_float32(given)))
    seconds = clock(lambda: case.launcher(**given))
    other = others.get(launcher)
    work = case.work(dtype.itemsize)
    return Row(
        case=case.name,
        dtype=name,
        error=error,
        seconds=seconds,
        torch_seconds=clock(lambda: rival(**given)),
        fla_seconds=clock(lambda: other(**given)) if other else None,
        bytes_per_second=work.bytes / seconds,
        flops_per_second=work.flops / seconds,
    )


def launcher_name(case: Case) -> str:
    return getattr(case.launcher, "func", case.launcher).__name__


def case_rival(case: Case) -> Rival:
    return TORCH[launcher_name(case)]


def comparable(launcher: str, given: Mapping[str, Any], outputs: Any) -> Outputs:
    if launcher == "choose":
        expert, weight = outputs
        return (torch.zeros_like(given["logits"]).scatter(-1, expert, weight),)
    return outputs if isinstance(outputs, tuple) else (outputs,)


def in_float32(given: Mapping[str, Any]) -> dict[str, Any]:
    return {
        name: x.float()
        if isinstance(x, Tensor) and x.is_floating_point() and name not in STACKS
        else x
        for name, x in given.items()
    }


def worst_error(ours: Outputs, theirs: Outputs) -> float:
    """The largest root mean square of a difference, relative to that of `theirs`."""
    errors = []
    for a, b in zip(ours, theirs, strict=True):
        if not a.isfinite().all():
            return float("inf")
        size = b.double().square().mean().sqrt()
        errors.append(float((a.double() - b.double()).square().mean().sqrt() / size))
    return max(errors)


def with_shares(row: Row, peaks: Peaks) -> Row:
    if row.bytes_per_second is None or row.flops_per_second is None:
        return row
    shares = {
        "share_of_copy": row.bytes_per_second / peaks.bytes_per_second,
        "share_of_products": row.flops_per_second / peaks.flops_per_second[row.dtype],
    }
    return Row(**asdict(row) | shares)


def in_words(row: Row) -> str:
    if row.seconds is None:
        return f"{row.case} · {row.dtype}: left out. {row.left_out}"
    others = [("torch", row.torch_seconds), ("FLA", row.fla_seconds)]
    said = ", ".join(f"{name} {1e3 * took:.3f} ms" for name, took in others if took)
    return (
        f"{row.case} · {row.dtype}: {1e3 * row.seconds:.3f} ms, {said}; "
        f"error {row.error:.1e}; {row.share_of_copy:.0%} of a copy, "
        f"{row.share_of_products:.0%} of a matrix product"
    )


def figure(rows: Iterable[Row], device: str) -> go.Figure:
    """How near each case comes to the nearer of the two limits."""
    timed = [row for row in rows if row.share_of_copy is not None]
    labels = [f"{row.case} · {row.dtype}" for row in timed]
    chart = go.Figure()
    chart.add_bar(name="of a copy", y=labels, x=[r.share_of_copy for r in timed], orientation="h")
    products = [r.share_of_products for r in timed]
    chart.add_bar(name="of a matrix product", y=labels, x=products, orientation="h")
    chart.update_layout(
        title=f"Share of what {device} can do",
        xaxis={"tickformat": ".0%", "rangemode": "tozero"},
        yaxis={"autorange": "reversed", "automargin": True},
        height=160 + 40 * len(timed),
    )
    return chart


def write(rows: list[Row], peaks: Peaks, device: str, path: Path) -> None:
    """A JSON file, and beside it a page with its chart."""
    path.parent.mkdir(exist_ok=True)
    text = {
        "device": device,
        "torch": torch.__version__,
        "triton": triton.__version__,
        "python": platform.python_version(),
        "peaks": asdict(peaks),
        "rows": [asdict(row) for row in rows],
    }
    path.write_text(json.dumps(text, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    figure(rows, device).write_html(path.with_suffix(".html"))


def main(to: Path | None) -> int:
    if not torch.cuda.is_available():
        print(NO_GPU.format(version=torch.__version__))
        return 1
    from kernels.cases.registry import CASES

    device, others = torch.device("cuda"), fla()
    name = torch.cuda.get_device_name()
    print(f"{name}; FLA {'is timed too' if others else 'cannot be imported'}.")
    peaks = measure_peaks(device, gpu_clock)
    rows = []
    for case in CASES:
        for dtype in case.dtypes:
            rows.append(with_shares(measure(case, dtype, device, gpu_clock, others), peaks))
            print(in_words(rows[-1]), flush=True)
            torch.cuda.empty_cache()
    path = to or RESULTS / f"bench-{name.lower().replace(' ', '-')}.json"
    write(rows, peaks, name, path)
    print(f"Written to {path}, with a page beside it.")
    return 0
