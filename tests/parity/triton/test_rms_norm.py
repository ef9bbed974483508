"""The kernel of the norm against its equation in float64."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from kernels.rms_norm import rms_norm
from model.norm import unit_rms
from tests.parity.triton.closeness import assert_near
from tests.parity.triton.guards import Guards
from tests.parity.triton.properties import drawn_often

EPS = 1e-5
SHAPES = [
    (1, 1),
    (3, 1),
    (1, 60),
    (2, 5, 100),
    (7, 128),
    (64, 2, 48),
    (65, 64),
    (2, 1536),
    (1, 7168),
]


def drawn(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


def reference(x: Tensor, weight: Tensor, eps: float = EPS) -> Tensor:
    return unit_rms(x.double(), eps) * weight.double()


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16], ids=str)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_it_equals_the_equation_at_odd_sizes(shape, dtype, guards: Guards):
    x = guards.copy(drawn(*shape).to(dtype))
    weight = guards.copy(drawn(shape[-1], seed=1).to(dtype))
    assert_near(rms_norm(x, weight, EPS), reference(x, weight))


def test_the_wider_of_two_dtypes_comes_out(guards: Guards):
    x, weight = guards.copy(drawn(5, 60).bfloat16()), guards.copy(drawn(60, seed=1))
    y = rms_norm(x, weight, EPS)
    assert y.dtype == torch.float32
    # the unit row is rounded to the input's dtype before the weight
    assert_near(y, unit_rms(x.double(), EPS).bfloat16().double() * weight.double())


def test_rows_may_be_slices_of_wider_rows(guards: Guards):
    x, weight = guards.copy(drawn(2, 3, 100), gap=28), guards.copy(drawn(100, seed=1))
    assert not x.is_contiguous()
    assert_near(rms_norm(x, weight, EPS), reference(x, weight))


def test_a_row_that_is_no_number_spoils_no_other_row(guards: Guards):
    x, weight = drawn(9, 100), guards.copy(drawn(100, seed=1))
    x[4, 7], x[6, 0] = float("nan"), float("inf")
    y = rms_norm(guards.copy(x), weight, EPS)
    good = [0, 1, 2, 3, 5, 7, 8]
    assert_near(y[good], reference(x, weight.cpu())[good])
    assert y[4].isnan().all()


def test_a_row_of_zeros_stays_zero_and_a_tiny_one_feels_epsilon(guards: Guards):
    x, weight = torch.zeros(2, 60), guards.copy(torch.ones(60))
    x[1] = 1e-4 * drawn(60)
    y = rms_norm(guards.copy(x), weight, EPS)
    assert not y[0].any()
    assert_near(y, reference(x, weight.cpu()))


def test_no_rows_are_no_rows(guards: Guards):
    none, weight = guards.copy(torch.ones(0, 60)), guards.copy(torch.ones(60))
    assert rms_norm(none, weight, EPS).shape == (0, 60)


def test_wrong_operands_are_named_all_at_once():
    with pytest.raises(ValueError, match=r"rms_norm: x is torch.float64.*weight is torch.int64"):
        rms_norm(torch.ones(2, 60).double(), torch.ones(60).long(), EPS)
    with pytest.raises(ValueError, match=r"weight is \(61,\), not \(60,\)"):
        rms_norm(torch.ones(2, 60), torch.ones(61), EPS)
    with pytest.raises(ValueError, match="the last axis of x is not contiguous"):
        rms_norm(torch.ones(60, 2).mT, torch.ones(60), EPS)


@drawn_often
@given(
    seed=st.integers(0, 10**6),
    rows=st.integers(1, 70),
    D=st.integers(1, 130),
    power=st.integers(-6, 6),
)
def test_any_row_comes_out_at_unit_size_whatever_its_own(seed, rows, D, power, guards: Guards):
    x, weight = drawn(rows, D, seed=seed), guards.copy(drawn(D, seed=seed + 1))
    scaled = guards.copy(x * 2.0**power)
    assert_near(rms_norm(scaled, weight, EPS), reference(scaled, weight))
    # without an epsilon a power of two cancels exactly, row by row
    assert torch.equal(rms_norm(scaled, weight, 0.0), rms_norm(guards.copy(x), weight, 0.0))
