"""Small numbers as people write them, and where they stand on a logarithmic gauge."""

import math

from markupsafe import Markup

LOWEST, HIGHEST = -9, -3
"""Powers of ten at the ends of the gauge of a proof."""


def true_minus(text: str | float) -> str:
    return str(text).replace("-", "−")


def power(value: float) -> Markup:
    """`3.1·10⁻⁷`; exact zero and what is no number keep their words."""
    if value == 0:
        return Markup("0")
    if not math.isfinite(value):
        return Markup("{}").format("not a number" if math.isnan(value) else "infinite")
    digits, exponent = f"{value:.1e}".split("e")
    digits = digits.removesuffix(".0")
    return Markup("{}\u2009·\u200910<sup>{}</sup>").format(digits, true_minus(int(exponent)))


def share_of_scale(value: float) -> float:
    """Where a value stands between the ends of the gauge, from 0 to 1."""
    if not value > 0:
        return 0.0 if value == 0 else 1.0
    place = (math.log10(value) - LOWEST) / (HIGHEST - LOWEST)
    return min(max(place, 0.0), 1.0)
