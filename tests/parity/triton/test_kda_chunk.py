"""The delta rule in chunks against the model's, row by row in float64."""

from dataclasses import replace

import pytest
import torch
from torch import Tensor

from kernels import kda_chunk, kda_prepare, kda_scan
from kernels.kda_chunk import chunked_delta_rule, kda_prefill
from kernels.kda_step import kda_step
from model.kda import delta_rule
from tests.parity.triton.closeness import assert_near
from tests.parity.triton.conftest import ON_GPU
from tests.parity.triton.guards import Guards
from tests.parity.triton.kda_references import GATES, Raw, draw, reference, terms_of
from tests.parity.triton.references import wide

DTYPES = (torch.float32, torch.bfloat16)
LENGTHS = (1, 2, 15, 16, 17, 63, 64, 65, 130)
WIDTHS = ((100, 60), (128, 48), (16, 130), (1, 2), (200, 16))


def assert_equals_the_recurrence(
    raw: Raw, guards: Guards, dtype: torch.dtype = torch.float32, **options: int
) -> None:
    held = raw.guarded(guards, dtype)
    read, state = kda_prefill(**held, **options)
    wanted, kept = reference(held)
    assert_near(read, wanted)
    assert state.dtype == torch.float32
    assert_near(state.to(dtype), kept)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("bound", GATES.values(), ids=GATES)
@pytest.mark.parametrize("pos", LENGTHS)
def test_it_equals_the_recurrence_at_every_length(pos, bound, dtype, guards: Guards):
    assert_equals_the_recurrence(draw(pos, heads=1, bound=bound), guards, dtype)


@pytest.mark.parametrize("widths", WIDTHS, ids=str)
def test_it_equals_the_recurrence_whatever_the_widths(widths, guards: Guards):
    assert_equals_the_recurrence(draw(37, batch=2, heads=1, widths=widths), guards)


@pytest.mark.parametrize("pos", [5, 16, 47, 65])
@pytest.mark.parametrize("chunk", [16, 64])
def test_the_size_of_a_chunk_changes_nothing(chunk, pos, guards: Guards):
    assert_equals_the_recurrence(draw(pos, heads=1), guards, chunk=chunk)


@pytest.mark.parametrize("lengths", [(63, 1), (0, 64), (33, 32), (1, 0)], ids=str)
def test_sequences_of_unlike_lengths_are_as_each_alone(lengths, guards: Guards):
    raw = replace(draw(64, batch=2, heads=1), lengths=torch.tensor(lengths))
    for name in ("q", "k", "v", "gate_logit", "beta_logit"):
        for row, length in enumerate(lengths):
            getattr(raw, name)[row, length:] = float("nan")
    assert_equals_the_recurrence(raw, guards)


def test_channels_and_rows_beside_the_given_ones_are_not_read(guards: Guards):
    raw = draw(33, widths=(60, 100))
    held = raw.guarded(guards)
    for name in ("q", "k", "v", "gate_logit"):
        held[name] = guards.copy(getattr(raw, name), gap=68)
    read, state = kda_prefill(**held)
    wanted, kept = reference(held)
    assert_near(read, wanted)
    assert_near(state, kept)


def test_inputs_lie_anywhere_in_wider_projections(guards: Guards):
    raw = draw(20, batch=2, heads=2)
    held = raw.guarded(guards)
    projection = guards.empty(2, 20, 700)
    for name, start in (("q", 10), ("k", 200), ("gate_logit", 400)):
        projection[..., start : start + 120] = getattr(raw, name).flatten(-2)
        held[name] = projection[..., start : start + 120].unflatten(-1, (2, 60))
    betas = guards.copy(torch.stack([raw.beta_logit, torch.ones(2, 20, 2)], -1).flatten(-2))
    held["beta_logit"] = betas[..., ::2]
    held["state"] = guards.copy(torch.stack([raw.state.roll(1), raw.state], 1))[:, -1]
    read, state = kda_prefill(**held)
    wanted, kept = reference(held)
    assert_near(read, wanted)
    assert_near(state, kept)


