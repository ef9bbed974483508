"""Faults planted in our Kimi-Linear and K2 must break parity."""

from collections.abc import Callable
from dataclasses import replace

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from model import mla
from model.kimi import KimiLM
from model.rows import Rows
from tests.parity.cases import label
from tests.parity.comparison import Comparison, load_ours, run_logits
from tests.parity.family_cases import K2_CASES, KIMI_LINEAR_CASES
from tests.parity.family_comparison import compared
from tests.parity.test_family_oracle import LOGITS
from tests.parity.test_planted_faults import (
    latent_norms_with_the_epsilon_of_the_others,
    router_weights_with_the_bias,
)

pytestmark = pytest.mark.oracle

KIMI_LINEAR = (replace(KIMI_LINEAR_CASES[0], oracles=("transformers",)),)
K2 = tuple(case for case in K2_CASES if case.name.startswith(("YaRN with", "YaRN that lengthens")))

Plant = Callable[[KimiLM, pytest.MonkeyPatch], None]


def mixers(lm: KimiLM) -> list[torch.nn.Module]:
    return [layer.self_attn for layer in lm.layers]


def pairs_of_halves(lm: KimiLM, patch: pytest.MonkeyPatch) -> None:
    """Features m and m + R/2 turn together, as in Llama."""

    def rotate(x: Tensor, cosine: Tensor, sine: Tensor) -> Tensor:
        a, b = x.chunk(2, dim=-1)
        return torch.cat([a * cosine - b * sine, b * cosine + a * sine], dim=-1)

    patch.setattr(mla, "rotate", rotate)


def turning_backwards(lm: KimiLM, patch: pytest.MonkeyPatch) -> None:
    right = mla.rotate
    patch.setattr(mla, "rotate", lambda x, cosine, sine: right(x, cosine, -sine))


def keys_that_are_not_turned(lm: KimiLM, patch: pytest.MonkeyPatch) -> None:
    right = mla.rotate
    patch.setattr(mla, "rotate", lambda x, *turn: x if x.ndim == 3 else right(x, *turn))


def positions_that_start_again(lm: KimiLM, patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Rows, "positions", property(lambda rows: torch.arange(rows.pos)[None]))


def scores_without_the_magnitude(lm: KimiLM, patch: pytest.MonkeyPatch) -> None:
    for mixer in mixers(lm):
        patch.setattr(mixer, "scale", lm.config.qk_head_dim**-0.5)


def turns_without_their_gain(lm: KimiLM, patch: pytest.MonkeyPatch) -> None:
    for mixer in mixers(lm):
        patch.setattr(mixer, "gain", 1.0)


