"""Sizes as polynomials of the context, so that a browser can follow a drag without asking."""

from collections.abc import Callable
from fractions import Fraction

from model.cost_terms import Value

Size = Callable[[int], int | float | Value]
Coefficients = tuple[int | float, int | float, int | float]

PROBES = (7, 1_000, 1_048_576)
"""Where the polynomial is compared with the function it stands for."""


def coefficients(size: Size) -> Coefficients:
    """`(c0, c1, c2)` of a size that is `c0 + c1·P + c2·P²` in its positions P.

    They come from evaluating `size` itself; one that is no such polynomial is refused. A part
    that is no whole number, as the halves of a causal triangle, is a float.
    """
    at = {positions: Fraction(_number(size(positions))) for positions in (1, 2, 3, *PROBES)}
    second = (at[3] - 2 * at[2] + at[1]) / 2
    first = at[2] - at[1] - 3 * second
    parts = tuple(_plain(part) for part in (at[1] - first - second, first, second))
    found = (parts[0], parts[1], parts[2])
    if any(at[p] != evaluate(found, p) for p in PROBES):
        raise ValueError(
            "This size is no polynomial of degree 2 in the positions; "
            f"at 1, 2 and 3 positions it is {at[1]}, {at[2]} and {at[3]}."
        )
    return found


def evaluate(parts: Coefficients, positions: int) -> int | float:
    constant, linear, square = parts
    return constant + linear * positions + square * positions * positions


def _plain(part: Fraction) -> int | float:
    return part.numerator if part.denominator == 1 else float(part)


def _number(size: float | Value) -> int | float:
    return size.value if isinstance(size, Value) else size
