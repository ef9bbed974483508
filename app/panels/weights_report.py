"""One tensor of a checkpoint in figures: extremes, spread, singular values."""

from typing import Any

from app.components.tensor_canvas.mount import tensor_canvas
from app.figures.weights import falling, heights, mosaic_figure, rank_of
from app.looks import Tensor
from app.panels.html import draw
from app.reader.numbers import show_int

MOST_LISTED = 64
"""Singular values in the table."""
FORMS = {
    "plain": "",
    "mxfp4": "MXFP4: codes of 4 bits, one power of two for each 32; figures are of the values",
    "fp8": "FP8: one scale for each 128 × 128 block; figures are of the values",
}


def weights_report(tensor: Tensor, *, key: str) -> None:
    """Draw what a look told of one tensor."""
    report: Any = tensor.report
    values = report.values
    draw(
        "weights_report.html",
        r=report,
        words=_words(report),
        figures=_figures(report),
        bars=heights(values.counts) if len(values.counts) > 1 else [],
        low=_number(values.minimum),
        top=_number(values.maximum),
        histogram_words=_histogram_words(values),
        bins=_bins(values) if len(values.counts) > 1 else [],
        singular=falling(report.singular_values),
        singular_table=[_number(value) for value in report.singular_values[:MOST_LISTED]],
        singular_words=_singular_words(report),
    )
    if tensor.picture.cells.size:
        tensor_canvas(mosaic_figure(tensor.picture, _short(report.name)), key=key)


def _short(name: str) -> str:
    """`q_a_proj.weight` of a name of many parts."""
    return ".".join(name.split(".")[-2:])


def _bins(values: Any) -> list[tuple[str, str, str]]:
    """The histogram as rows, empty bins left out."""
    edges = zip(values.edges, values.edges[1:], values.counts, strict=False)
    return [(_number(low), _number(high), f"{count:,}") for low, high, count in edges if count]


def _words(report: Any) -> str:
    shape = " × ".join(show_int(n) for n in report.shape) or "one value"
    rows = f"rows {report.rows[0]:,} to {report.rows[1] - 1:,}" if report.rows else ""
    said = (f"{report.dtype}, {shape}", rows, f"{report.nbytes:,} bytes read", FORMS[report.form])
    return "; ".join(filter(None, said)) + "."


def _figures(report: Any) -> list[tuple[str, str]]:
    v = report.values
    rows = [
        ("values", show_int(v.count)),
        ("smallest", _number(v.minimum)),
        ("largest", _number(v.maximum)),
        ("mean", _number(v.mean)),
        ("standard deviation", _number(v.deviation)),
        ("root mean square", _number(v.rms)),
        ("zeros", show_int(v.zeros)),
        ("NaN", show_int(v.nan)),
        ("+∞, −∞", f"{v.plus_infinity:,}, {v.minus_infinity:,}"),
    ]
    if report.scales is not None:
        scales = f"{_number(report.scales.minimum)} to {_number(report.scales.maximum)}"
        rows.append((f"{report.scales.count:,} scales", scales))
    return rows


def _histogram_words(values: Any) -> str:
    if not values.counts:
        return "No finite value, so there is no histogram."
    if len(values.counts) == 1:
        return f"All {values.finite:,} finite values are {_number(values.minimum)}."
    most = max(range(len(values.counts)), key=values.counts.__getitem__)
    low, high = values.edges[most], values.edges[most + 1]
    return (
        f"{values.finite:,} finite values in {len(values.counts)} bins; most, "
        f"{values.counts[most]:,}, from {_number(low)} to {_number(high)}."
    )


def _singular_words(report: Any) -> str:
    found = report.singular_values
    if not found:
        return f"No singular values: {report.no_singular_values}."
    rank = rank_of(found, report.shape)
    return (
        f"{len(found):,} singular values from {_number(found[0])} down to {_number(found[-1])}, on "
        f"a logarithmic axis; numerical rank {rank:,}."
    )


def _number(value: float | None) -> str:
    if value is None:
        return "none"
    return f"{value:.4g}".replace("-", "\N{MINUS SIGN}")
