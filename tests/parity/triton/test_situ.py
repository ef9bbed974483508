"""The kernel of SiTU and SwiGLU against the model's functions in float64."""

from functools import partial

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from kernels import situ as kernel
from model import situ as model
from tests.parity.triton.closeness import assert_near
from tests.parity.triton.guards import Guards
from tests.parity.triton.properties import drawn_often
from tests.parity.triton.references import drawn, wide

BETA, LINEAR_BETA = 4.0, 25.0
ACTIVATIONS = {
    "situ": (
        partial(kernel.situ, beta=BETA, linear_beta=LINEAR_BETA),
        partial(model.situ, beta=BETA, linear_beta=LINEAR_BETA),
    ),
    "situ without a cap on up": (
        partial(kernel.situ, beta=BETA, linear_beta=None),
        partial(model.situ, beta=BETA, linear_beta=None),
    ),
    "swiglu": (kernel.swiglu, model.swiglu),
}
activations = pytest.mark.parametrize(
    ("ours", "reference"), ACTIVATIONS.values(), ids=list(ACTIVATIONS)
)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16], ids=str)
@pytest.mark.parametrize("shape", [(1,), (1, 1), (3, 60), (2, 5, 100), (2, 1025)], ids=str)
@activations
def test_it_equals_the_model_at_odd_sizes(ours, reference, shape, dtype, guards: Guards):
    gate = guards.copy((4 * drawn(*shape)).to(dtype))
    up = guards.copy((20 * drawn(*shape, seed=1)).to(dtype))
    assert_near(ours(gate, up), reference(wide(gate), wide(up)))


@activations
def test_gate_and_up_may_be_halves_of_one_product(ours, reference, guards: Guards):
    both = guards.copy(drawn(3, 7, 100), gap=20)
    gate, up = both.split(50, dim=-1)
    assert_near(ours(gate, up), reference(wide(gate), wide(up)))


@activations
def test_each_value_is_right_at_every_magnitude(ours, reference, guards: Guards):
    sizes = torch.logspace(-30, 1.9, 4000)
    x = torch.cat([sizes, -sizes, torch.linspace(-4.0, 4.0, 2001)])
    gate, up = guards.copy(x), guards.copy(x.roll(1000))
    wanted = reference(wide(gate), wide(up))
    # an exponent of a hundred is itself rounded to seven digits, wherever powers are taken
    torch.testing.assert_close(ours(gate, up).cpu().double(), wanted, rtol=1e-5, atol=1e-37)
    near = gate.abs().cpu() < 4
    torch.testing.assert_close(
        ours(gate, up).cpu().double()[near], wanted[near], rtol=1e-6, atol=1e-37
    )


def test_situ_stays_below_the_product_of_its_caps(guards: Guards):
    huge = guards.copy(torch.tensor([1e30, -1e30, 3e38, float("inf"), 1e4, -50.0]))
    y = kernel.situ(huge, huge, BETA, LINEAR_BETA)
    limit = BETA * LINEAR_BETA
    assert y.tolist() == pytest.approx([limit, 0, limit, limit, limit, 0], abs=1e-18)


@activations
def test_a_value_that_is_no_number_spoils_only_itself(ours, reference, guards: Guards):
    gate, up = drawn(40), drawn(40, seed=1)
    gate[3], up[17] = float("nan"), float("nan")
    y = ours(guards.copy(gate), guards.copy(up))
    assert_near(y, reference(wide(gate), wide(up)))
    assert y.isnan().nonzero().flatten().tolist() == [3, 17]


@activations
def test_no_rows_are_no_rows(ours, reference, guards: Guards):
    assert ours(guards.empty(0, 60), guards.empty(0, 60)).shape == (0, 60)


def test_what_makes_no_sense_is_refused():
    x = torch.ones(2, 60)
    with pytest.raises(ValueError, match=r"swiglu: up is \(2, 61\), not \(2, 60\)"):
        kernel.swiglu(x, torch.ones(2, 61))
    with pytest.raises(ValueError, match=r"gate is torch\.float64"):
        kernel.swiglu(x.double(), x)
    with pytest.raises(ValueError, match=r"must be positive, not 0\.0, 25\.0"):
        kernel.situ(x, x, 0.0, 25.0)
    with pytest.raises(ValueError, match=r"must be positive, not 4\.0, -1\.0"):
        kernel.situ(x, x, 4.0, -1.0)


@drawn_often
@given(seed=st.integers(0, 10**6), width=st.integers(1, 1200))
def test_situ_turns_its_sign_with_up_and_grows_with_it(seed, width, guards: Guards):
    gate = guards.copy(5 * drawn(width, seed=seed))
    up = guards.copy(40 * drawn(width, seed=seed + 1))
    y = kernel.situ(gate, up, BETA, LINEAR_BETA)
    assert torch.equal(kernel.situ(gate, -up, BETA, LINEAR_BETA), -y)
    assert (kernel.situ(gate, 2 * up, BETA, LINEAR_BETA).abs() >= y.abs()).all()
