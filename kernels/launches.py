"""How each case cuts its work: the arguments that its launchers give, without starting anything.

`python -m kernels.launches` writes them to `results/launches.json`.
"""

import contextlib
import json
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor
from triton.runtime.driver import driver
from triton.runtime.jit import JITFunction

from kernels.absent_gpu import AbsentGPU
from kernels.cases.case import Case, Draw
from kernels.cases.registry import CASES
from kernels.compile_report import RESULTS
from kernels.targets import TARGETS

PATH = RESULTS / "launches.json"
TARGET = "sm_90"
Cut = dict[str, Any]


def launches(case: Case) -> list[Cut]:
    """Of each function that a case starts in bfloat16: programs, warps, shapes and whole numbers.

    A tensor stands under its parameter's name as its shape; numbers that are not whole are left
    out, as no tile depends on them.
    """
    cuts: list[Cut] = []
    with _nothing_starts(cuts):
        case.call(Draw(torch.device("meta"), torch.bfloat16))
    return cuts


@contextlib.contextmanager
def _nothing_starts(cuts: list[Cut]) -> Iterator[None]:
    run, before = JITFunction.run, driver._active

    def note(self: JITFunction, *args: Any, grid: Any, warmup: bool, **options: Any) -> None:
        named = {n: v for n, v in options.items() if n in self.arg_names}
        given = dict(zip(self.arg_names, args, strict=False)) | named
        programs = 1
        for size in grid:
            programs *= size
        cuts.append(
            {
                "function": self.fn.__name__,
                "programs": programs,
                "warps": options.get("num_warps", 4),
                "arguments": {
                    n: plain for n, v in given.items() if (plain := _plain(v)) is not None
                },
            }
        )

    absent: Any = AbsentGPU(TARGETS[TARGET].gpu)
    driver.set_active(absent)
    JITFunction.run = note
    try:
        yield
    finally:
        JITFunction.run = run
        driver._active = before


def _plain(value: object) -> int | list[int] | None:
    if isinstance(value, Tensor):
        return [*value.shape]
    return int(value) if isinstance(value, int) else None


def text() -> str:
    made = {case.name: launches(case) for case in CASES}
    lines = [f" {json.dumps(name)}: {json.dumps(cuts)}" for name, cuts in made.items()]
    return "{\n" + ",\n".join(lines) + "\n}\n"


if __name__ == "__main__":
    PATH.write_text(text(), encoding="utf-8")
