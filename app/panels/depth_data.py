"""Every read of the residual bank in a run, as the figure of weights over depth takes it."""

from typing import Any

import numpy as np

from app.figures.depth import Read, depth_figure
from app.figures.heat import window
from app.figures.live import Tokens
from app.run_reading import positions_at, read, short_path, source_words

MOST_DEPTH_TOKENS = 96
PLACES = (("attention", "self_attention_res"), ("feed-forward", "mlp_res"))


def depth_of(
    run: Any, tap: str, step: int, token: int | None, tokens: Tokens, /, **shared: Any
) -> dict[str, Any]:
    """The figure with the read of `tap` chosen, around `token`."""
    reads, paths = _reads(run, step)
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
        provenance=[_origin(run, tap, step)],
        **shared,
    )


def _reads(run: Any, step: int) -> tuple[list[Read], list[str]]:
    names: list[tuple[int | None, str, str]] = [
        (layer, place, f"layers.{layer}.{module}")
        for layer in range(run.config.num_hidden_layers)
        for place, module in PLACES
    ]
    names.append((None, "output", "output_attn_res"))
    reads, paths = [], []
    for layer, place, path in names:
        if not run.is_captured(f"{path}.weights", 0):
            continue
        weights = read(run, f"{path}.weights", step, token=None, head=0)
        scores = read(run, f"{path}.scores", step, token=None, head=0)
        reads.append(Read(layer=layer, place=place, scores=scores.values, weights=weights.values))
        paths.append(path)
    if not reads:
        raise LookupError(f"Run {run.run_id[:6]} kept no weights over depth.")
    return reads, paths


def _cut(each: Read, first: int, last: int) -> Read:
    return Read(
        layer=each.layer,
        place=each.place,
        scores=np.asarray(each.scores[first:last]),
        weights=np.asarray(each.weights[first:last]),
    )


def _origin(run: Any, tap: str, step: int) -> dict[str, Any]:
    modules = ("layers.*.self_attention_res", "layers.*.mlp_res", "output_attn_res")
    dtype = run.provenance(tap, step).dtype or run.dtype
    return {
        "kind": "captured",
        "taps": [f"{module}.weights" for module in modules],
        "facts": [
            f"steps 0 … {step}",
            dtype,
            f"{run.device}, {short_path(run.kernel_path)}",
        ],
    }
