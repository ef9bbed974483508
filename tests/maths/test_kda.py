"""The delta rule in chunks equals the delta rule row by row, and that equals the paper."""

import pytest
import torch

from model.init import give_storage
from model.kda import KimiDeltaAttention, delta_rule, delta_step, unit_length
from model.kda_chunk import chunked_delta_rule
from model.presets import tiny_k3

LENGTHS = (1, 2, 15, 16, 17, 31, 32, 33, 63, 64, 65, 130, 511, 512, 513, 1030)


def terms(pos, *, batch=2, heads=3, d_key=8, d_value=5, gate="bounded", seed=0):
    draw = torch.Generator().manual_seed(seed)

    def normal(*shape):
        return torch.randn(shape, generator=draw, dtype=torch.float64)

    q = unit_length(normal(batch, pos, heads, d_key)) * d_key**-0.5
    k = unit_length(normal(batch, pos, heads, d_key))
    v = normal(batch, pos, heads, d_value)
    beta = normal(batch, pos, heads).sigmoid()
    z = normal(batch, pos, heads, d_key) * 2
    log_decay = {
        "bounded": -5 * z.sigmoid(),
        "softplus": -8 * torch.nn.functional.softplus(z),
        "least": torch.full_like(z, -5.0),
        "none": torch.zeros_like(z),
    }[gate]
    return q, k, v, log_decay, beta, normal(batch, heads, d_value, d_key)


def same(chunked, row_by_row, bound):
    for name in ("written", "read"):
        a, b = getattr(chunked, name), getattr(row_by_row, name)
        assert (a - b).abs().max() <= bound * b.abs().max(), name
    a, b = chunked.borders[:, -1], row_by_row.borders[:, -1]
    assert (a - b).abs().max() <= bound * b.abs().max()


@pytest.mark.parametrize("gate", ["bounded", "softplus", "least", "none"])
@pytest.mark.parametrize("pos", LENGTHS)
def test_chunks_equal_the_recurrence_from_any_state(pos, gate):
    given = terms(pos, gate=gate)
    same(chunked_delta_rule(*given), delta_rule(*given), 1e-12)


@pytest.mark.parametrize("gate", ["bounded", "softplus", "least", "none"])
def test_float32_chunks_stay_near_the_float64_recurrence(gate):
    given = terms(130, gate=gate)
    single = chunked_delta_rule(*(x.float() for x in given))
    same(single, delta_rule(*given), 2e-5)


@pytest.mark.parametrize("gate", ["least", "none"])
def test_identical_keys_written_at_full_strength_stay_exact(gate):
    q, k, v, log_decay, beta, state = terms(130, gate=gate)
    k = k[:, :1].expand_as(k)
    given = q, k, v, log_decay, torch.full_like(beta, 0.999), state
    same(chunked_delta_rule(*given), delta_rule(*given), 1e-12)
    single = chunked_delta_rule(*(x.float() for x in given))
    same(single, delta_rule(*given), 1e-4)


def test_a_decay_that_empties_the_memory_leaves_numbers():
    q, k, v, log_decay, beta, state = terms(70, gate="softplus")
    log_decay = log_decay * 200
    single = chunked_delta_rule(*(x.float() for x in (q, k, v, log_decay, beta, state)))
    assert single.read.isfinite().all()
    same(single, delta_rule(q, k, v, log_decay, beta, state), 2e-5)


def test_a_state_is_kept_at_every_segment_border():
    given = terms(1030)
    borders = chunked_delta_rule(*given).borders
    assert borders.shape[1] == 3
    for index, end in enumerate((512, 1024, 1030)):
        part = [x[:, :end] for x in given[:5]]
        state = delta_rule(*part, given[5]).borders[:, 0]
        torch.testing.assert_close(borders[:, index], state, rtol=1e-11, atol=1e-12)


def test_the_step_is_the_form_of_the_paper():
    q, k, v, log_decay, beta, state = (
        x[:, 0] if x.ndim > 4 or i < 5 else x for i, x in enumerate(terms(1))
    )
    step = delta_step(q, k, v, log_decay, beta, state)
    keep = log_decay.exp()
    for b in range(2):
        for h in range(3):
            kk, s = k[b, h], state[b, h].T
            written = torch.outer(kk, v[b, h]) * beta[b, h]
            forget = torch.eye(8, dtype=kk.dtype) - beta[b, h] * torch.outer(kk, kk)
            paper = forget @ torch.diag(keep[b, h]) @ s + written
            torch.testing.assert_close(step.state[b, h].T, paper)
            # the read comes after the write
            torch.testing.assert_close(step.read[b, h], paper.T @ q[b, h])


def test_unit_length_adds_epsilon_to_the_sum_of_squares():
    x = torch.full((1, 4), 1e-3, dtype=torch.float64)
    expected = x / torch.sqrt(torch.tensor(4e-6 + 1e-6, dtype=torch.float64))
    torch.testing.assert_close(unit_length(x), expected)


def gate_of(bound, logit, rate):
    layer = KimiDeltaAttention(tiny_k3())
    give_storage(layer, "cpu", torch.float64)
    layer.gate_lower_bound = bound
    layer.A_log.fill_(rate)
    layer.dt_bias.fill_(logit)
    layer.f_b_proj.weight.zero_()
    return float(layer.forget_gate(torch.ones(1, 1, 8, dtype=torch.float64))[0, 0, 0, 0])


def test_the_bound_selects_another_function_and_is_no_clamp():
    e = torch.tensor(0.4).double().exp()
    x = torch.tensor(1.5).double()
    assert gate_of(-5.0, 1.5, 0.4) == pytest.approx(float(-5 * torch.sigmoid(e * x)))
    softplus = torch.nn.functional.softplus(x)
    assert gate_of(None, 1.5, 0.4) == pytest.approx(float(-e * softplus))


def test_the_recurrence_is_a_choice_of_whoever_builds_the_layer():
    layer = KimiDeltaAttention(tiny_k3(), recurrence=delta_rule)
    assert layer.recurrence is delta_rule
