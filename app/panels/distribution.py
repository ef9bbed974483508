"""How a page's values are spread: a chart that is loaded only when it is asked for."""

from typing import Any

import numpy as np
import streamlit as st

from app import theme
from app.panels.live_data import Spot
from app.run_reading import Reading, read
from app.run_taps import find_taps, live_taps

SHARES = (0.0, 0.01, 0.25, 0.5, 0.75, 0.99, 1.0)


def distribution_panel(spot: Spot, run: Any) -> None:
    """One chart a tap, of the head and step on screen. Plotly's script weighs megabytes."""
    if not st.toggle("Distribution of these values", key="distribution"):
        return
    # here, so that a page without the chart does not wait for the import
    from app.figures.distribution import distribution_figure

    colours = theme.colours(theme.mode())
    for reading in _readings(spot, run):
        head = f", head {spot.head}" if reading.num_heads else ""
        name = f"{reading.name}{head}"
        figure = distribution_figure(reading.values, name, colours)
        key = f"distribution-{reading.name}"
        st.plotly_chart(figure, key=key, theme=None, config={"displayModeBar": False})
        st.caption(_in_words(reading))


def _readings(spot: Spot, run: Any) -> list[Reading]:
    found = []
    for tap in find_taps(spot.node, live_taps(spot.node), run.config, spot.layer, spot.at):
        try:
            reading = read(run, tap.name, spot.step, token=spot.token, head=spot.head)
        except LookupError:
            # the panel above has said why this tensor is absent
            continue
        if np.isfinite(reading.values).any():
            found.append(reading)
    return found


def _in_words(reading: Reading) -> str:
    """The chart as a row of figures, for those who read and do not look."""
    finite = reading.values[np.isfinite(reading.values)].astype(np.float64)
    parts = zip(SHARES, np.quantile(finite, SHARES), strict=True)
    words = ", ".join(f"{share:.0%} {value:.4f}" for share, value in parts)
    return f"{finite.size:,} values. Quantiles: {words}.".replace("-", "\N{MINUS SIGN}")
