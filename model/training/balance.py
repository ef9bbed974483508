"""Quantile balancing: the bias with which a router would load its experts evenly."""

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from model.capture import Recording
from model.kimi import KimiLM
from model.moe import KimiMoEGate


def balanced_bias(scores: Tensor, bias: Tensor, chosen: int) -> Tensor:
    """The bias under which about `chosen / expert` of the tokens pass each expert's cutoff.

    `scores` are `[token, expert]`, before the bias. An expert is chosen by a token where its
    biased score is above the best one that is not chosen, so that its bias must lift just the
    wanted share of its scores above those cutoffs. The mean, which changes no choice, is zero.
    """
    experts = scores.shape[-1]
    if chosen >= experts:
        raise ValueError(
            f"Of {experts} experts {chosen} are chosen: there is no choice to balance."
        )
    cutoff = (scores + bias).topk(chosen + 1, dim=-1).values[:, -1:]
    wanted = -torch.quantile(scores - cutoff, 1 - chosen / experts, dim=0)
    return wanted - wanted.mean()


def gates(lm: KimiLM) -> dict[str, KimiMoEGate]:
    return {name: part for name, part in lm.named_modules() if isinstance(part, KimiMoEGate)}


def real_scores(lm: KimiLM, recording: Recording, real: Tensor) -> dict[str, Tensor]:
    """Recorded scores of the tokens that are `real`, of each router: `[token, expert]`."""
    return {name: recording.tensors[gate.scores][real] for name, gate in gates(lm).items()}


def balance(lm: KimiLM, scores: Sequence[Mapping[str, Tensor]], share: float) -> None:
    """Move each router's bias a `share` of the way to what the `scores` of a step ask for."""
    with torch.no_grad():
        for name, gate in gates(lm).items():
            bias = gate.e_score_correction_bias
            wanted = balanced_bias(torch.cat([part[name] for part in scores]), bias, gate.top)
            bias.lerp_(wanted, share)
