"""What one token did to the memory of a head: the terms of one step of the delta rule."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from app.figures.encode import spread
from app.figures.heat import Group, Panel, Rows, heat_figure


@dataclass(frozen=True, kw_only=True)
class Step:
    """The inputs of one step, of one head: `[value, key]`, `[key]` or `[value]`."""

    before: NDArray
    log_decay: NDArray
    k: NDArray
    v: NDArray
    beta: float


@dataclass(frozen=True)
class Term:
    """One matrix of the sum, and the sign in front of it."""

    sign: str
    symbol: str
    title: str
    stream: str
    values: NDArray


def decay_terms(step: Step, decayed: NDArray) -> tuple[Term, ...]:
    """The memory before, what fades of it, and what is left."""
    return (*_faded(step), Term("=", "decayed", "S̄, what is left", "state", decayed))


def write_terms(step: Step, after: NDArray) -> tuple[Term, ...]:
    """The memory before, what fades, what is erased under the key, what is written, the sum."""
    decayed = step.before * np.exp(step.log_decay)
    erased = step.beta * np.outer(decayed @ step.k, step.k)
    written = step.beta * np.outer(step.v, step.k)
    return (
        *_faded(step),
        Term("−", "erased", "erased under k", "key", erased),
        Term("+", "written", "written", "value", written),
        Term("=", "after", "S, after", "state", after),
    )


def _faded(step: Step) -> tuple[Term, Term]:
    faded = step.before * -np.expm1(step.log_decay)
    return (
        Term("", "before", "S, before", "state", step.before),
        Term("−", "faded", "faded by α", "decay", faded),
    )


def state_figure(terms: Sequence[Term], **shared: Any) -> dict[str, Any]:
    """Squares side by side on one scale: a row a value channel, a column a key channel."""
    bound = max(spread(terms[0].values), spread(terms[-1].values))
    rows, columns = terms[0].values.shape
    panels = [
        Panel(
            symbol=term.symbol,
            values=np.ascontiguousarray(term.values, dtype=np.float32),
            groups=(
                Group(
                    name=term.title,
                    word="key channel",
                    size=columns,
                    stream=term.stream,
                    is_counted=False,
                ),
            ),
            bound=bound,
            scale_of=f"of {terms[-1].symbol}, one scale for all",
        )
        for term in terms
    ]
    axis = Rows(word="value channel", labels=tuple(map(str, range(rows))), is_position=False)
    return heat_figure(panels, axis, signs=[term.sign for term in terms], **shared)
