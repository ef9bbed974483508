"""What each kernel must compute and move, whoever writes it: FLOPs, and bytes of memory."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Work:
    """A multiplication and an addition are two FLOPs. Each byte counts once, read or written."""

    flops: float
    bytes: float


def rms_norm(rows: int, D: int, item: int) -> Work:
    """Rows of `D` values of `item` bytes each: in, and out again."""
    return Work(4 * rows * D, 2 * item * rows * D)
