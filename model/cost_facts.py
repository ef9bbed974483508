"""Facts about sizes that prose and side columns quote by name, each with its formula."""

from collections.abc import Callable
from dataclasses import dataclass
from difflib import get_close_matches

from model.config import KimiConfig
from model.cost_sizes import Case, Phase
from model.cost_terms import Term, Value


@dataclass(frozen=True, slots=True)
class Fact:
    name: str
    unit: str
    means: str
    """One line for whoever looks for a fact."""
    compute: Callable[[Case], Term]


FACTS: dict[str, Fact] = {}


def fact_in(unit: str) -> Callable[[Callable[[Case], Term]], Callable[[Case], Term]]:
    """Register a formula as the fact of its name; its docstring says what it counts."""

    def register(compute: Callable[[Case], Term]) -> Callable[[Case], Term]:
        name = compute.__name__
        assert name not in FACTS, f"two facts are called {name}"
        assert compute.__doc__, f"fact {name} lacks a docstring"
        FACTS[name] = Fact(name, unit, compute.__doc__, compute)
        return compute

    return register


def fact(
    name: str,
    config: KimiConfig,
    *,
    batch: int = 1,
    positions: int = 4096,
    phase: Phase = "decode",
    layer: int | None = None,
) -> Value:
    """The fact `name` for a model; LookupError where the model has no such thing."""
    if name not in FACTS:
        near = get_close_matches(name, FACTS, n=3)
        hint = f" Did you mean {', '.join(near)}?" if near else ""
        raise LookupError(f"There is no fact {name!r}.{hint}")
    case = Case(config=config, batch=batch, positions=positions, phase=phase, layer=layer)
    found = FACTS[name]
    return found.compute(case).as_value(found.unit)