@pytest.mark.parametrize("bound", GATES.values(), ids=GATES)
def test_every_head_has_its_own_gate(bound, guards: Guards):
    raw = draw(40, heads=3, widths=(32, 48), bound=bound)
    raw.A_log = torch.tensor([-6.0, 0.0, 2.7])
    raw.dt_bias = torch.tensor([-8.0, -1.0, 6.0]).repeat_interleave(32)
    raw.beta_logit = torch.tensor([-9.0, 1.0, 9.0]).expand(1, 40, 3)
    held = raw.guarded(guards)
    read, state = kda_prefill(**held)
    wanted, kept = reference(held)
    for head in range(3):
        assert_near(read[:, :, head], wanted[:, :, head])
        assert_near(state[:, head], kept[:, head])


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("bound", GATES.values(), ids=GATES)
@pytest.mark.parametrize("logit", [-1e4, -8.0, 8.0, 1e4])
def test_gates_at_either_end_neither_overflow_nor_vanish(logit, bound, dtype, guards: Guards):
    raw = draw(40, heads=1, widths=(32, 48), bound=bound)
    raw.gate_logit, raw.dt_bias = torch.full_like(raw.gate_logit, logit), torch.zeros(32)
    raw.A_log = torch.tensor([2.0])
    assert_equals_the_recurrence(raw, guards, dtype)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("bias", ["spread", "far apart"])
def test_channels_that_forget_at_unlike_rates_do_not_mix(bias, dtype, guards: Guards):
    raw = draw(48, heads=1, widths=(64, 48))
    rates = torch.linspace(-8, 8, 64) if bias == "spread" else torch.tensor([-8.0, 8.0]).repeat(32)
    raw.dt_bias, raw.gate_logit = rates, raw.gate_logit * 8
    assert_equals_the_recurrence(raw, guards, dtype)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("apart", [0.0, 1e-3], ids=["identical", "nearly collinear"])
def test_identical_keys_with_full_writes_and_no_decay_stay_finite(apart, dtype, guards: Guards):
    raw = draw(130, heads=1)
    raw.k = raw.k[:, :1] + apart * raw.k
    raw.beta_logit = torch.full_like(raw.beta_logit, 7.0)
    raw.gate_logit = torch.full_like(raw.gate_logit, -40.0)
    # the error of one rounded value, which such keys hand down to the rows that follow
    held = raw.guarded(guards, dtype)
    read, state = kda_prefill(**held)
    wanted, kept = reference(held)
    assert_near(read, wanted)
    assert_near(state.to(dtype), kept)


@pytest.mark.skipif(ON_GPU, reason="a GPU takes products of ten bits by itself")
@pytest.mark.parametrize("apart", [0.0, 1.0], ids=["identical keys", "random keys"])
def test_ten_bits_of_a_factor_are_enough_beside_bfloat16(apart, guards: Guards, monkeypatch):
    for module in (kda_prepare, kda_scan):
        monkeypatch.setattr(module, "precision_of_float32", lambda dtype: "tf32")
    raw = draw(70, heads=1)
    raw.k = raw.k[:, :1] + apart * raw.k
    raw.beta_logit = raw.beta_logit + 5.0
    assert_equals_the_recurrence(raw, guards, torch.bfloat16)


def test_a_value_that_is_no_number_spoils_no_other_sequence_and_no_other_head(guards: Guards):
    raw = draw(33, batch=2, heads=2, widths=(32, 48))
    wanted, kept = reference(raw.guarded(guards))
    raw.v[0, 3, 0, 5] = raw.gate_logit[0, 4, 0, 2] = float("nan")
    raw.k[0, 20, 0, 7], raw.state[0, 0, 1, 1] = float("inf"), float("nan")
    read, state = kda_prefill(**raw.guarded(guards))
    assert read[0, :, 0].isnan().any()
    assert_near(read[1], wanted[1])
    assert_near(read[0, :, 1], wanted[0, :, 1])
    assert_near(state[1], kept[1])
    assert_near(state[0, 1], kept[0, 1])


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_a_prompt_in_parts_and_then_steps_is_the_prompt_whole(dtype, guards: Guards):
    raw = draw(70, batch=2, heads=1)
    whole = raw.guarded(guards, dtype)
    wanted, kept = kda_prefill(**whole)
    reads, state = [], whole["state"]
    for start, end in ((0, 31), (31, 64), (64, 68), (68, 69), (69, 70)):
        part = {
            name: x[:, start:end] if isinstance(x, Tensor) and x.ndim > 2 else x
            for name, x in whole.items()
        }
        one = kda_step if end - start == 1 else kda_prefill
        read, state = one(**part | {"state": state})
        reads.append(read)
    assert_near(torch.cat(reads, 1), wanted)
    assert_near(state.to(dtype), kept)


