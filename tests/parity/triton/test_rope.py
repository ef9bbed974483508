"""The kernel of the rotation against the model's function in float64."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from kernels.rope import rotate
from model import rope as model
from model.presets import preset
from model.yarn import frequencies, turn_gain
from tests.parity.triton.closeness import assert_near
from tests.parity.triton.guards import Guards
from tests.parity.triton.properties import drawn_often
from tests.parity.triton.references import drawn, wide

LENGTHS = [1, 2, 15, 16, 17, 63, 64, 65, 130]


def turned(positions: Tensor, speeds: list[float], gain: float = 1.0) -> tuple[Tensor, Tensor]:
    """Cosine and sine, float32 `[…, pos, pair]`."""
    angle = positions.double()[..., None] * torch.tensor(speeds, dtype=torch.float64)
    return (gain * angle.cos()).float(), (gain * angle.sin()).float()


def compare(x: Tensor, cosine: Tensor, sine: Tensor, guards: Guards) -> Tensor:
    y = rotate(x, guards.copy(cosine), guards.copy(sine))
    wanted = model.rotate(wide(x), wide(cosine), wide(sine))
    # cosine and sine are float32, so the result is: the caller rounds it
    assert y.dtype == torch.float32
    assert_near(y, wanted, 1e-6)
    return y


@pytest.mark.parametrize("T", LENGTHS)
def test_queries_and_keys_of_every_length_turn_as_in_the_model(T, guards: Guards):
    config = preset("tiny-k2")
    R, speeds, gain = config.qk_rope_head_dim, frequencies(config), turn_gain(config)
    cosine, sine = turned(torch.arange(T)[None], speeds, gain)
    compare(guards.copy(drawn(2, T, R)), cosine.expand(2, -1, -1), sine.expand(2, -1, -1), guards)
    q = guards.copy(drawn(2, T, 3, 10 + R))[..., 10:]
    compare(q, cosine[:, :, None], sine[:, :, None], guards)


def test_pairs_of_the_released_model_turn_at_the_end_of_its_context(guards: Guards):
    config = preset("k2")
    positions = torch.tensor([[0, 1, 4096, 131071]])
    cosine, sine = turned(positions, frequencies(config), turn_gain(config))
    x = guards.copy(drawn(1, 4, 64, config.qk_rope_head_dim).bfloat16())
    compare(x, cosine[:, :, None], sine[:, :, None], guards)


def test_every_sequence_has_its_own_positions(guards: Guards):
    cosine, sine = turned(torch.tensor([[0, 1, 2], [7, 8, 9]]), [1.0, 0.1, 0.01])
    x = guards.copy(drawn(1, 3, 2, 6).expand(2, -1, -1, -1))
    y = compare(x, cosine[:, :, None], sine[:, :, None], guards)
    assert not torch.equal(y[0], y[1])


def test_no_angle_only_parts_the_pairs(guards: Guards):
    x = guards.copy(drawn(5, 12))
    y = rotate(x, guards.copy(torch.ones(5, 6)), guards.copy(torch.zeros(5, 6)))
    assert torch.equal(y, torch.cat([x[:, 0::2], x[:, 1::2]], dim=-1))


def test_a_row_that_is_no_number_spoils_no_other_row(guards: Guards):
    x = drawn(9, 12)
    x[4, 3] = float("nan")
    turn = [guards.copy(part) for part in turned(torch.arange(9), [0.3] * 6)]
    y = rotate(guards.copy(x), *turn)
    assert y.isnan().any(-1).nonzero().flatten().tolist() == [4]


def test_no_rows_are_no_rows(guards: Guards):
    turn = guards.empty(0, 6)
    assert rotate(guards.empty(0, 12), turn, turn).shape == (0, 12)


def test_what_makes_no_sense_is_refused():
    with pytest.raises(ValueError, match="x has an odd number of features, 13"):
        rotate(torch.ones(2, 13), torch.ones(2, 6), torch.ones(2, 6))
    with pytest.raises(ValueError, match=r"cosine and sine differ: \(2, 6\) and \(2, 5\)"):
        rotate(torch.ones(2, 12), torch.ones(2, 6), torch.ones(2, 5))
    with pytest.raises(ValueError, match="x has 5 axes, not up to four"):
        rotate(torch.ones(1, 1, 1, 1, 2), torch.ones(1), torch.ones(1))


@drawn_often
@given(
    seed=st.integers(0, 10**6),
    at=st.lists(st.integers(0, 2000), min_size=2, max_size=2),
    further=st.integers(0, 2000),
    pairs=st.integers(1, 40),
)
def test_a_score_depends_on_the_distance_alone(seed, at, further, pairs, guards: Guards):
    speeds = [0.5 ** (m + 1) for m in range(pairs)]
    q = guards.copy(drawn(1, 2 * pairs, seed=seed))
    k = guards.copy(drawn(1, 2 * pairs, seed=seed + 1))

    def at_position(x: Tensor, i: int) -> Tensor:
        return rotate(x, *(guards.copy(part) for part in turned(torch.tensor([i]), speeds)))

    def score(i: int, j: int) -> float:
        ours = at_position(q, i)
        torch.testing.assert_close(ours.norm(), q.norm())
        return float((ours * at_position(k, j)).sum())

    here, there = score(*at), score(at[0] + further, at[1] + further)
    assert here == pytest.approx(there, abs=1e-5 * float(q.norm() * k.norm()))
