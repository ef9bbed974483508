"""The gated norm of a mixer's read against the model's in float64."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from kernels.gated_rms_norm import gated_rms_norm
from model import norm
from tests.parity.triton.closeness import assert_near
from tests.parity.triton.guards import Guards
from tests.parity.triton.properties import drawn_often
from tests.parity.triton.references import drawn, wide

EPS = 1e-5
SHAPES = [(1, 1, 1), (1, 1, 128), (2, 5, 3, 60), (1, 65, 2, 100), (17, 4, 128), (3, 2, 1, 48)]


def reference(read: Tensor, gate: Tensor, weight: Tensor) -> Tensor:
    return norm.gated_rms_norm(wide(read), wide(gate), wide(weight), EPS)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_it_equals_the_model_at_odd_sizes(shape, dtype, guards: Guards):
    read, gate = (guards.copy(drawn(*shape, seed=s).to(dtype)) for s in (0, 1))
    weight = guards.copy(drawn(shape[-1], seed=2).to(dtype))
    assert_near(gated_rms_norm(read, gate, weight, EPS), reference(read, gate, weight))


def test_the_gate_may_be_a_slice_of_a_wide_projection(guards: Guards):
    projection = guards.copy(drawn(2, 5, 500))
    gate = projection[..., 120:420].unflatten(-1, (3, 100))
    read, weight = guards.copy(drawn(2, 5, 3, 100, seed=1)), guards.copy(drawn(100, seed=2))
    assert not gate.is_contiguous()
    assert_near(gated_rms_norm(read, gate, weight, EPS), reference(read, gate, weight))


def test_gates_far_from_zero_close_or_open_without_overflow(guards: Guards):
    gate = torch.tensor([-1e4, -90.0, -20.0, 0.0, 20.0, 1e4]).repeat(2, 1, 10)
    read, weight = guards.copy(drawn(2, 1, 60)), guards.copy(torch.ones(60))
    y = gated_rms_norm(read, guards.copy(gate), weight, EPS)
    assert_near(y, reference(read, gate, weight))


def test_each_head_has_its_own_norm_and_its_own_gate(guards: Guards):
    read, gate = drawn(3, 4, 60), drawn(3, 4, 60, seed=1)
    read, gate = read * torch.logspace(-3, 3, 4)[:, None], gate + torch.arange(4.0)[:, None]
    weight = guards.copy(drawn(60, seed=2))
    y = gated_rms_norm(guards.copy(read), guards.copy(gate), weight, EPS)
    for head in range(4):
        wanted = reference(read[:, head : head + 1], gate[:, head : head + 1], weight)
        assert_near(y[:, head : head + 1], wanted)


def test_a_head_that_is_no_number_spoils_no_other(guards: Guards):
    read, gate = drawn(5, 3, 60), drawn(5, 3, 60, seed=1)
    read[2, 1, 59] = float("nan")
    weight = guards.copy(drawn(60, seed=2))
    y = gated_rms_norm(guards.copy(read), guards.copy(gate), weight, EPS)
    assert y[2, 1].isnan().all()
    good = torch.ones(5, 3, dtype=torch.bool)
    good[2, 1] = False
    assert_near(y.cpu()[good], reference(read, gate, weight)[good])


def test_no_rows_are_no_rows(guards: Guards):
    none, weight = guards.copy(torch.ones(0, 2, 8)), guards.copy(torch.ones(8))
    assert gated_rms_norm(none, none, weight, EPS).shape == (0, 2, 8)


def test_a_gate_of_another_shape_is_refused():
    with pytest.raises(ValueError, match=r"gate is \(2, 8\), not \(2, 3, 8\)"):
        gated_rms_norm(torch.ones(2, 3, 8), torch.ones(2, 8), torch.ones(8), EPS)


@drawn_often
@given(
    seed=st.integers(0, 10**6),
    rows=st.integers(1, 40),
    heads=st.integers(1, 5),
    V=st.integers(1, 130),
    scale=st.sampled_from([0.01, 1.0, 10.0]),
)
def test_any_read_and_gate_equal_the_model(seed, rows, heads, V, scale, guards: Guards):
    read, gate = (guards.copy(scale * drawn(rows, heads, V, seed=seed + s)) for s in (0, 1))
    weight = guards.copy(drawn(V, seed=seed + 2))
    y = gated_rms_norm(read, gate, weight, EPS)
    assert_near(y, reference(read, gate, weight))
    # no head and no row sees another
    order = torch.randperm(rows, generator=torch.Generator().manual_seed(seed)).to(read.device)
    moved = (guards.copy(x[order].flip(1)) for x in (read, gate))
    assert torch.equal(gated_rms_norm(*moved, weight, EPS), y[order].flip(1))
