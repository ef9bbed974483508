"""A kernel on a reader's run: started in a process of its own, one at a time, bounded in time."""

import importlib.util
import io
import json
import math
import os
import subprocess
import sys
import tempfile
import threading
import time
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import IO, Any

import numpy as np

from app.run_kernel_inputs import Given, given_to, step_for
from app.run_ticket import Ticket
from app.runs import RunStore, shared_store

ROOT = Path(__file__).parents[1]
CHILD = "app.run_kernel_child"
MOST_POSITIONS = 128
"""The interpreter takes a kernel apart into single operations of NumPy: seconds for as many."""
MOST_SECONDS = 90.0
BEAT = 0.1
TOLERANCE = {"float32": 1e-5}
"""Of max|kernel − equation| / max|equation|; coarser for 16 bits."""
COARSE = 1e-2
NO_TRITON = (
    "Triton is not installed on this machine, so the kernel cannot run here. It comes with "
    "requirements.txt on Linux; `pip install triton` adds it."
)
Asked = tuple[str, str, int]
"""Kernel, path of the module, step."""


@dataclass(frozen=True, kw_only=True)
class ResultRow:
    name: str
    shape: tuple[int, ...]
    error: float
    tolerance: float

    @property
    def passed(self) -> bool:
        return math.isfinite(self.error) and self.error <= self.tolerance


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """What came back: how far each result is, where it ran, and how long that took."""

    rows: tuple[ResultRow, ...]
    device: str
    """`interpreter`, or the name of the GPU."""
    triton: str
    dtype: str
    seconds: float
    """Of the kernel's call alone; in the interpreter it says nothing of a GPU."""
    step: int
    shapes: dict[str, tuple[int, ...]]

    @property
    def is_interpreted(self) -> bool:
        return self.device == "interpreter"


def refusal(kernel: str, run: Any, step: int) -> str:
    """Why the kernel is not run on this run, or empty."""
    if importlib.util.find_spec("triton") is None:
        return NO_TRITON
    if len(run.token_ids) > MOST_POSITIONS:
        return (
            f"The run has {len(run.token_ids):,} positions. Kernels run here on up to "
            f"{MOST_POSITIONS}, since Triton's interpreter takes single operations one by one; "
            "a shorter prompt is answered."
        )
    try:
        step_for(kernel, run, step)
    except LookupError as fault:
        return str(fault.args[0])
    return ""


def ask(asked: Asked, run: Any, reader: str) -> Ticket[Outcome]:
    """A ticket for one kernel on one module of a run that has its model; the same one is shared."""
    words = f"the kernel {asked[0]} on run {run.run_id[:6]}"
    return bench().learned(
        ("kernel", run.run_id, *asked), words, partial(_outcome, run, asked), reader
    )


def _outcome(run: Any, asked: Asked, ticket: Ticket[Outcome]) -> Outcome:
    kernel, path, step = asked
    ticket.report("reading the run", 0.0)
    given = given_to(kernel, run, path, step)
    ticket.report("starting a process with Triton", 0.1)
    made = json.loads(_answer(_packed(kernel, run.dtype, given), ticket))
    tolerance = TOLERANCE.get(made["dtype"], COARSE)
    rows = tuple(
        ResultRow(
            name=row["name"],
            shape=tuple(row["shape"]),
            error=float(row["error"]),
            tolerance=tolerance,
        )
        for row in made["rows"]
    )
    facts = {name: made[name] for name in ("device", "triton", "dtype", "seconds")}
    return Outcome(rows=rows, step=given.step, shapes=given.shapes, **facts)


def _packed(kernel: str, dtype: str, given: Given) -> bytes:
    asked = {"kernel": kernel, "dtype": dtype, "options": dict(given.options)}
    held, arrays = io.BytesIO(), dict[str, Any](given.arrays)
    np.savez(held, asked=np.array(json.dumps(asked)), **arrays)
    return held.getvalue()


def _answer(question: bytes, ticket: Ticket[Outcome]) -> bytes:
    """What the process writes; ValueError says what went wrong, or that it took too long."""
    with (
        tempfile.TemporaryFile() as asked,
        tempfile.TemporaryFile() as answer,
        tempfile.TemporaryFile() as said,
    ):
        asked.write(question)
        asked.seek(0)
        child = subprocess.Popen(
            [sys.executable, "-m", CHILD],
            cwd=ROOT,
            env={**os.environ, "OMP_NUM_THREADS": "1"},
            stdin=asked,
            stdout=answer,
            stderr=said,
        )
        try:
            _await(child, ticket)
        finally:
            child.kill()
            child.wait()
        if child.returncode:
            lines = _text(said).decode(errors="replace").strip().splitlines() or ["no word"]
            raise ValueError(
                f"The kernel's process ended with {child.returncode}: {lines[-1][:300]}"
            )
        return _text(answer)


def _await(child: subprocess.Popen[bytes], ticket: Ticket[Outcome]) -> None:
    deadline = time.monotonic() + MOST_SECONDS
    while child.poll() is None:
        if time.monotonic() > deadline:
            raise ValueError(f"The kernel took more than {MOST_SECONDS:.0f} s and was stopped.")
        share = 1 - (deadline - time.monotonic()) / MOST_SECONDS
        ticket.report("running the kernel beside its equation", share)
        time.sleep(BEAT)


def _text(file: IO[bytes]) -> bytes:
    file.seek(0)
    return file.read()


_bench: RunStore | None = None
_lock = threading.Lock()


def bench() -> RunStore:
    """The queue of kernels, apart from that of the model: no reader's run waits for a kernel."""
    global _bench
    with _lock:
        if _bench is None:
            _bench = RunStore(shared_store().engine)
        return _bench
