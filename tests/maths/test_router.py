"""What a router chooses and how it weighs, beside the statements of released files that differ."""

import dataclasses

import pytest
import torch

from model.init import give_storage
from model.moe import KimiMoEGate
from model.presets import preset, tiny_k2, tiny_kimi_linear

GROUPED = dataclasses.replace(
    tiny_k2(), num_experts=12, num_expert_group=4, topk_group=2, num_experts_per_token=4
)


def router(config, bias=0.0, spread=0.0):
    """A float64 router, its input, and the scores that it forms."""
    generator = torch.Generator().manual_seed(5)
    gate = KimiMoEGate(config)
    give_storage(gate, "cpu", torch.float64)
    gate.weight.copy_(torch.randn(gate.weight.shape, generator=generator) / 4)
    drawn = torch.randn(config.num_experts, generator=generator).double()
    gate.e_score_correction_bias.copy_(bias + spread * drawn)
    x = torch.randn(1, 130, config.hidden_size, generator=generator).double()
    return gate, x, (x @ gate.weight.T).sigmoid()


def chosen_with(biased, config, closed):
    """Experts by token, where those of closed groups are given the score `closed`."""
    groups = biased.unflatten(-1, (config.num_expert_group, -1))
    strength = groups.sort(dim=-1).values[..., -2:].sum(-1)
    is_open = strength >= strength.sort(dim=-1).values[..., -config.topk_group, None]
    scores = torch.where(is_open[..., None], groups, closed).flatten(-2)
    return scores.topk(config.num_experts_per_token).indices.sort(dim=-1).values


def test_the_weights_of_kimi_linear_are_its_scores_and_not_those_of_the_released_statement():
    config = tiny_kimi_linear()
    gate, x, scores = router(config, spread=0.2)
    bias, scale = gate.e_score_correction_bias, config.routed_scaling_factor
    experts, weights = gate(x)

    intended = scores.gather(-1, experts)
    intended = scale * intended / intended.sum(-1, keepdim=True)
    # one tensor under two names: what is added to one is added to both
    released_scores = scores.clone()
    for_choice = released_scores.view(scores.shape)
    for_choice += bias
    released = released_scores.gather(-1, experts)
    released = scale * released / released.sum(-1, keepdim=True)

    torch.testing.assert_close(weights, intended)
    assert torch.equal(experts.sort().values, for_choice.topk(3).indices.sort().values)
    torch.testing.assert_close(released.sum(-1), weights.sum(-1))
    assert (weights - released).abs().amax() > 0.1


def test_closed_groups_are_out_however_low_the_open_ones_score():
    gate, x, scores = router(GROUPED, bias=-2.0, spread=0.1)
    biased = scores + gate.e_score_correction_bias
    assert (biased < 0).all()
    ours = gate(x).expert.sort(dim=-1).values
    assert torch.equal(ours, chosen_with(biased, GROUPED, -torch.inf))
    # K2's file fills closed groups with zero, which is more than any score here
    filled = chosen_with(biased, GROUPED, 0.0)
    assert not torch.equal(ours, filled)
    assert all(len({int(j) // 3 for j in row}) <= 2 for row in ours[0])


def test_with_positive_scores_zero_and_minus_infinity_close_a_group_alike():
    gate, x, scores = router(GROUPED, bias=0.5, spread=0.05)
    biased = scores + gate.e_score_correction_bias
    assert (biased > 0).all()
    assert torch.equal(chosen_with(biased, GROUPED, 0.0), chosen_with(biased, GROUPED, -torch.inf))
    assert torch.equal(gate(x).expert.sort(dim=-1).values, chosen_with(biased, GROUPED, 0.0))


@pytest.mark.parametrize("model", ["k3", "k2", "kimi-linear"])
def test_no_released_model_has_groups_that_could_be_closed(model):
    assert (preset(model).num_expert_group, preset(model).topk_group) == (1, 1)


def test_without_renormalization_the_weights_are_the_scores():
    config = dataclasses.replace(tiny_k2(), moe_renormalize=False)
    gate, x, scores = router(config, spread=0.1)
    experts, weights = gate(x)
    torch.testing.assert_close(weights, config.routed_scaling_factor * scores.gather(-1, experts))
