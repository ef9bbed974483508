"""Faults planted in our model must break parity: a test that cannot fail proves nothing."""

from collections.abc import Callable
from dataclasses import replace

import pytest
import torch
from torch import Tensor

from model import kda
from model.kda import Step, delta_rule
from model.kimi import KimiLM
from tests.parity.cases import CASES, label
from tests.parity.comparison import Comparison, load_ours, run_logits
from tests.parity.test_k3_oracle import LOGITS

pytestmark = pytest.mark.oracle

TRIED = [label(case, shrink) for case in CASES[:2] for shrink in (False, True)]

Plant = Callable[[KimiLM, pytest.MonkeyPatch], None]


def recall_with_the_wrong_sign(lm: KimiLM, patch: pytest.MonkeyPatch) -> None:
    def step(
        q: Tensor, k: Tensor, v: Tensor, log_decay: Tensor, beta: Tensor, state: Tensor
    ) -> Step:
        retention = log_decay.exp()
        decayed = retention[..., None, :] * state
        recalled = torch.einsum("...vk,...k->...v", decayed, k)
        written = beta[..., None] * (v + recalled)
        return _write_and_read(q, k, retention, decayed, recalled, written)

    _use_step(lm, patch, step)


def decay_after_the_error(lm: KimiLM, patch: pytest.MonkeyPatch) -> None:
    def step(
        q: Tensor, k: Tensor, v: Tensor, log_decay: Tensor, beta: Tensor, state: Tensor
    ) -> Step:
        recalled = torch.einsum("...vk,...k->...v", state, k)
        retention = log_decay.exp()
        decayed = retention[..., None, :] * state
        written = beta[..., None] * (v - recalled)
        return _write_and_read(q, k, retention, decayed, recalled, written)

    _use_step(lm, patch, step)


def latent_norms_with_the_epsilon_of_the_others(lm: KimiLM, patch: pytest.MonkeyPatch) -> None:
    for module in lm.modules():
        for name in ("q_a_layernorm", "kv_a_layernorm"):
            if hasattr(module, name):
                patch.setattr(getattr(module, name), "eps", 1e-5)


def unit_length_with_the_epsilon_of_norms(lm: KimiLM, patch: pytest.MonkeyPatch) -> None:
    patch.setattr(kda, "L2_EPS", 1e-5)


def seal_before_the_read(lm: KimiLM, patch: pytest.MonkeyPatch) -> None:
    for layer in lm.layers:
        if layer.seals:
            read = layer.self_attention_res.forward
            patch.setattr(layer.self_attention_res, "forward", _reading_its_own_seal(read))


def router_weights_with_the_bias(lm: KimiLM, patch: pytest.MonkeyPatch) -> None:
    for module in lm.modules():
        if hasattr(module, "e_score_correction_bias"):
            patch.setattr(module, "forward", _weighing_with_bias(module))


FAULTS: tuple[Plant, ...] = (
    recall_with_the_wrong_sign,
    decay_after_the_error,
    latent_norms_with_the_epsilon_of_the_others,
    unit_length_with_the_epsilon_of_norms,
    seal_before_the_read,
    router_weights_with_the_bias,
)


@pytest.mark.parametrize("plant", FAULTS, ids=lambda plant: plant.__name__)
def test_a_planted_fault_breaks_parity(
    plant: Plant,
    comparisons: dict[str, Comparison],
    monkeypatch: pytest.MonkeyPatch,
    measured: Callable[[str], None],
) -> None:
    worst = 0.0
    for name in TRIED:
        comparison = comparisons[name]
        lm = load_ours(comparison.config, comparison.weights)
        plant(lm, monkeypatch)
        faulty = replace(comparison, ours=run_logits(lm, comparison.inputs))
        worst = max(worst, *faulty.errors("").values())
    measured(f"{plant.__name__.replace('_', ' ')}: error {worst:.1e}")
    assert worst > LOGITS


def _use_step(lm: KimiLM, patch: pytest.MonkeyPatch, step: Callable[..., Step]) -> None:
    patch.setattr(kda, "delta_step", step)
    for layer in lm.layers:
        if hasattr(layer.self_attn, "recurrence"):
            patch.setattr(layer.self_attn, "recurrence", delta_rule)


def _write_and_read(
    q: Tensor, k: Tensor, retention: Tensor, decayed: Tensor, recalled: Tensor, written: Tensor
) -> Step:
    state = decayed + written[..., :, None] * k[..., None, :]
    read = torch.einsum("...vk,...k->...v", state, q)
    return Step(retention, decayed, recalled, written, state, read)


def _reading_its_own_seal(read: Callable[[Tensor, Tensor], Tensor]) -> Callable[..., Tensor]:
    return lambda residual, bank: read(residual, torch.cat([bank, residual[..., None, :]], dim=-2))


def _weighing_with_bias(gate: torch.nn.Module) -> Callable[[Tensor], object]:
    right = gate.forward

    def forward(x: Tensor) -> object:
        choice = right(x)
        biased = (x @ gate.weight.T).sigmoid() + gate.e_score_correction_bias
        weight = biased.gather(-1, choice.expert)
        weight = weight / weight.sum(-1, keepdim=True) * gate.scale
        return choice._replace(weight=weight)

    return forward
