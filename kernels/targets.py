"""The GPUs that every kernel must compile for, with what each of their programs may use."""

from dataclasses import dataclass

from triton.backends.compiler import GPUTarget


@dataclass(frozen=True)
class Target:
    name: str
    title: str
    gpu: GPUTarget
    shared_limit: int
    """Bytes of shared memory that one program can have; compiling does not check it."""


TARGETS = {
    target.name: target
    for target in (
        Target("sm_80", "NVIDIA A100", GPUTarget("cuda", 80, 32), 163 * 1024),
        Target("sm_90", "NVIDIA H100 and H200", GPUTarget("cuda", 90, 32), 227 * 1024),
        Target("sm_100", "NVIDIA B200", GPUTarget("cuda", 100, 32), 227 * 1024),
        Target("gfx942", "AMD MI300X", GPUTarget("hip", "gfx942", 64), 64 * 1024),
    )
}