@pytest.mark.parametrize("pos", [1, 17, 65, 545])
def test_the_function_of_the_model_is_served_with_all_its_results(pos, guards: Guards):
    raw = draw(pos, heads=1, widths=(16, 24))
    terms = {name: guards.copy(x.float()) for name, x in terms_of(raw.guarded(guards)).items()}
    written, read, borders = chunked_delta_rule(**terms)
    exact = {name: wide(x) for name, x in terms.items()}
    wanted = delta_rule(*exact.values())
    assert_near(written, wanted.written)
    assert_near(read, wanted.read)
    assert borders.shape[1] == -(-pos // kda_chunk.SEGMENT)
    assert_near(borders[:, -1], wanted.borders[:, -1])
    if pos > kda_chunk.SEGMENT:
        first = delta_rule(
            *(x if name == "state" else x[:, : kda_chunk.SEGMENT] for name, x in exact.items())
        )
        assert_near(borders[:, 0], first.borders[:, -1])


def test_terms_beside_the_given_ones_are_not_read(guards: Guards):
    raw = draw(21, heads=2, widths=(20, 24))
    given = {name: x.float() for name, x in terms_of(raw.guarded(guards)).items()}
    gaps = {"q": 12, "k": 12, "v": 8, "log_decay": 12}
    terms = {name: guards.copy(x, gap=gaps.get(name, 0)) for name, x in given.items()}
    written, read, borders = chunked_delta_rule(**terms)
    wanted = delta_rule(*(wide(x) for x in terms.values()))
    assert_near(written, wanted.written)
    assert_near(read, wanted.read)
    assert_near(borders[:, -1], wanted.borders[:, -1])


@pytest.mark.parametrize("deepest", [-1000.0, -1e30, -float("inf")])
def test_single_rows_that_forget_everything_leave_the_rest_exact(deepest, guards: Guards):
    raw = draw(40, heads=1, widths=(32, 48))
    terms = {name: guards.copy(x.float()) for name, x in terms_of(raw.guarded(guards)).items()}
    steep = torch.zeros(1, 40, 1, 32)
    steep[:, [3, 4, 16, 20, 39]], steep[:, 7, :, ::2] = deepest, deepest
    # between them, decays that a sum with the deep ones would round away
    terms["log_decay"] = guards.copy(terms["log_decay"].cpu() / 100 + steep)
    written, read, borders = chunked_delta_rule(**terms)
    wanted = delta_rule(*(wide(x).clamp(min=-1e30) for x in terms.values()))
    assert_near(written, wanted.written)
    assert_near(read, wanted.read)
    assert_near(borders, wanted.borders)


def test_rows_without_any_decay_or_write_change_nothing(guards: Guards):
    raw = draw(40, heads=1, widths=(32, 48))
    terms = {name: guards.copy(x.float()) for name, x in terms_of(raw.guarded(guards)).items()}
    terms["log_decay"].zero_()
    terms["beta"].zero_()
    written, _, borders = chunked_delta_rule(**terms)
    assert not written.any()
    assert torch.equal(borders[:, -1], terms["state"])


def test_no_positions_leave_the_state_as_it_is(guards: Guards):
    held = draw(0, heads=1).guarded(guards)
    read, state = kda_prefill(**held)
    assert read.shape == (1, 0, 1, 100)
    assert torch.equal(state, held["state"])
    assert state.data_ptr() != held["state"].data_ptr()


def test_wrong_operands_are_named_all_at_once(guards: Guards):
    raw = draw(3).guarded(guards)
    with pytest.raises(ValueError, match=r"v is \(1, 3, 4, 100\), not \(1, 3, 2, 100\)"):
        kda_prefill(**raw | {"v": torch.ones(1, 3, 4, 100)})
    with pytest.raises(ValueError, match=r"gate is \(1, 3, 2\), not \(1, 3, 2, 60\)"):
        kda_prefill(**raw | {"gate_logit": raw["beta_logit"]})
    with pytest.raises(ValueError, match=r"dt_bias is \(60,\), not \(120,\)"):
        kda_prefill(**raw | {"dt_bias": raw["dt_bias"][:60]})
    with pytest.raises(ValueError, match=r"lengths is \(2,\), not a contiguous \(1,\)"):
        kda_prefill(**raw | {"lengths": torch.tensor([1, 2])})
    with pytest.raises(ValueError, match="a chunk has 16, 32 or 64 rows, not 48"):
        kda_prefill(**raw, chunk=48)
