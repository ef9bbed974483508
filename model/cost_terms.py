"""Arithmetic that remembers how it was written, so that a number and its formula are one thing."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Self

SUM, PRODUCT, ATOM = 0, 1, 2
"""How tightly the outermost operation of a text binds."""
SUPERSCRIPTS = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")


def _text(value: int | float) -> str:
    if isinstance(value, int):
        return f"{value:,}".replace("-", "−")
    mantissa, _, exponent = f"{value:.7g}".replace("-", "−").partition("e")
    if not exponent:
        return mantissa
    power = f"10{str(int(exponent.replace('−', '-'))).translate(SUPERSCRIPTS)}"
    return power if mantissa == "1" else f"{mantissa} · {power}"


@dataclass(frozen=True, kw_only=True, slots=True)
class Value:
    """A number as a page shows it, with the way it comes about."""

    value: int | float
    unit: str
    """values, bytes, FLOP, parameters, layers, positions, features … or empty for a bare ratio."""
    formula: str
    """The formula in words."""
    substituted: str
    """The same formula with numbers put in, and its result."""


@dataclass(frozen=True, slots=True)
class Term:
    """A number together with its text in words and in numbers; arithmetic builds all three."""

    value: int | float
    words: str
    numbers: str
    rank: int = ATOM

    def _binary(self, other: "Term | int", sign: str, rank: int, value: int | float) -> Self:
        right = term(other)
        # the right side of a difference or a quotient needs brackets at equal rank
        strict = rank + (sign in ("−", "/"))
        return type(self)(
            value,
            f"{_bracketed(self, rank, self.words)} {sign} {_bracketed(right, strict, right.words)}",
            f"{_bracketed(self, rank, self.numbers)} {sign} "
            f"{_bracketed(right, strict, right.numbers)}",
            rank,
        )

    def __add__(self, other: "Term | int") -> Self:
        return self._binary(other, "+", SUM, self.value + term(other).value)

    def __sub__(self, other: "Term | int") -> Self:
        return self._binary(other, "−", SUM, self.value - term(other).value)

    def __mul__(self, other: "Term | int") -> Self:
        return self._binary(other, "·", PRODUCT, self.value * term(other).value)

    def __radd__(self, other: int) -> "Term":
        return term(other) + self

    def __rmul__(self, other: int) -> "Term":
        return term(other) * self

    def __truediv__(self, other: "Term | int") -> Self:
        """An exact quotient; a remainder is a mistake in the formula."""
        divisor = term(other).value
        assert self.value % divisor == 0, f"{self.words} / {divisor} leaves a remainder"
        return self._binary(other, "/", PRODUCT, self.value // divisor)

    def __floordiv__(self, other: "Term | int") -> "Term":
        quotient = self._binary(other, "/", PRODUCT, 0)
        return Term(self.value // term(other).value, f"⌊{quotient.words}⌋", f"⌊{quotient.numbers}⌋")

    def named(self, words: str) -> "Term":
        """The same number as one word of a larger formula."""
        return named(words, self.value)

    def as_value(self, unit: str) -> Value:
        result = _text(self.value)
        substituted = self.numbers if self.numbers == result else f"{self.numbers} = {result}"
        return Value(value=self.value, unit=unit, formula=self.words, substituted=substituted)


def _bracketed(part: Term, rank: int, text: str) -> str:
    return f"({text})" if part.rank < rank else text


def named(words: str, value: int | float) -> Term:
    """One quantity with a name: the atom of every formula."""
    return Term(value, words, _text(value))


def term(value: Term | int) -> Term:
    return value if isinstance(value, Term) else Term(value, _text(value), _text(value))


def total(parts: Iterable[Term]) -> Term:
    """The sum of `parts`; equal texts are gathered as a multiple, and no part at all is zero."""
    counts: dict[Term, int] = {}
    for part in parts:
        counts[part] = counts.get(part, 0) + 1
    gathered = [part if count == 1 else count * part for part, count in counts.items()]
    if not gathered:
        return term(0)
    result = gathered[0]
    for part in gathered[1:]:
        result = result + part
    return result
