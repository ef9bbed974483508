"""Sizes as polynomials of the context, so that a browser can follow a drag without asking."""

from collections.abc import Callable
from fractions import Fraction

from model.cost_terms import Value

Size = Callable[[int], int | Value]

PROBES = (7, 1_000, 1_048_576)
"""Where the polynomial is compared with the function it stands for."""


def coefficients(size: Size) -> tuple[int, int, int]:
    """`(c0, c1, c2)` of a size that is `c0 + c1·P + c2·P²` in its positions P.

    They come from evaluating `size` itself; one that is no such polynomial is refused.
    """
    at = {positions: _number(size(positions)) for positions in (1, 2, 3, *PROBES)}
    second = Fraction(at[3] - 2 * at[2] + at[1], 2)
    first = at[2] - at[1] - 3 * second
    whole = (at[1] - first - second, first, second)
    exact = int(whole[0]), int(whole[1]), int(whole[2])
    if exact != whole or any(at[p] != evaluate(exact, p) for p in PROBES):
        raise ValueError(
            "This size is no polynomial of degree 2 in the positions with whole coefficients; "
            f"at 1, 2 and 3 positions it is {at[1]}, {at[2]} and {at[3]}."
        )
    return exact


def evaluate(parts: tuple[int, int, int], positions: int) -> int:
    constant, linear, square = parts
    return constant + linear * positions + square * positions * positions


def _number(size: int | Value) -> int:
    value = size.value if isinstance(size, Value) else size
    assert isinstance(value, int), f"{value!r} is no count"
    return value
