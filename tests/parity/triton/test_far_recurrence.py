"""Offsets beyond what 32 bits count, in the norms, the convolution and the recurrence."""

import pytest
import torch
from torch import Tensor

from kernels.gated_rms_norm import gated_rms_norm
from kernels.kda_chunk import kda_prefill
from kernels.kda_step import kda_step
from kernels.rms_norm import rms_norm
from kernels.short_conv import short_convolution
from model.norm import unit_rms
from tests.parity.triton.closeness import assert_near
from tests.parity.triton.guards import Guards
from tests.parity.triton.kda_references import draw, reference
from tests.parity.triton.references import drawn, wide

APART = 2**30
"""Values from one row to the next; the third lies where a 32-bit offset has turned negative."""
LARGEST = 8192
ROWS = ("q", "k", "v", "gate_logit", "beta_logit")


@pytest.fixture(scope="module")
def far(device) -> Tensor:
    """Memory that is reserved, and of which only what is touched exists."""
    return torch.empty(2 * APART + LARGEST, dtype=torch.float32, device=device)


def spread(far: Tensor, x: Tensor, axis: int) -> Tensor:
    """The values of `x`, whose three places along `axis` lie far from each other."""
    moved = x.transpose(0, axis)
    inner = torch.empty(moved.shape[1:], device="meta").stride()
    return far.as_strided(moved.shape, (APART, *inner)).copy_(moved).transpose(0, axis)


def test_rows_of_a_norm_may_lie_far_apart(far, guards: Guards):
    x, weight = drawn(3, 60), drawn(60, seed=1)
    y = rms_norm(spread(far, x, 0), guards.copy(weight), 1e-5)
    assert_near(y, unit_rms(wide(x), 1e-5) * wide(weight))


@pytest.mark.parametrize("axis", [0, 1], ids=["position", "head"])
def test_reads_and_gates_of_a_norm_may_lie_far_apart(axis, far, guards: Guards):
    x, weight = drawn(3, 3, 60), drawn(60, seed=1)
    apart = spread(far, x, axis)
    wanted = gated_rms_norm(guards.copy(x), guards.copy(x), guards.copy(weight), 1e-5)
    assert torch.equal(gated_rms_norm(apart, apart, guards.copy(weight), 1e-5), wanted)


@pytest.mark.parametrize("axis", [0, 1], ids=["sequence", "position"])
def test_rows_of_a_convolution_may_lie_far_apart(axis, far, guards: Guards):
    x, weight, state = drawn(3, 3, 60), guards.copy(drawn(60, 4)), guards.copy(drawn(3, 60, 4))
    y, new = short_convolution(spread(far, x, axis), weight, state)
    wanted, kept = short_convolution(guards.copy(x), weight, state)
    assert torch.equal(y, wanted)
    assert torch.equal(new, kept)


def test_states_of_a_convolution_may_lie_far_apart(far, guards: Guards):
    x, weight, state = guards.copy(drawn(3, 3, 60)), guards.copy(drawn(60, 4)), drawn(3, 60, 4)
    y, new = short_convolution(x, weight, spread(far, state, 0))
    wanted, kept = short_convolution(x, weight, guards.copy(state))
    assert torch.equal(y, wanted)
    assert torch.equal(new, kept)


@pytest.mark.parametrize("name", [*ROWS, "state"])
@pytest.mark.parametrize("axis", [0, 2], ids=["sequence", "head"])
def test_what_a_step_reads_may_lie_far_apart(axis, name, far, guards: Guards):
    raw = draw(1, batch=3, heads=3, widths=(16, 24))
    held = raw.guarded(guards)
    place = 1 if name == "state" and axis == 2 else axis
    held[name] = spread(far, getattr(raw, name), place)
    read, state = kda_step(**held)
    wanted, kept = reference(held)
    assert_near(read, wanted)
    assert_near(state, kept)


@pytest.mark.parametrize(
    ("name", "axis"), [*((name, axis) for name in ROWS for axis in (0, 1)), ("state", 0)]
)
def test_what_a_prompt_reads_may_lie_far_apart(name, axis, far, guards: Guards):
    raw = draw(3, batch=3, heads=1, widths=(16, 24))
    held = raw.guarded(guards)
    held[name] = spread(far, getattr(raw, name), axis)
    read, state = kda_prefill(**held)
    wanted, kept = reference(held)
    assert_near(read, wanted)
    assert_near(state, kept)
