"""What a run leaves out of its recording where it would take too much memory."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from model.trace_data import TapFacts

SEEN_FIRST = frozenset(
    (
        *("KimiMLAAttention.k_cached", "KimiMLAAttention.v_cached", "KimiMLAAttention.q"),
        *("KimiMLAAttention.latent_cached", "KimiMLAAttention.shared_cached"),
        *("KimiDeltaAttention.k", "KimiDeltaAttention.v", "KimiDeltaAttention.log_decay"),
        *("KimiDeltaAttention.beta", "KimiDeltaAttention.state"),
        *("KimiDecoderLayer.residual_in", "KimiDecoderLayer.residual_mid"),
        *("KimiDecoderLayer.residual_out", "AttnResidual.scores", "AttnResidual.weights"),
        *("KimiMoEGate.chosen", "KimiMoEGate.chosen_weight", "KimiLM.logits"),
    )
)
"""What first pages show, and that from which attention rows and KDA states are re-computed."""
EXPERTS = frozenset(("KimiSparseMoE.expert_hidden", "KimiSparseMoE.expert_out"))


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
    """Leave out squares and experts, then the largest kind of tap, until the rest fits.

    `sizes` are the predicted bytes by full name; a tap that will not fire has none.
    Squares (`pos` by `src`) come first since their rows are re-computed on request, the taps of
    `SEEN_FIRST` come last.
    """
    predicted = sum(sizes.get(name, 0) for name in keep)
    left_out = {
        name: f"this run was asked to keep {len(keep)} names, and it is not among them"
        for name in taps
        if name not in keep
    }
    groups: dict[str, list[str]] = {}
    for name in keep:
        groups.setdefault(f"{taps[name].owner}.{name.rpartition('.')[2]}", []).append(name)
    weights = {group: sum(sizes.get(name, 0) for name in names) for group, names in groups.items()}
    kept, fitting = predicted, set(keep)
    # what cannot fit by itself must not take everything else with it
    turns = {
        group: 0 if weights[group] > budget else _turn(group, taps[names[0]].dims)
        for group, names in groups.items()
    }
    for group in sorted(groups, key=lambda g: (turns[g], -weights[g])):
        if kept <= budget:
            break
        kept -= weights[group]
        fitting -= set(groups[group])
        reason = (
            f"over the budget: everything asked for would take up to {_mib(predicted)} and "
            f"{_mib(budget)} are allowed; ask for it alone"
        )
        left_out |= dict.fromkeys(groups[group], reason)
    return Plan(frozenset(fitting), left_out, predicted, kept)


def _turn(kind: str, dims: Collection[str]) -> int:
    """When a kind of tap is left out: 0 is first."""
    if kind in EXPERTS or {"pos", "src"} <= set(dims):
        return 0
    return 2 if kind in SEEN_FIRST else 1
