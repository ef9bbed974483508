"""The spread of a tensor's values as a chart: every finite value is counted, nothing else."""

import numpy as np
import pytest

from app.figures.distribution import BINS, distribution_figure
from app.theme import colours


@pytest.mark.parametrize(
    ("values", "finite"),
    [
        (np.linspace(-1, 1, 1000), 1000),
        (np.array([1.0, np.nan, np.inf, -np.inf, 2.0]), 2),
        (np.full((3, 4), 0.5), 12),
        (np.array([7.0]), 1),
        (np.array([]), 0),
    ],
    ids=["line", "no numbers among them", "constant", "one", "none"],
)
def test_every_finite_value_is_in_one_bar(values, finite):
    figure = distribution_figure(values.astype(np.float32), "name", colours("dark"))
    assert len(figure.data[0].x) == BINS
    assert int(np.sum(figure.data[0].y)) == finite
