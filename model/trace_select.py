"""Choosing tokens and heads of an array by index, slice or list, with answers in words."""

from collections.abc import Sequence

import numpy as np

Selection = int | slice | Sequence[int] | None
"""An index drops its axis; a slice, a list or None keeps it."""


def indices(selection: Selection, size: int, axis: str, name: str) -> list[int]:
    """The chosen places of an axis, counted from zero."""
    if selection is None:
        return list(range(size))
    if isinstance(selection, slice):
        return list(range(size))[selection]
    wanted = [selection] if isinstance(selection, int | np.integer) else list(selection)
    if outside := [index for index in wanted if not -size <= index < size]:
        raise LookupError(
            f"{name} has no {axis} {outside[0]}; {axis} runs from 0 to {size - 1} here."
        )
    return [int(index) % size for index in wanted]


def is_index(selection: Selection) -> bool:
    return isinstance(selection, int | np.integer)


def select(
    name: str, array: np.ndarray, dims: Sequence[str], pos: Selection, head: Selection
) -> np.ndarray:
    """The chosen part of `array`, whose axes are called `dims`."""
    for axis, chosen in _chosen_axes(dims, pos, head):
        array = array.take(indices(chosen, array.shape[axis], dims[axis], name), axis)
    return drop_indexed(array, dims, pos, head)


def drop_indexed(
    array: np.ndarray, dims: Sequence[str], pos: Selection, head: Selection
) -> np.ndarray:
    """`array` without the axes of which one place was asked."""
    axes = (axis for axis, chosen in _chosen_axes(dims, pos, head) if is_index(chosen))
    return array.squeeze(tuple(axes))


def check_axes(name: str, dims: Sequence[str], pos: Selection, head: Selection) -> None:
    for axis, chosen in (("pos", pos), ("head", head)):
        if chosen is not None and axis not in dims:
            raise LookupError(
                f"{name} has no axis {axis!r} to choose from; its axes are {', '.join(dims)}."
            )


def _chosen_axes(
    dims: Sequence[str], pos: Selection, head: Selection
) -> list[tuple[int, Selection]]:
    wanted = {"pos": pos, "head": head}
    return [(axis, wanted[dim]) for axis, dim in enumerate(dims) if wanted.get(dim) is not None]
