"""What one token did to a memory, read from a run: inputs of its step, and where they come from."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from app.figures.state import Step, Term, decay_terms, write_terms
from app.run_reading import Reading, place_of, read
from app.run_taps import LiveTap

Origin = dict[str, Any]
INPUTS = ("log_decay", "k", "v", "beta")


def state_terms(
    run: Any, tap: LiveTap, step: int, token: int | None, head: int
) -> tuple[tuple[Term, ...], Reading, list[Origin]]:
    """The terms at `token`, or at the last position; a `LookupError` says what is not there."""
    last = read(run, tap.name, step, token=token, head=head)
    assert last.token is not None
    path = tap.name.rpartition(".")[0]
    before, origin = _before(run, f"{path}.state", step, last, head)
    log_decay, k, v, beta = (_at(run, f"{path}.{name}", last.token, head) for name in INPUTS)
    inputs = Step(before=before, log_decay=log_decay, k=k, v=v, beta=float(beta))
    is_decay = tap.attribute == "decayed_state"
    terms = (decay_terms if is_decay else write_terms)(inputs, last.values.astype(np.float64))
    used = INPUTS[:1] if is_decay else INPUTS
    words = ", ".join(term.symbol for term in terms[1:-1])
    derived = {
        "kind": "derived",
        "taps": [f"{path}.{name}" for name in used],
        "facts": [words, "float64"],
    }
    origins = [_origin(last, terms[-1].symbol), *([origin] if origin else []), derived]
    return terms, last, origins


def _before(
    run: Any, name: str, step: int, last: Reading, head: int
) -> tuple[NDArray, Origin | None]:
    """The memory that the token found; empty before the first."""
    if last.token == 0:
        return np.zeros(last.values.shape), None
    assert last.token is not None
    before = read(run, name, step, token=last.token - 1, head=head)
    return before.values.astype(np.float64), _origin(before, "before")


def _at(run: Any, name: str, token: int, head: int) -> NDArray:
    at, row = place_of(run, token)
    return np.asarray(run.array(name, at, pos=row, head=head))[0].astype(np.float64)


def _origin(reading: Reading, symbol: str) -> Origin:
    facts = [symbol, *reading.facts, *([reading.reason] if reading.reason else [])]
    return {"kind": reading.kind, "taps": [reading.name], "facts": facts}
