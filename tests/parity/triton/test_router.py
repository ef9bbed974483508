"""The kernel of the router against the model's in float64."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from kernels.router import Chosen, choose
from tests.parity.triton.closeness import assert_near
from tests.parity.triton.guards import Guards
from tests.parity.triton.properties import drawn_often
from tests.parity.triton.references import by_index, chosen_by, drawn

SIZES = [
    # experts, chosen, groups, groups kept
    (1, 1, 1, 1),
    (7, 1, 1, 1),
    (7, 2, 1, 1),
    (65, 8, 1, 1),
    (896, 16, 1, 1),
    (384, 8, 1, 1),
    (256, 8, 8, 4),
    (60, 5, 6, 2),
    (21, 4, 3, 3),
]


def compare(logits: Tensor, bias: Tensor, guards: Guards, **options) -> Chosen:
    chosen = choose(guards.copy(logits), guards.copy(bias), **options)
    expert, weight = by_index(*chosen)
    wanted_expert, wanted_weight = chosen_by(logits, bias, **options)
    assert torch.equal(expert, wanted_expert)
    assert_near(weight, wanted_weight, 1e-6)
    return chosen


def chosen_from(logits: Tensor, guards: Guards, bias: Tensor | None = None, **options) -> Chosen:
    bias = torch.zeros(logits.shape[-1]) if bias is None else bias
    return Chosen(*(x.cpu() for x in choose(guards.copy(logits), guards.copy(bias), **options)))


def assert_experts(chosen: Chosen, E: int) -> None:
    """Indices are those of experts, none twice."""
    assert ((chosen.expert >= 0) & (chosen.expert < E)).all()
    ordered = chosen.expert.sort(-1).values
    assert (ordered.diff(dim=-1) > 0).all()


@pytest.mark.parametrize(("E", "top", "groups", "top_groups"), SIZES, ids=str)
def test_it_equals_the_model_for_any_number_of_experts(E, top, groups, top_groups, guards: Guards):
    logits, bias = drawn(2, 3, E), 0.1 * drawn(E, seed=1)
    options = {"top": top, "groups": groups, "top_groups": top_groups}
    compare(logits, bias, guards, **options, scale=2.827)
    compare(logits, bias, guards, **options, renormalize=False)


@pytest.mark.parametrize("tokens", [1, 2, 17])
def test_every_token_chooses_for_itself(tokens, guards: Guards):
    compare(drawn(tokens, 60), 0.1 * drawn(60, seed=1), guards, top=5)


def test_half_precision_logits_are_widened_first(guards: Guards):
    logits = drawn(4, 60).bfloat16()
    compare(logits, 0.1 * drawn(60, seed=1), guards, top=5, scale=2.446)


def test_the_bias_chooses_and_does_not_weigh(guards: Guards):
    logits, bias = drawn(5, 128), torch.zeros(128)
    bias[:8] = 10.0
    chosen = compare(logits, bias, guards, top=8)
    assert set(chosen.expert.flatten().tolist()) == set(range(8))
    assert chosen.weight.max() < 1


def test_values_below_minus_one_are_still_ranked(guards: Guards):
    compare(drawn(3, 60), -5 + 0.1 * drawn(60, seed=1), guards, top=5)


def test_weights_add_up_to_the_scale(guards: Guards):
    chosen = chosen_from(drawn(9, 896), guards, top=16, scale=2.5)
    torch.testing.assert_close(chosen.weight.sum(-1), torch.full((9,), 2.5))


def test_of_equal_experts_the_first_are_chosen(guards: Guards):
    chosen = chosen_from(torch.zeros(2, 60), guards, top=5)
    assert chosen.expert.tolist() == [[0, 1, 2, 3, 4]] * 2
    assert chosen.weight.tolist() == [[pytest.approx(0.2)] * 5] * 2
    grouped = chosen_from(torch.zeros(1, 60), guards, top=12, groups=6, top_groups=2)
    assert grouped.expert.tolist() == [list(range(12))]


def test_the_most_wanted_comes_first(guards: Guards):
    logits = drawn(3, 60)
    assert torch.equal(chosen_from(logits, guards, top=9).expert, logits.topk(9).indices)


def test_scores_of_zero_give_weights_of_zero(guards: Guards):
    chosen = chosen_from(torch.full((2, 60), -1e4), guards, top=5)
    assert not chosen.weight.any()
    assert_experts(chosen, 60)


@pytest.mark.parametrize("groups", [1, 6])
def test_no_number_gives_an_index_that_is_no_expert(groups, guards: Guards):
    nan, inf = float("nan"), float("inf")
    logits = drawn(6, 60)
    logits[1, 7], logits[2], logits[3, 3], logits[4] = nan, nan, inf, -inf
    options = {"top": 10, "groups": groups, "top_groups": max(groups // 2, 1)}
    chosen = chosen_from(logits, guards, **options)
    assert_experts(chosen, 60)
    assert 7 in chosen.expert[1].tolist()
    assert 3 in chosen.expert[3].tolist()
    # the token that holds it shows it, and no other
    assert chosen.weight.isnan().any(-1).tolist() == [False, True, True, False, False, False]
    expert, weight = by_index(chosen.expert[[0, 5]], chosen.weight[[0, 5]])
    wanted = chosen_by(logits[[0, 5]], torch.zeros(60), **options)
    assert torch.equal(expert, wanted[0])
    assert_near(weight, wanted[1], 1e-6)


@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_a_bias_that_is_no_number_chooses_and_does_not_weigh(sign, guards: Guards):
    logits, bias = drawn(3, 60), torch.zeros(60)
    bias[9] = torch.tensor(float("nan")).copysign(torch.tensor(sign))
    chosen = chosen_from(logits, guards, bias, top=4, renormalize=False)
    assert chosen.expert[:, 0].tolist() == [9, 9, 9]
    torch.testing.assert_close(chosen.weight[:, 0], logits[:, 9].sigmoid())


def test_experts_that_a_bias_rules_out_are_chosen_last(guards: Guards):
    bias = torch.full((60,), float("-inf"))
    bias[[40, 50]] = 0.0
    chosen = chosen_from(drawn(3, 60), guards, bias, top=4)
    assert_experts(chosen, 60)
    assert all(sorted(row[:2]) == [40, 50] for row in chosen.expert.tolist())


def test_more_choices_than_the_groups_hold_are_still_experts(guards: Guards):
    logits = drawn(3, 60)
    chosen = chosen_from(logits, guards, top=25, groups=6, top_groups=2)
    assert_experts(chosen, 60)
    kept = chosen_from(logits, guards, top=20, groups=6, top_groups=2)
    assert torch.equal(chosen.expert[:, :20], kept.expert)


def test_rows_of_logits_may_lie_apart(guards: Guards):
    logits = drawn(5, 60)
    chosen = choose(guards.copy(logits, gap=4), guards.copy(torch.zeros(60)), top=5)
    assert torch.equal(by_index(*chosen)[0], chosen_by(logits, torch.zeros(60), top=5)[0])


def test_no_tokens_choose_nothing(guards: Guards):
    assert chosen_from(torch.empty(0, 60), guards, top=5).expert.shape == (0, 5)


def test_what_makes_no_sense_is_refused():
    logits, bias = torch.zeros(2, 60), torch.zeros(60)
    with pytest.raises(ValueError, match="top must be 1 to 60, not 61"):
        choose(logits, bias, top=61)
    with pytest.raises(ValueError, match="60 experts do not split into 7 groups"):
        choose(logits, bias, top=5, groups=7)
    with pytest.raises(ValueError, match="top_groups must be 1 to 6, not 7"):
        choose(logits, bias, top=5, groups=6, top_groups=7)
    with pytest.raises(ValueError, match=r"bias is \(59,\), not \(60,\)"):
        choose(logits, bias[:59], top=5)


odd = st.floats(width=32, allow_nan=True, allow_infinity=True)


@drawn_often
@given(values=st.lists(odd, min_size=9, max_size=9), top=st.integers(1, 9))
def test_any_row_of_floats_chooses_as_topk_does(values, top, guards: Guards):
    logits = torch.tensor([values])
    chosen = chosen_from(logits, guards, top=top, renormalize=False)
    assert_experts(chosen, 9)
    scores = logits.sigmoid()
    wanted = scores.topk(top).values
    torch.testing.assert_close(
        scores.gather(-1, chosen.expert).sort(descending=True).values, wanted, equal_nan=True
    )
    torch.testing.assert_close(chosen.weight, scores.gather(-1, chosen.expert), equal_nan=True)
