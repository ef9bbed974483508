"""Every read of the residual bank in a run, as the figure of weights over depth takes it."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from app.figures.depth import Read, depth_figure
from app.figures.heat import window
from app.figures.live import Tokens
from app.run_reading import WEAKEST, Reading, positions_at, read, source_words

MOST_DEPTH_TOKENS = 96
PLACES = (("attention", "self_attention_res"), ("feed-forward", "mlp_res"))


def depth_of(
    run: Any, tap: str, step: int, token: int | None, tokens: Tokens, /, **shared: Any
) -> dict[str, Any]:
    """The figure with the read of `tap` chosen, around `token`."""
    reads, paths, readings = _reads(run, step)
    seen = positions_at(run, step)
    first, last = window(seen, token, MOST_DEPTH_TOKENS)
    own = tap.rpartition(".")[0]
    note = f"{len(reads)} of {len(reads)} reads"
    if last - first < seen:
        note += f", positions {first:,} … {last - 1:,} of {seen:,}"
    return depth_figure(
        [_cut(each, first, last) for each in reads],
        block=run.config.attn_res_block_size,
        layers=run.config.num_hidden_layers,
        chosen=paths.index(own) if own in paths else 0,
        tokens=tokens.cut(first, last),
        source=source_words(run),
        token=last - 1 if token is None else token,
        note=note,
        provenance=[_origin(readings)],
        **shared,
    )


def _reads(run: Any, step: int) -> tuple[list[Read], list[str], list[Reading]]:
    """Every read that is captured or can be re-computed, its path, and what it was made from.

    A `LookupError` gives the reason of the last, the output mix, where there is none.
    """
    names: list[tuple[int | None, str, str]] = [
        (layer, place, f"layers.{layer}.{module}")
        for layer in range(run.config.num_hidden_layers)
        for place, module in PLACES
    ]
    names.append((None, "output", "output_attn_res"))
    reads, paths, readings, reason = [], [], [], ""
    for layer, place, path in names:
        try:
            weights = read(run, f"{path}.weights", step, token=None, head=0)
            scores = read(run, f"{path}.scores", step, token=None, head=0)
        except LookupError as absent:
            reason = str(absent)
            continue
        reads.append(Read(layer=layer, place=place, scores=scores.values, weights=weights.values))
        paths.append(path)
        readings += [weights, scores]
    if not reads:
        raise LookupError(reason)
    return reads, paths, readings


def _cut(each: Read, first: int, last: int) -> Read:
    return Read(
        layer=each.layer,
        place=each.place,
        scores=np.asarray(each.scores[first:last]),
        weights=np.asarray(each.weights[first:last]),
    )


def _origin(readings: Sequence[Reading]) -> dict[str, Any]:
    """Captured only if each of them was; the facts are those of one that says the least."""
    kind = max((reading.kind for reading in readings), key=WEAKEST.index)
    weakest = next(reading for reading in readings if reading.kind == kind)
    modules = ("layers.*.self_attention_res", "layers.*.mlp_res", "output_attn_res")
    return {
        "kind": kind,
        "taps": [f"{module}.weights" for module in modules],
        "facts": [*weakest.facts, *([weakest.reason] if weakest.reason else [])],
    }
