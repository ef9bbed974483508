"""Launches kernels for a GPU that is not here, up to the moment when a program would start."""

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from triton import knobs
from triton.backends.compiler import GPUTarget
from triton.compiler import CompiledKernel
from triton.runtime.driver import driver
from triton.runtime.jit import JITFunction


class AbsentGPU:
    """A driver that tells Triton which GPU to compile for, and nothing else."""

    def __init__(self, target: GPUTarget) -> None:
        self.target = target

    def get_current_target(self) -> GPUTarget:
        return self.target

    def get_current_device(self) -> int:
        return 0

    def get_current_stream(self, device: int) -> int:
        return 0


@dataclass(frozen=True)
class Launch:
    function: str
    programs: int
    compiled: CompiledKernel


def compiled_launches(target: GPUTarget, call: Callable[[], object]) -> list[Launch]:
    """What `call`, given tensors on the meta device, would start on `target`, compiled for it."""
    launches: list[Launch] = []
    with _nothing_starts(target, launches):
        call()
    return launches


@contextlib.contextmanager
def _nothing_starts(target: GPUTarget, launches: list[Launch]) -> Iterator[None]:
    run = JITFunction.run
    touched: list[JITFunction] = []

    def compile_only(self: JITFunction, *args: Any, grid: Any, warmup: bool, **options: Any) -> Any:
        # what was compiled for another target must not answer for this one
        self.device_caches.clear()
        touched.append(self)
        compiled = run(self, *args, grid=grid, warmup=True, **options)
        programs = 1
        for size in grid:
            programs *= size
        launches.append(Launch(self.fn.__name__, programs, compiled))
        return compiled

    if knobs.runtime.interpret:
        raise ValueError("Kernels compile only where TRITON_INTERPRET is not set.")
    before = driver._active
    absent: Any = AbsentGPU(target)
    driver.set_active(absent)
    JITFunction.run = compile_only
    try:
        with knobs.compilation.scope():
            knobs.compilation.always_compile = True
            yield
    finally:
        JITFunction.run = run
        driver._active = before
        for function in touched:
            function.device_caches.clear()
