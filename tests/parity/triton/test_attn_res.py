"""The kernel of the attention residual against the model's layer in float64."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from kernels.attn_res import read_sources
from tests.parity.triton.closeness import assert_near
from tests.parity.triton.guards import Guards
from tests.parity.triton.properties import drawn_often
from tests.parity.triton.references import drawn, mix_of_sources

EPS = 1e-5


def case(S: int, D: int, rows: tuple[int, ...] = (2, 3), seed: int = 0) -> list[Tensor]:
    """Residual, bank, and the two vectors that make a query of spread-out scores."""
    residual, bank = drawn(*rows, D, seed=seed), drawn(*rows, S, D, seed=seed + 1)
    norm, proj = 1 + 0.1 * drawn(D, seed=seed + 2), drawn(D, seed=seed + 3) / D**0.5
    return [residual, bank, norm, proj]


def compare(tensors: list[Tensor], guards: Guards, gap: int = 0) -> Tensor:
    given = [guards.copy(x, gap=gap) for x in tensors]
    y = read_sources(*given, EPS)
    assert_near(y, mix_of_sources(*tensors, EPS))
    return y


@pytest.mark.parametrize("D", [1, 2, 60, 100, 128, 130])
@pytest.mark.parametrize("S", [0, 1, 2, 8])
def test_it_equals_the_layer_for_every_number_of_sources(S, D, guards: Guards):
    compare(case(S, D), guards)


@pytest.mark.parametrize("rows", [(1, 1), (15,), (1, 17), (2, 65)], ids=str)
def test_every_row_reads_its_own_sources(rows, guards: Guards):
    compare(case(3, 48, rows), guards)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
def test_it_equals_the_layer_in_half_precision_at_the_width_of_k3(dtype, guards: Guards):
    compare([x.to(dtype) for x in case(8, 7168, (2,))], guards)


def test_an_empty_bank_leaves_the_running_sum_as_it_is(guards: Guards):
    residual, *others = (guards.copy(x) for x in case(0, 100))
    assert torch.equal(read_sources(residual, *others, EPS), residual)


def test_values_are_raw_and_only_scores_see_the_norm(guards: Guards):
    residual, bank, norm, proj = case(4, 60)
    bank[..., 2, :] *= 1e4
    y = compare([residual, bank, norm, proj], guards)
    assert y.abs().max() > 100


def test_scores_far_apart_do_not_overflow(guards: Guards):
    residual, bank, norm, proj = case(5, 100)
    y = compare([residual, bank, norm, 1e4 * proj], guards)
    assert y.isfinite().all()


def test_memory_beside_a_row_is_not_read(guards: Guards):
    compare(case(3, 100), guards, gap=28)


def test_a_bank_may_be_part_of_a_longer_one(guards: Guards):
    residual, bank, norm, proj = (guards.copy(x) for x in case(8, 60))
    y = read_sources(residual, bank[..., :3, :], norm, proj, EPS)
    assert_near(y, mix_of_sources(residual, bank[..., :3, :], norm, proj, EPS))


def test_a_source_that_lives_on_is_never_written_over(guards: Guards):
    tensors = [guards.copy(x) for x in case(8, 60)]
    before = [x.clone() for x in tensors]
    y = read_sources(*tensors, EPS)
    assert all(torch.equal(x, old) for x, old in zip(tensors, before, strict=True))
    assert y.untyped_storage().data_ptr() not in {x.untyped_storage().data_ptr() for x in tensors}


def test_a_token_that_is_no_number_spoils_no_other_token(guards: Guards):
    tensors = case(4, 60, rows=(7,))
    tensors[0][2, 5], tensors[1][4, 1, 9] = float("nan"), float("nan")
    y = compare(tensors, guards)
    assert y.isnan().all(-1).nonzero().flatten().tolist() == [2, 4]


def test_no_rows_are_no_rows(guards: Guards):
    residual, bank, norm, proj = (guards.copy(x) for x in case(3, 60, rows=(0,)))
    assert read_sources(residual, bank, norm, proj, EPS).shape == (0, 60)


def test_what_makes_no_sense_is_refused():
    residual, bank, norm, proj = case(3, 60)
    with pytest.raises(ValueError, match=r"bank is \(2, 3, 3, 59\), not \(2, 3, 3, 60\)"):
        read_sources(residual, bank[..., :59], norm, proj, EPS)
    with pytest.raises(ValueError, match=r"norm_weight is \(1,\), not \(60,\); proj_weight is"):
        read_sources(residual, bank, norm[:1], proj[:2], EPS)
    with pytest.raises(ValueError, match="the last axis of bank is not contiguous"):
        read_sources(residual, bank.mT.contiguous().mT, norm, proj, EPS)


@drawn_often
@given(seed=st.integers(0, 10**6), S=st.integers(0, 8), D=st.integers(1, 70))
def test_a_mix_lies_between_its_sources_in_any_order(seed, S, D, guards: Guards):
    residual, bank, norm, proj = (guards.copy(x) for x in case(S, D, rows=(2,), seed=seed))
    y = read_sources(residual, bank, norm, proj, EPS)
    sources = torch.cat([bank, residual[:, None]], dim=1)
    slack = 1e-5 * sources.abs().amax(1)
    assert (y <= sources.amax(1) + slack).all()
    assert (y >= sources.amin(1) - slack).all()
    order = torch.randperm(S, generator=torch.Generator().manual_seed(seed))
    again = read_sources(residual, guards.copy(bank[:, order]), norm, proj, EPS)
    assert_near(again, y.double(), 1e-5)
