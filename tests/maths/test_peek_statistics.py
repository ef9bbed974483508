"""What is said of a tensor's values is so, whatever they are and however they come in pieces."""

import math
import statistics as exact

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from model.peek_statistics import (
    SVD_SIDE,
    singular_values,
    statistics,
    why_no_singular_values,
)

FINITE = st.floats(-1e6, 1e6).map(lambda value: round(value, 6))


def of(*blocks):
    arrays = [np.asarray(block, dtype=np.float64) for block in blocks]
    return statistics(lambda: arrays)


@given(st.lists(st.lists(st.floats(width=64), max_size=30), max_size=5))
def test_every_value_is_counted_once(blocks):
    found = of(*blocks)
    values = np.array([value for block in blocks for value in block])
    assert found.count == len(values)
    assert found.nan == np.isnan(values).sum()
    assert (found.plus_infinity, found.minus_infinity) == (
        (values == math.inf).sum(),
        (values == -math.inf).sum(),
    )
    assert found.zeros == (values == 0).sum()
    assert sum(found.counts) == found.finite == np.isfinite(values).sum()
    if found.finite:
        assert found.edges[0] == found.minimum == values[np.isfinite(values)].min()
        assert found.edges[-1] == found.maximum == values[np.isfinite(values)].max()
        assert [*found.edges] == sorted(found.edges)
        assert math.isfinite(found.mean)
        assert math.isfinite(found.rms)


@given(st.lists(FINITE, min_size=1, max_size=200), st.integers(1, 50))
def test_moments_are_those_of_all_values_together(values, step):
    found = of(*(values[i : i + step] for i in range(0, len(values), step)))
    size = max(map(abs, values))
    assert found.mean == pytest.approx(exact.mean(values), abs=1e-12 * size)
    assert found.deviation == pytest.approx(exact.pstdev(values), abs=1e-9 * size)
    assert found.rms == pytest.approx(exact.pstdev(values, mu=0.0), abs=1e-9 * size)


def test_the_histogram_is_that_of_the_finite_values():
    values = np.random.default_rng(3).normal(size=5000)
    found = of(values[:700], [math.nan, math.inf], values[700:])
    counts, edges = np.histogram(values, 64)
    np.testing.assert_allclose(found.edges, edges, atol=1e-12)
    np.testing.assert_array_equal(found.counts, counts)


def test_values_whose_squares_overflow_have_moments_all_the_same():
    found = of([1e308, -1e308, 1e308, -1e308])
    assert (found.mean, found.rms, found.deviation) == (0.0, 1e308, 1e308)
    assert found.counts[0] == found.counts[-1] == 2


@pytest.mark.parametrize("value", [0.0, -2.5, 5e-324, 1e308])
def test_a_constant_has_one_bin(value):
    found = of([value] * 3)
    assert found.counts == (3,)
    assert found.edges == (value, value)
    assert (found.minimum, found.maximum, found.mean, found.deviation) == (value, value, value, 0)


@pytest.mark.parametrize("values", [[], [math.nan], [math.inf, -math.inf, math.nan]])
def test_where_nothing_is_finite_nothing_is_said(values):
    found = of(values)
    assert found.finite == 0
    assert found.minimum is found.mean is found.rms is None
    assert found.edges == found.counts == ()


def test_singular_values_come_largest_first():
    u, _ = np.linalg.qr(np.random.default_rng(0).normal(size=(7, 3)))
    np.testing.assert_allclose(singular_values(u * [1.0, 5.0, 2.0]), [5, 2, 1])


@pytest.mark.parametrize(
    ("shape", "finite", "whole", "words"),
    [
        ((1, 5), True, True, ""),
        ((SVD_SIDE, 2000), True, True, ""),
        ((SVD_SIDE + 1, SVD_SIDE + 1), True, True, "too large"),
        ((SVD_SIDE, 10**6), True, True, "too large"),
        ((5,), True, True, "only matrices"),
        ((0, 5), True, True, "only matrices"),
        ((2, 3, 4), True, True, "only matrices"),
        ((5, 5), False, True, "not finite"),
        ((5, 5), True, False, "only some rows"),
    ],
)
def test_why_there_are_no_singular_values_is_said(shape, finite, whole, words):
    assert words in why_no_singular_values(shape, finite, whole)
    assert bool(why_no_singular_values(shape, finite, whole)) == bool(words)
