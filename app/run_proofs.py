"""The equations that a run cannot answer, each with its reason. torch is imported when asked."""

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

from app.run_checks import taps_of

PARTS = {
    "AttnResidual": "attention residuals",
    "GatedRMSNorm": "gated norm",
    "KimiDeltaAttention": "Kimi Delta Attention",
    "KimiMLAAttention": "latent attention",
    "KimiMLP": "dense feed-forward",
    "KimiMoEGate": "router",
    "KimiSparseMoE": "experts",
    "ShortConvolution": "short convolution",
}
"""What a class is called where a model lacks it."""


@dataclass(frozen=True)
class Unanswered:
    """One equation without a result on one run."""

    name: str
    title: str
    owner: str
    taps: tuple[str, ...]
    reason: str


def unanswered(run: Any, answered: Collection[str]) -> tuple[Unanswered, ...]:
    """Every other equation; the run has its model."""
    from model.identities.registry import IDENTITIES

    return tuple(
        Unanswered(
            name=name,
            title=item.title,
            owner=item.owner,
            taps=taps_of(item),
            reason=_reason(item, run),
        )
        for name, item in IDENTITIES.items()
        if name not in answered
    )


def _reason(identity: Any, run: Any) -> str:
    from model.identities.identity import NotHeldError, Place

    paths = [p for p, m in run.model.named_modules() if type(m).__name__ == identity.owner]
    if not paths:
        return f"{run.source} has no {PARTS.get(identity.owner, identity.owner)}."
    # first places are the odd ones: layer 0 reads no sealed sum, a prompt has nothing before it
    place = Place(run, paths[-1], run.steps - 1, run.model, {})
    try:
        identity.compute(place)
    except NotHeldError as fault:
        return _sentence(str(fault.args[0]), run)
    return "It was not replayed when this run was stored."


def _sentence(fault: str, run: Any) -> str:
    """What an equation says that it lacks: a tap, or its own condition."""
    name, _, step = fault.rpartition(" at step ")
    if name in run.taps and step.isdecimal():
        return _absence(run.provenance(name, int(step)))
    if step.isdecimal():
        return f"{run.source} has no {name}."
    return f"{fault[:1].upper()}{fault[1:]}."


def _absence(found: Any) -> str:
    """Why a tap is not there to be compared; one that was re-computed could only agree."""
    if found.kind != "recomputed":
        return found.reason
    return (
        f"{found.tap} is not captured at step {found.step}. It is {found.reason}, so it would be "
        "checked against itself."
    )