def a_ramp_one_pair_late(lm: KimiLM, patch: pytest.MonkeyPatch) -> None:
    width, base = lm.config.qk_rope_head_dim, lm.config.rope_theta
    assert base is not None
    plain = [base ** (-2 * pair / width) for pair in range(width // 2)]
    for mixer in mixers(lm):
        slowed = [found / w for found, w in zip(mixer.frequencies, plain, strict=True)]
        late = [w * by for w, by in zip(plain, [1.0, *slowed[:-1]], strict=True)]
        patch.setattr(mixer, "frequencies", late)


def no_ramp_at_all(lm: KimiLM, patch: pytest.MonkeyPatch) -> None:
    width, base = lm.config.qk_rope_head_dim, lm.config.rope_theta
    assert base is not None
    plain = [base ** (-2 * pair / width) for pair in range(width // 2)]
    for mixer in mixers(lm):
        patch.setattr(mixer, "frequencies", plain)


def groups_that_do_not_count(lm: KimiLM, patch: pytest.MonkeyPatch) -> None:
    for module in lm.modules():
        if hasattr(module, "top_groups"):
            patch.setattr(module, "groups", 1)


def softplus_of_the_other_sign(lm: KimiLM, patch: pytest.MonkeyPatch) -> None:
    for mixer in mixers(lm):
        if hasattr(mixer, "forget_gate"):
            patch.setattr(mixer, "forget_gate", _forgetting_by(mixer, lambda z: F.softplus(-z)))


def a_rate_that_is_no_logarithm(lm: KimiLM, patch: pytest.MonkeyPatch) -> None:
    for mixer in mixers(lm):
        if hasattr(mixer, "A_log"):
            patch.setattr(mixer.A_log, "data", mixer.A_log.exp().log1p())


def low_rank_gate_with_channels_before_heads(lm: KimiLM, patch: pytest.MonkeyPatch) -> None:
    for mixer in mixers(lm):
        if hasattr(mixer, "gate_of_output"):
            patch.setattr(mixer, "gate_of_output", _channels_first(mixer))


def routed_experts_without_their_scale(lm: KimiLM, patch: pytest.MonkeyPatch) -> None:
    for module in lm.modules():
        if hasattr(module, "top_groups"):
            patch.setattr(module, "scale", 1.0)


FAULTS: dict[Plant, str] = {
    pairs_of_halves: "K2",
    turning_backwards: "K2",
    keys_that_are_not_turned: "K2",
    positions_that_start_again: "K2",
    scores_without_the_magnitude: "K2",
    turns_without_their_gain: "K2",
    a_ramp_one_pair_late: "K2",
    no_ramp_at_all: "K2",
    groups_that_do_not_count: "K2",
    softplus_of_the_other_sign: "Kimi-Linear",
    a_rate_that_is_no_logarithm: "Kimi-Linear",
    low_rank_gate_with_channels_before_heads: "Kimi-Linear",
    latent_norms_with_the_epsilon_of_the_others: "Kimi-Linear",
    router_weights_with_the_bias: "Kimi-Linear",
    routed_experts_without_their_scale: "Kimi-Linear",
}
TRIED = {"K2": K2, "Kimi-Linear": KIMI_LINEAR}


@pytest.fixture(scope="module")
def tried(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Comparison]:
    """By label, against transformers in float32."""
    found = compared((*K2, *KIMI_LINEAR), tmp_path_factory.mktemp("faults"), ("float32",))
    return {name: comparison for (_, _, name), comparison in found.items()}


def worst(
    model: str, tried: dict[str, Comparison], patch: pytest.MonkeyPatch, plant: Plant
) -> float:
    found = 0.0
    for case in TRIED[model]:
        # shrunken, for a wrong epsilon shows nowhere else
        comparison = tried[label(case, True)]
        lm = load_ours(comparison.config, comparison.weights)
        plant(lm, patch)
        faulty = replace(comparison, ours=run_logits(lm, comparison.inputs))
        found = max(found, *faulty.errors("").values())
        patch.undo()
    return found


@pytest.mark.parametrize("plant", FAULTS, ids=lambda plant: plant.__name__)
def test_a_planted_fault_breaks_parity(
    plant: Plant,
    tried: dict[str, Comparison],
    monkeypatch: pytest.MonkeyPatch,
    measured: Callable[[str], None],
) -> None:
    error = worst(FAULTS[plant], tried, monkeypatch, plant)
    measured(f"{plant.__name__.replace('_', ' ')} in {FAULTS[plant]}: error {error:.1e}")
    assert error > LOGITS


@pytest.mark.parametrize("model", TRIED)
def test_without_a_fault_the_same_cases_agree(
    model: str, tried: dict[str, Comparison], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert worst(model, tried, monkeypatch, lambda lm, patch: None) <= LOGITS


def _forgetting_by(
    mixer: torch.nn.Module, softplus: Callable[[Tensor], Tensor]
) -> Callable[[Tensor], Tensor]:
    def forget_gate(latent: Tensor) -> Tensor:
        z = mixer.by_head(mixer.f_b_proj(latent) + mixer.dt_bias)
        return -mixer.A_log.exp()[:, None] * softplus(z)

    return forget_gate


def _channels_first(mixer: torch.nn.Module) -> Callable[[Tensor], Tensor]:
    def gate_of_output(gate: Tensor) -> Tensor:
        out = mixer.g_b_proj(gate)
        return out.unflatten(-1, (mixer.width, mixer.heads)).mT.flatten(-2)

    return gate_of_output
