"""Quantile balancing: the bias with which a router would load its experts evenly."""

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


def balance(lm: KimiLM, recording: Recording, share: float) -> None:
    """Move each router's bias a `share` of the way to what the recorded scores ask for."""
    with torch.no_grad():
        for gate in gates(lm).values():
            scores = recording.tensors[gate.scores].flatten(0, 1)
            bias = gate.e_score_correction_bias
            bias.lerp_(balanced_bias(scores, bias, gate.top), share)
