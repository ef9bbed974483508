"""Numbers that follow the context rule: coefficients from the cost functions themselves."""

from collections.abc import Callable
from dataclasses import dataclass
from decimal import ROUND_HALF_UP, Decimal

from markupsafe import Markup

from model.cost import Phase, coefficients

DEFAULT_CONTEXT = 4_096
UNITS = ("B", "KiB", "MiB", "GiB", "TiB", "PiB")
FLOP_UNITS = ("", "k", "M", "G", "T", "P", "E", "Z")

Count = Callable[[int, int, Phase], int | float]
"""A size as a function of batch, positions and phase."""


@dataclass(frozen=True, slots=True)
class Formula:
    """`c0 + c1·P + c2·P²`, times the batch to a degree, for decode and for prefill."""

    decode: tuple[int | float, ...]
    prefill: tuple[int | float, ...]
    degree: int

    @property
    def constant(self) -> bool:
        return not any((*self.decode[1:], *self.prefill[1:], self.degree)) and (
            self.decode == self.prefill
        )

    def at(self, positions: int = DEFAULT_CONTEXT, batch: int = 1, phase: Phase = "decode"):
        c0, c1, c2 = self.decode if phase == "decode" else self.prefill
        return (c0 + positions * (c1 + positions * c2)) * batch**self.degree

    def text(self) -> str:
        """As the browser reads it."""
        decode, prefill = (" ".join(map(_plain, c)) for c in (self.decode, self.prefill))
        return decode if decode == prefill else f"{decode}|{prefill}"


def _plain(value: int | float) -> str:
    return str(int(value)) if float(value).is_integer() else repr(float(value))


_PROBES: tuple[tuple[int, int, Phase], ...] = (
    (1, 9, "decode"),
    (3, 1_000, "decode"),
    (2, 77, "prefill"),
)


def formula(count: Count) -> Formula:
    """The polynomial of a cost function, from its values at three contexts.

    A count that is no such polynomial is a mistake in the count: ValueError names where it leaves.
    """
    decode = coefficients(lambda p: count(1, p, "decode"))
    prefill = coefficients(lambda p: count(1, p, "prefill"))
    one, two = count(1, 5, "decode"), count(2, 5, "decode")
    degree = 1 if one and two == 2 * one else 0
    made = Formula(decode, prefill, degree)
    for batch, positions, phase in _PROBES:
        expected = count(batch, positions, phase)
        if made.at(positions, batch, phase) != expected:
            raise ValueError(
                f"At batch {batch}, {positions} positions and {phase} the count is {expected}, and "
                f"the polynomial {made.text()} gives {made.at(positions, batch, phase)}."
            )
    return made


def constant(value: int | float) -> Formula:
    return Formula((value, 0, 0), (value, 0, 0), 0)


def show_int(value: int | float) -> str:
    return f"{round(value):,}".replace("-", "−")


def show_bytes(value: int | float) -> str:
    unit = 0
    while value >= 1024 and unit < len(UNITS) - 1:
        value, unit = value / 1024, unit + 1
    if unit == 0:
        return f"{show_int(value)}\u00a0B"
    digits = 0 if value >= 1000 else 1 if value >= 10 else 2
    # halves go up, as in the browser
    text = str(Decimal(value).quantize(Decimal(1).scaleb(-digits), ROUND_HALF_UP))
    return f"{text.removesuffix('.0')}\u00a0{UNITS[unit]}"


def show_short(value: int | float) -> str:
    """1.17 G, 39.3 M; below a million in full."""
    for size, letter in ((1e12, "T"), (1e9, "G"), (1e6, "M")):
        if value >= size:
            scaled = value / size
            return f"{scaled:.{0 if scaled >= 1000 else 1 if scaled >= 10 else 2}f} {letter}"
    return show_int(value)


def show_flops(value: int | float) -> str:
    """208 GFLOP: three digits, whatever the size."""
    unit = 0
    while value >= 1000 and unit < len(FLOP_UNITS) - 1:
        value, unit = value / 1000, unit + 1
    digits = 0 if unit == 0 or value >= 100 else 1 if value >= 10 else 2
    text = str(Decimal(value).quantize(Decimal(1).scaleb(-digits), ROUND_HALF_UP))
    return f"{text}\u00a0{FLOP_UNITS[unit]}FLOP"


def show_times(value: int | float) -> str:
    """2.71 times, as the browser says it of a ratio."""
    digits = 0 if value >= 100 else 1 if value >= 10 else 2 if value >= 1 else 3
    return f"{value:,.{digits}f} times"


SHOW = {"int": show_int, "bytes": show_bytes, "short": show_short, "flops": show_flops}


def span(made: Formula, fmt: str = "int", *, live_class: str = "") -> Markup:
    """A number that follows the rule, with its value at the default context already in it."""
    text = SHOW[fmt](made.at())
    if made.constant:
        return Markup('<span class="ks-num">{}</span>').format(text)
    classes = f"ks-num {live_class}".strip()
    return Markup('<span class="{}" data-f="{}" data-b="{}" data-fmt="{}">{}</span>').format(
        classes, made.text(), made.degree, fmt, text
    )


def ratio(over: Formula, under: Formula) -> Markup:
    """How many times the second number the first is, following the rule where either does."""
    text = show_times(over.at() / under.at())
    if over.constant and under.constant:
        return Markup('<span class="ks-num">{}</span>').format(text)
    return Markup(
        '<span class="ks-num" data-f="{}" data-over="{}" data-b="{}" data-fmt="times">{}</span>'
    ).format(over.text(), under.text(), over.degree, text)
