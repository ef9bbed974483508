"""A tensor of any size as a picture of few cells, made while its values pass by once."""

from collections.abc import Iterable
from dataclasses import dataclass
from math import prod

import numpy as np
from numpy.typing import NDArray

MOST_ROWS, MOST_COLUMNS = 48, 96
LONGEST_ROW = 512
"""Cells of a vector."""


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Mosaic:
    """A tensor as rows of its first axis; a vector is one row."""

    cells: NDArray[np.float64]
    """The values themselves, or the root mean square of the values behind each cell."""
    steps: tuple[int, int]
    """Rows and columns behind one cell."""

    @property
    def is_exact(self) -> bool:
        return self.steps == (1, 1)


def mosaic(blocks: Iterable[NDArray], shape: tuple[int, ...]) -> Mosaic:
    """`blocks` are all values of a tensor of this shape, in order and in pieces of any length.

    A cell whose values are not all numbers is none either.
    """
    rows, columns = _sides(shape)
    most = LONGEST_ROW if rows == 1 else MOST_COLUMNS
    steps = max(1, -(-rows // MOST_ROWS)), max(1, -(-columns // most))
    size = -(-rows // steps[0]), -(-columns // steps[1])
    is_exact = steps == (1, 1)
    sums, counts = np.zeros(prod(size)), np.zeros(prod(size))
    at = 0
    for block in blocks:
        place = np.arange(at, at + block.size)
        cell = place // columns // steps[0] * size[1] + place % columns // steps[1]
        values = block.ravel().astype(np.float64)
        with np.errstate(over="ignore"):
            weights = values if is_exact else np.square(values)
        sums += np.bincount(cell, weights, sums.size)
        counts += np.bincount(cell, minlength=sums.size)
        at += block.size
    cells = sums if is_exact else np.sqrt(sums / np.maximum(counts, 1))
    return Mosaic(cells=cells.reshape(size), steps=steps)


def _sides(shape: tuple[int, ...]) -> tuple[int, int]:
    if len(shape) < 2:
        return 1, prod(shape)
    return shape[0], prod(shape[1:])
