"""One position of the delta rule against the model's in float64."""

from dataclasses import replace

import pytest
import torch

from kernels.kda_step import kda_step
from tests.parity.triton.closeness import assert_near
from tests.parity.triton.guards import Guards
from tests.parity.triton.kda_references import GATES, draw, reference

WIDTHS = [(128, 128), (60, 100), (100, 60), (48, 130), (1, 2), (256, 16)]


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize("widths", WIDTHS, ids=str)
@pytest.mark.parametrize("bound", GATES.values(), ids=GATES)
def test_it_equals_the_model_whatever_the_widths(bound, widths, dtype, guards: Guards):
    raw = draw(1, batch=2, heads=3, widths=widths, bound=bound).guarded(guards, dtype)
    read, state = kda_step(**raw)
    wanted, kept = reference(raw)
    assert_near(read, wanted)
    # the memory is float32 whatever its inputs are
    assert_near(state, kept)
    assert state.dtype == torch.float32


def test_channels_beyond_the_keys_are_not_read(guards: Guards):
    raw = draw(1, widths=(60, 100)).guarded(guards)
    for name in ("q", "k", "v", "gate_logit"):
        raw[name] = guards.copy(raw[name], gap=68)
    read, state = kda_step(**raw)
    wanted, kept = reference(raw)
    assert_near(read, wanted)
    assert_near(state, kept)


@pytest.mark.parametrize("bound", GATES.values(), ids=GATES)
def test_every_head_has_its_own_gate(bound, guards: Guards):
    raw = draw(1, heads=4, bound=bound)
    raw.A_log = torch.tensor([-6.0, -1.0, 1.0, 2.7])
    raw.dt_bias = torch.tensor([-8.0, -2.0, 0.0, 6.0]).repeat_interleave(60)
    raw.beta_logit = torch.tensor([-9.0, -1.0, 1.0, 9.0]).expand(1, 1, 4)
    held = raw.guarded(guards)
    read, state = kda_step(**held)
    wanted, kept = reference(held)
    for head in range(4):
        assert_near(read[:, :, head], wanted[:, :, head])
        assert_near(state[:, head], kept[:, head])


@pytest.mark.parametrize("bias", [-1e4, -100.0, -30.0, 30.0, 100.0, 1e4])
@pytest.mark.parametrize("bound", GATES.values(), ids=GATES)
def test_a_gate_at_either_end_is_exact(bound, bias, guards: Guards):
    raw = draw(1, bound=bound)
    raw.gate_logit = raw.gate_logit + bias
    held = raw.guarded(guards)
    read, state = kda_step(**held)
    wanted, kept = reference(held)
    assert_near(read, wanted)
    assert_near(state, kept)


def test_a_gate_nearly_shut_still_forgets_over_many_steps(guards: Guards):
    raw = draw(1, heads=1, widths=(16, 24), bound=None)
    raw.dt_bias = torch.full((16,), -12.0)
    raw.A_log, raw.gate_logit = torch.tensor([9.0]), torch.zeros_like(raw.gate_logit)
    raw.beta_logit = torch.full((1, 1, 1), -1e4)
    held = raw.guarded(guards)
    for _ in range(40):
        held["state"] = kda_step(**held)[1]
    # a softplus that rounds 1 + e^z would be 2 % off by now
    rate = torch.tensor(9.0).double().exp() * torch.tensor(-12.0).double().exp().log1p()
    assert_near(held["state"], raw.state.double() * (-40 * rate).exp(), 2e-5)


def test_zero_keys_write_and_read_nothing(guards: Guards):
    raw = draw(1)
    raw.k, raw.q = torch.zeros_like(raw.k), torch.zeros_like(raw.q)
    held = raw.guarded(guards)
    read, state = kda_step(**held)
    assert not read.any()
    assert_near(state, reference(held)[1])


def test_a_sequence_of_padding_keeps_its_memory_and_reads_zero(guards: Guards):
    raw = replace(draw(1, batch=3), lengths=torch.tensor([1, 0, 1]))
    raw.v[1] = raw.q[1] = raw.gate_logit[1] = float("nan")
    held = raw.guarded(guards)
    read, state = kda_step(**held)
    assert torch.equal(state[1], held["state"][1])
    assert not read[1].any()
    wanted, kept = reference(held)
    assert_near(read, wanted)
    assert_near(state, kept)


def test_one_sequence_that_is_no_number_spoils_no_other(guards: Guards):
    raw = draw(1, batch=3)
    raw.state[0, 0, 0, 0], raw.k[0] = float("nan"), float("inf")
    held = raw.guarded(guards)
    read, state = kda_step(**held)
    wanted, kept = reference(held)
    assert_near(read[1:], wanted[1:])
    assert_near(state[1:], kept[1:])
    assert read[0].isnan().any()


def test_inputs_lie_anywhere_in_wider_projections(guards: Guards):
    raw = draw(1, batch=2, heads=3)
    held = raw.guarded(guards)
    projection = guards.empty(2, 1, 1000)
    for name, start in (("q", 10), ("k", 200), ("gate_logit", 400)):
        projection[..., start : start + 180] = getattr(raw, name).flatten(-2)
        held[name] = projection[..., start : start + 180].unflatten(-1, (3, 60))
    betas = guards.copy(torch.stack([raw.beta_logit, torch.zeros(2, 1, 3)], -1).flatten(-2))
    held["beta_logit"] = betas[..., ::2]
    borders = guards.copy(torch.stack([raw.state.roll(1), raw.state], 1))
    held["state"] = borders[:, -1]
    read, state = kda_step(**held)
    wanted, kept = reference(held)
    assert_near(read, wanted)
    assert_near(state, kept)


def test_wrong_operands_are_named_all_at_once(guards: Guards):
    raw = draw(1).guarded(guards)
    with pytest.raises(ValueError, match=r"k is \(1, 1, 2, 59\), not \(1, 1, 2, 60\)"):
        kda_step(**raw | {"k": raw["k"][..., :59]})
    with pytest.raises(ValueError, match=r"gate is \(1, 1, 2\)"):
        kda_step(**raw | {"gate_logit": raw["beta_logit"]})
    with pytest.raises(ValueError, match=r"state is torch\.bfloat16, not float32"):
        kda_step(**raw | {"state": raw["state"].bfloat16()})
    with pytest.raises(ValueError, match=r"state is \(1, 2, 60, 100\), not \(1, 2, 100, 60\)"):
        kda_step(**raw | {"state": raw["state"].mT.contiguous()})
    with pytest.raises(ValueError, match="257 key channels, of which a program holds up to 256"):
        kda_step(**draw(1, widths=(257, 8)).guarded(guards))
    with pytest.raises(ValueError, match="one position a call, not 2"):
        kda_step(**draw(2).guarded(guards))
