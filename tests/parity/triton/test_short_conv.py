"""The short convolution and its state against the model's in float64."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from kernels.short_conv import short_convolution
from model import conv
from tests.parity.triton.closeness import assert_near
from tests.parity.triton.guards import Guards
from tests.parity.triton.properties import drawn_often
from tests.parity.triton.references import drawn, wide

LENGTHS = (1, 2, 3, 4, 15, 16, 17, 63, 64, 65, 130)


def reference(
    x: Tensor, weight: Tensor, state: Tensor, lengths: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    lengths = None if lengths is None else lengths.cpu()
    return conv.short_convolution(wide(x), wide(weight), wide(state), lengths)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize("pos", LENGTHS)
def test_it_equals_the_model_at_every_length(pos, dtype, guards: Guards):
    x, state = guards.copy(drawn(2, pos, 100).to(dtype)), guards.copy(drawn(2, 100, 4).to(dtype))
    weight = guards.copy(drawn(100, 4, seed=1).to(dtype))
    y, new = short_convolution(x, weight, state)
    wanted, kept = reference(x, weight, state)
    assert_near(y, wanted)
    assert torch.equal(wide(new), kept)


@pytest.mark.parametrize("lag", [1, 2, 3, 4, 5])
@pytest.mark.parametrize("width", [1, 60, 300])
def test_other_lags_and_widths_are_served(lag, width, guards: Guards):
    x, state = guards.copy(drawn(1, 9, width)), guards.copy(drawn(1, width, lag))
    weight = guards.copy(drawn(width, lag, seed=1))
    y, new = short_convolution(x, weight, state)
    wanted, kept = reference(x, weight, state)
    assert_near(y, wanted)
    assert torch.equal(wide(new), kept)


@pytest.mark.parametrize("lengths", [(0, 1, 2), (3, 4, 20), (20, 19, 0)], ids=str)
def test_the_state_ends_at_each_true_length(lengths, guards: Guards):
    x, state = drawn(3, 20, 60), guards.copy(drawn(3, 60, 4))
    weight = guards.copy(drawn(60, 4, seed=1))
    for row, length in enumerate(lengths):
        x[row, length:] = float("nan")
    ends = torch.tensor(lengths, device=guards.device)
    y, new = short_convolution(guards.copy(x), weight, state, ends)
    wanted, kept = reference(x, weight, state, ends)
    assert torch.equal(wide(new), kept)
    for row, length in enumerate(lengths):
        assert_near(y[row, :length], wanted[row, :length])


def test_a_call_shorter_than_the_lag_keeps_what_was_there_before(guards: Guards):
    state = guards.copy(torch.arange(8.0).reshape(1, 2, 4))
    x, weight = guards.copy(torch.tensor([[[10.0, 20.0]]])), guards.copy(torch.ones(2, 4))
    _, new = short_convolution(x, weight, state)
    assert new.tolist() == [[[1, 2, 3, 10], [5, 6, 7, 20]]]


def test_the_newest_column_of_the_state_stands_beside_the_first_position(guards: Guards):
    state = guards.copy(torch.tensor([[[1e3, 1e2, 1e1, 1.0]]]))
    weight = guards.copy(torch.tensor([[4.0, 3.0, 2.0, 1.0]]))
    y, _ = short_convolution(guards.copy(torch.zeros(1, 3, 1)), weight, state)
    wanted = torch.tensor([432.0, 43.0, 4.0])
    assert_near(y.flatten(), wanted * wanted.sigmoid())


@drawn_often
@given(cuts=st.lists(st.integers(1, 7), min_size=1, max_size=5), seed=st.integers(0, 99))
def test_any_split_of_a_prompt_gives_the_same_rows_and_state(cuts, seed, guards: Guards):
    x = drawn(2, sum(cuts), 60, seed=seed).bfloat16()
    weight = guards.copy(drawn(60, 4, seed=seed + 1).bfloat16())
    state = guards.copy(torch.zeros(2, 60, 4).bfloat16())
    whole, end = short_convolution(guards.copy(x), weight, state)
    parts = []
    for part in x.split(cuts, dim=1):
        y, state = short_convolution(guards.copy(part), weight, state)
        parts.append(y)
    # values of the state are added last, which rounds otherwise
    assert_near(torch.cat(parts, 1), whole, 1e-3)
    assert torch.equal(state, end)


def test_one_sequence_that_is_no_number_spoils_no_other(guards: Guards):
    x, state = drawn(3, 17, 60), drawn(3, 60, 4)
    x[1], state[1] = float("nan"), float("inf")
    weight = guards.copy(drawn(60, 4, seed=1))
    y, new = short_convolution(guards.copy(x), weight, guards.copy(state))
    good = [0, 2]
    wanted, kept = reference(x[good], weight, state[good])
    assert_near(y[good], wanted)
    assert torch.equal(wide(new[good]), kept)


def test_inputs_may_be_slices_of_wide_projections_and_of_packed_weights(guards: Guards):
    x = guards.copy(drawn(2, 9, 300))[..., 100:160]
    weight = guards.copy(drawn(60, 4, seed=1), gap=3)
    state = guards.copy(drawn(2, 300, 4))[:, 100:160]
    assert_near(short_convolution(x, weight, state)[0], reference(x, weight, state)[0])


def test_no_positions_leave_the_state_as_it_is(guards: Guards):
    state, weight = guards.copy(drawn(2, 8, 4)), guards.copy(torch.ones(8, 4))
    y, new = short_convolution(guards.copy(torch.ones(2, 0, 8)), weight, state)
    assert y.shape == (2, 0, 8)
    assert torch.equal(new, state)
    assert new.data_ptr() != state.data_ptr()


def test_wrong_operands_are_named_all_at_once():
    x, weight, state = torch.ones(2, 3, 8), torch.ones(8, 4), torch.ones(2, 8, 4)
    with pytest.raises(ValueError, match=r"state is \(2, 8, 3\), not \(2, 8, 4\)"):
        short_convolution(x, weight, state[..., :3])
    with pytest.raises(ValueError, match=r"state is torch.bfloat16.*lengths is \(3,\)"):
        short_convolution(x, weight, state.bfloat16(), torch.ones(3, dtype=torch.int64))
