"""How the values of one tensor are spread, as a Plotly figure: bars over 64 bins, and the tails."""

from collections.abc import Mapping

import numpy as np
import plotly.graph_objects as go
from numpy.typing import NDArray

BINS = 64


def distribution_figure(values: NDArray, name: str, colours: Mapping[str, str]) -> go.Figure:
    """Counts of the finite `values`, in the theme's `colours`; what is no number is left out."""
    finite = np.asarray(values, dtype=np.float64)[np.isfinite(values)]
    counts, edges = np.histogram(finite, bins=BINS)
    middles = (edges[:-1] + edges[1:]) / 2
    bars = go.Bar(
        x=middles,
        y=counts,
        width=np.diff(edges),
        marker={"color": colours["faint"], "line": {"width": 0}},
        hovertemplate="%{x:.4f}: %{y:,} values<extra></extra>",
    )
    figure = go.Figure(bars)
    axis = {
        "color": colours["soft"],
        "gridcolor": colours["hair"],
        "linecolor": colours["rule"],
        "zerolinecolor": colours["rule"],
    }
    figure.update_layout(
        height=240,
        bargap=0,
        margin={"l": 38, "r": 12, "t": 8, "b": 30},
        paper_bgcolor="rgba(0,0,0,0)",
        plot_bgcolor="rgba(0,0,0,0)",
        font={"size": 12, "family": "Source Sans, sans-serif", "color": colours["soft"]},
        showlegend=False,
        hoverlabel={"bgcolor": colours["paper"], "bordercolor": colours["rule"]},
        xaxis=axis | {"title": {"text": name}, "showgrid": False},
        yaxis=axis | {"rangemode": "tozero", "nticks": 4},
    )
    return figure
