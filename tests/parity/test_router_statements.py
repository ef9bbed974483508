"""What Kimi-Linear's released router computes, and what was intended, which we compute."""

import pytest
import torch
from torch import Tensor

from model.config import KimiConfig
from model.init import give_storage
from model.moe import Chosen, KimiMoEGate
from tests.parity.family_cases import KIMI_LINEAR_CASES

CONFIG = KIMI_LINEAR_CASES[0].in_house_words() | {"num_experts": 12, "num_experts_per_token": 4}


def as_released(x: Tensor, weight: Tensor, bias: Tensor, top: int, scale: float) -> Chosen:
    """The bias is added in place to a view of the scores, from which weights are then taken."""
    scores = (x @ weight.T).sigmoid()
    for_choice = scores.view(scores.shape)
    for_choice += bias
    chosen = for_choice.topk(top, dim=-1).indices
    weights = scores.gather(-1, chosen)
    return Chosen(chosen, weights / weights.sum(-1, keepdim=True) * scale)


def as_intended(x: Tensor, weight: Tensor, bias: Tensor, top: int, scale: float) -> Chosen:
    """The bias moves the choice, and the weights come from the scores without it."""
    scores = (x @ weight.T).sigmoid()
    chosen = (scores + bias).topk(top, dim=-1).indices
    weights = scores.gather(-1, chosen)
    return Chosen(chosen, weights / weights.sum(-1, keepdim=True) * scale)


@pytest.fixture
def router() -> tuple[KimiMoEGate, Tensor]:
    generator = torch.Generator().manual_seed(3)
    gate = KimiMoEGate(KimiConfig.from_hf(CONFIG))
    give_storage(gate, "cpu", torch.float64)
    gate.weight.copy_(torch.randn(gate.weight.shape, generator=generator) / 6)
    gate.e_score_correction_bias.copy_(0.2 * torch.randn(12, generator=generator))
    return gate, torch.randn((1, 65, gate.weight.shape[1]), generator=generator).double()


def by_expert(choice: Chosen) -> Tensor:
    """`[batch, pos, expert]`: the order in which experts were chosen means nothing."""
    nothing = choice.weight.new_zeros(*choice.weight.shape[:-1], 12)
    return nothing.scatter(-1, choice.expert, choice.weight)


def test_our_router_computes_the_intended_weights(router: tuple[KimiMoEGate, Tensor]) -> None:
    gate, x = router
    intended = as_intended(x, gate.weight, gate.e_score_correction_bias, gate.top, gate.scale)
    torch.testing.assert_close(by_expert(gate(x)), by_expert(intended), rtol=1e-12, atol=1e-14)


def test_the_released_router_chooses_the_same_experts_and_weighs_them_by_their_bias(
    router: tuple[KimiMoEGate, Tensor],
) -> None:
    gate, x = router
    bias = gate.e_score_correction_bias
    released = as_released(x, gate.weight, bias, gate.top, gate.scale)
    ours = gate(x)
    assert torch.equal(by_expert(released) != 0, by_expert(ours) != 0)
    biased = (x @ gate.weight.T).sigmoid().gather(-1, released.expert) + bias[released.expert]
    expected = biased / biased.sum(-1, keepdim=True) * gate.scale
    torch.testing.assert_close(released.weight, expected, rtol=1e-12, atol=1e-14)
    apart = (by_expert(released) - by_expert(ours)).abs().amax((0, 1))
    # whoever is chosen at all keeps its weight not everywhere
    assert (apart[ours.expert.unique()] > 1e-2).all()
