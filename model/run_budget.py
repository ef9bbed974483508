"""What a run leaves out of its recording where it would take too much memory."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from model.trace_data import TapFacts

DEFAULT = 256 * 1024**2
"""Bytes of captured tensors for one run."""


@dataclass(frozen=True)
class Plan:
    """What a run records, and for the rest the reason."""

    names: frozenset[str]
    left_out: Mapping[str, str]
    predicted: int
    """Bytes of everything that was asked for."""
    kept: int
    """Bytes of what the budget lets through."""

    @property
    def notices(self) -> tuple[str, ...]:
        """A sentence where the budget left something out."""
        if self.kept == self.predicted:
            return ()
        return (
            f"The run would record up to {_mib(self.predicted)}; what exceeds the budget is left "
            "out and can be asked for alone.",
        )


def _mib(size: int) -> str:
    return f"{size / 1024**2:,.0f} MiB"


def plan(
    taps: Mapping[str, "TapFacts"], sizes: Mapping[str, int], keep: Collection[str], budget: int
) -> Plan:
    """Leave out squares first, then the largest kind of tap, until the rest fits.

    `sizes` are the predicted bytes by full name; a tap that will not fire has none.
    Squares (`pos` by `src`) come first since their rows are re-computed on request.
    """
    predicted = sum(sizes.get(name, 0) for name in keep)
    left_out = {
        name: f"this run was asked to keep {len(keep)} names, and it is not among them"
        for name in taps
        if name not in keep
    }
    groups: dict[tuple[bool, str], list[str]] = {}
    for name in keep:
        square = {"pos", "src"} <= set(taps[name].dims)
        kind = f"{taps[name].owner}.{name.rpartition('.')[2]}"
        groups.setdefault((square, kind), []).append(name)
    weights = {group: sum(sizes.get(name, 0) for name in names) for group, names in groups.items()}
    kept, fitting = predicted, set(keep)
    for group in sorted(groups, key=lambda g: (g[0], weights[g]), reverse=True):
        if kept <= budget:
            break
        kept -= weights[group]
        fitting -= set(groups[group])
        reason = (
            f"over the budget: everything asked for would take up to {_mib(predicted)} and "
            f"{_mib(budget)} are allowed; ask for it alone with keep="
        )
        left_out |= dict.fromkeys(groups[group], reason)
    return Plan(frozenset(fitting), left_out, predicted, kept)
