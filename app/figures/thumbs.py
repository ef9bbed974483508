"""Small pictures of tensors, at most 32 cells a side, a byte a cell."""

import base64
from typing import TypedDict

import numpy as np
from numpy.typing import NDArray

from app.figures.encode import spread

SIDE = 32
MOST = 12


class Thumb(TypedDict):
    w: int
    h: int
    b64: str
    lo: float
    hi: float


def thumb(values: NDArray) -> Thumb:
    """A matrix reduced to `SIDE` a side by the value of largest magnitude in each block.

    Byte 127 is zero, 0 and 255 the ends at three deviations; what is no number counts as zero.
    """
    wide = np.nan_to_num(values.astype(np.float64), nan=0.0, posinf=0.0, neginf=0.0)
    small = _fold(_fold(wide).T).T
    bound = spread(wide) or 1.0
    share = np.clip(small / bound, -1.0, 1.0)
    codes = np.rint((share + 1.0) * 127.5).astype(np.uint8)
    return Thumb(
        w=small.shape[1],
        h=small.shape[0],
        b64=base64.b64encode(codes.tobytes()).decode("ascii"),
        lo=float(f"{-bound:.4g}"),
        hi=float(f"{bound:.4g}"),
    )


def _fold(values: NDArray) -> NDArray:
    """At most `SIDE` rows."""
    factor = -(-values.shape[0] // SIDE)
    if factor <= 1:
        return values
    padded = np.pad(values, ((0, -values.shape[0] % factor), (0, 0)))
    blocks = padded.reshape(-1, factor, values.shape[1])
    chosen = np.abs(blocks).argmax(1)
    return np.take_along_axis(blocks, chosen[:, None], 1)[:, 0]
