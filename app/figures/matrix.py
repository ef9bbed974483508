"""Two axes of a captured tensor: which stand as rows and columns, which are held at one index."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

POSITIONS = ("pos", "src")
WORDS = {
    "pos": "position",
    "src": "position",
    "border": "segment border",
    "source": "source",
    "choice": "choice",
    "head": "head",
    "expert": "expert",
    "lag": "lag",
    "vocab": "token id",
    "d_model": "feature",
    "d_key": "key channel",
    "d_value": "value channel",
    "d_nope": "content",
    "d_shared": "shared",
    "pair": "pair",
    "d_qk": "channel",
    "d_q_latent": "latent",
    "d_kv_latent": "latent",
    "d_moe_latent": "latent",
    "d_kv_joint": "channel",
    "d_kv_up": "channel",
    "d_inner": "channel",
    "d_gate_latent": "gate channel",
}
"""How an axis is called beside one of its indices; others are called a feature."""


@dataclass(frozen=True)
class Matrix:
    """A slice that fits on paper, and what was held to get it."""

    values: NDArray
    row_axis: str
    column_axis: str
    held: tuple[tuple[str, int], ...]
    """Axes held at one index, in order: `(("head", 2), ("border", 0))`."""


def word(axis: str) -> str:
    return WORDS.get(axis, "feature")


def matrix(values: NDArray, dims: tuple[str, ...], *, head: int = 0, token: int = 0) -> Matrix:
    """The slice of `values` (without batch) that a page shows.

    A head is chosen, of segment borders the last one is taken, and where a third axis is left
    the position is chosen too. `token` counts within this array.
    """
    if values.ndim != len(dims):
        raise ValueError(f"The array has {values.ndim} axes, its dims {dims!r} name {len(dims)}.")
    held: list[tuple[str, int]] = []
    axes = list(dims)
    wanted = {"head": head, "border": -1, "pos": token}
    for axis in ("border", "head", "pos"):
        if len(axes) <= 2 or axis not in axes:
            continue
        place = axes.index(axis)
        index = range(values.shape[place])[_inside(wanted[axis], values.shape[place])]
        values = np.take(values, index, axis=place)
        held.append((axis, index))
        axes.pop(place)
    if len(axes) > 2:
        raise ValueError(f"{dims!r} leaves {axes!r}; a picture has two axes.")
    while len(axes) < 2:
        values, axes = values[None], ["", *axes]
    if axes[1] in POSITIONS and axes[0] not in POSITIONS:
        values, axes = values.T, axes[::-1]
    if axes[0] not in POSITIONS and values.shape[0] > values.shape[1]:
        # the longer axis has more room across
        values, axes = values.T, axes[::-1]
    return Matrix(values, axes[0], axes[1], tuple(held))


def _inside(index: int, size: int) -> int:
    if not -size <= index < size:
        raise LookupError(f"Asked for index {index} of an axis of {size}.")
    return index
