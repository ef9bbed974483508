"""The ready-made views of `python -m model peek`, as tables and as JSON."""

from typing import Any

import numpy as np

from model.number_formats import Numbers
from model.peek_views import Biases, Decay, Queries, decay, residual, router
from model.source import Source


def viewed(source: Source, view: str, bound: int) -> tuple[int, dict[str, Any], list[str]]:
    """Bytes read, what the JSON says, and the lines of the table."""
    if view == "decay":
        rates = decay(source, bound=bound)
        return rates.planned, _decay_json(rates), _decay_rows(rates)
    if view == "residual":
        queries = residual(source, bound=bound)
        about = {
            "places": queries.places,
            "lengths": queries.lengths,
            "cosine": queries.cosine,
        }
        return queries.planned, about, _residual_rows(queries)
    biases = router(source, bound=bound)
    return biases.planned, {"layers": biases.layers, "bias": biases.bias}, _router_rows(biases)


def _decay_json(found: Decay) -> dict[str, Any]:
    """Rates by head, and over the channels of a head three numbers each, `[layer, head]`."""
    return {
        "layers": found.layers,
        "gate_lower_bound": found.gate_lower_bound,
        "rate": found.rate,
        "dt_bias": _over_channels(found.dt_bias),
        "half_life": _over_channels(found.half_life),
    }


def _over_channels(values: Numbers) -> dict[str, Numbers]:
    return {"min": values.min(-1), "median": np.median(values, -1), "max": values.max(-1)}


def _decay_rows(found: Decay) -> list[str]:
    rows = ["half-life: steps in which a channel halves where the token adds nothing to its gate"]
    head = f"{'rate exp(A_log), least … most':>30}  half-life, least … median … most"
    rows.append(f"{'layer':>5}  {head}")
    for layer, rate, life in zip(found.layers, found.rate, found.half_life, strict=True):
        rates = f"{rate.min():.4g} … {rate.max():.4g}"
        lives = f"{life.min():.4g} … {np.median(life):.4g} … {life.max():.4g}"
        rows.append(f"{layer:5}  {rates:>30}  {lives}")
    return rows


def _residual_rows(found: Queries) -> list[str]:
    rows = [f"{'place':28} {'length':>10}  nearest other, by cosine"]
    cosine = found.cosine
    np.fill_diagonal(cosine, -np.inf)
    for place, length, row in zip(found.places, found.lengths, cosine, strict=True):
        near = ""
        if np.isfinite(row).any():
            j = int(np.nanargmax(row))
            near = f"{found.places[j]} {row[j]:.3f}"
        rows.append(f"{place:28} {length:10.4g}  {near}")
    return rows


def _router_rows(found: Biases) -> list[str]:
    rows = [
        f"{'layer':>5} {'experts':>8} {'least':>12} {'mean':>12} {'most':>12} {'deviation':>12}"
    ]
    for layer, bias in zip(found.layers, found.bias, strict=True):
        numbers = (bias.min(), bias.mean(), bias.max(), bias.std())
        rows.append(f"{layer:5} {bias.size:8}" + "".join(f" {value:12.6g}" for value in numbers))
    return rows
