"""GPUs that a kernel is priced for, with what their vendors state."""

import tomllib
from dataclasses import dataclass
from functools import cache
from pathlib import Path

PATH = Path(__file__).parent / "kernels" / "gpus.toml"


@dataclass(frozen=True, kw_only=True, slots=True)
class Gpu:
    id: str
    name: str
    target: str
    """The compile target of `kernels/targets.py`."""
    bandwidth: float
    """Bytes of memory a second."""
    peak: float
    """FLOPs a second in dense matrix products of bfloat16."""
    shared: int
    """Bytes of shared memory that one program may have."""

    @property
    def ridge(self) -> float:
        """FLOPs a byte above which products bound a kernel, and memory below."""
        return self.peak / self.bandwidth


@cache
def gpus(path: Path = PATH) -> tuple[Gpu, ...]:
    """Every GPU in the order of the file; the first is shown where none is chosen."""
    table = tomllib.loads(path.read_text(encoding="utf-8"))
    return tuple(Gpu(id=name, **facts) for name, facts in table.items())
