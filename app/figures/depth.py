"""Weights over depth: what each read of the residual bank took from which source."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from app.figures.encode import encode

PLACES = {"attention": "before attention", "feed-forward": "before feed-forward"}


@dataclass(frozen=True, kw_only=True)
class Read:
    """One mix: where it stands, and its scores and weights as [token, source]."""

    layer: int | None
    """None for the output mix."""
    place: str
    """`attention`, `feed-forward` or `output`."""
    scores: NDArray
    weights: NDArray


def read_title(read: Read) -> str:
    return "output mix" if read.layer is None else f"layer {read.layer}, {PLACES[read.place]}"


def depth_figure(
    reads: Sequence[Read],
    *,
    block: int,
    layers: int,
    chosen: int,
    tokens: dict[str, Any],
    **shared: Any,
) -> dict[str, Any]:
    """Plain data of the figure: a column per read, a row per source, the running sum last.

    A read of n sources takes blocks 0 … n − 2 of the bank and the running sum. `chosen` is the
    read taken apart below; `tokens` names the positions that the arrays hold.
    """
    most = max(read.weights.shape[1] for read in reads)
    held = [_present(read.weights.shape[1], most) for read in reads]
    return {
        "kind": "depth",
        "sources": source_names(most, block, layers),
        "reads": [
            _read(read, has, block, first=index == 0)
            for index, (read, has) in enumerate(zip(reads, held, strict=True))
        ],
        "read": chosen,
        "tokens": tokens,
        "weights": encode(_stack([r.weights for r in reads], held)),
        "scores": encode(_stack([r.scores for r in reads], held)),
        **shared,
    }


def source_names(most: int, block: int, layers: int) -> list[dict[str, str]]:
    """The embedding, each sealed block, and the sum in progress."""
    names = [{"title": "embedding", "symbol": "b", "index": "0"}]
    for index in range(1, most - 1):
        first, last = block * (index - 1), min(block * index, layers) - 1
        names.append({"title": f"layers {first}–{last}", "symbol": "b", "index": str(index)})
    return [*names, {"title": "running sum", "symbol": "p", "index": ""}]


def _read(read: Read, has: list[bool], block: int, *, first: bool) -> dict[str, Any]:
    is_labelled = read.place in ("attention", "output") or first
    return {
        "title": read_title(read),
        "place": read.place,
        "label": ("out" if read.layer is None else str(read.layer)) if is_labelled else "",
        "centred": read.layer is None or first,
        "seals": read.place == "feed-forward" and read.layer is not None and not read.layer % block,
        "has": has,
    }


def _present(count: int, most: int) -> list[bool]:
    return [index < count - 1 for index in range(most - 1)] + [True]


def _stack(arrays: Sequence[NDArray], held: Sequence[list[bool]]) -> NDArray[np.float32]:
    """[read, token, source], zero where a read has no such source."""
    stacked = np.zeros((len(arrays), arrays[0].shape[0], len(held[0])), dtype=np.float32)
    for index, (array, has) in enumerate(zip(arrays, held, strict=True)):
        stacked[index][:, has] = array
    return stacked
