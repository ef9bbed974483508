"""Our Kimi-Linear and K2 against transformers' and mlx-lm's, whole and in parts."""

from collections.abc import Callable
from dataclasses import replace

import pytest
import torch

from tests.parity.cases import label
from tests.parity.comparison import Comparison, distance, load_ours, run_layers
from tests.parity.family_cases import K2_CASES, KIMI_LINEAR_CASES, variants
from tests.parity.family_comparison import DTYPES, compared
from tests.parity.test_planted_faults import router_weights_with_the_bias

pytestmark = pytest.mark.oracle

LOGITS = 1e-4
ALONE = 2e-5
EXACT = 1e-9
"""Float64 on both sides: the same function, whatever rounding does to it."""

CASES = (*KIMI_LINEAR_CASES, *K2_CASES)
RUN = [(oracle, label(case, shrink)) for case, shrink in variants(CASES) for oracle in case.oracles]
MLX_FULL = [
    (label(case, shrink), f"layers.{layer - 1}.mixer")
    for case, shrink in variants(CASES)
    if "mlx" in case.oracles
    for layer in case.full_attention
]

Comparisons = dict[tuple[str, str, str], Comparison]


@pytest.fixture(scope="module")
def family(tmp_path_factory: pytest.TempPathFactory) -> Comparisons:
    return compared(CASES, tmp_path_factory.mktemp("family"))


@pytest.mark.parametrize("phase", ["prefill", "decode", "latent decode"])
@pytest.mark.parametrize(("oracle", "name"), RUN)
def test_the_logits_are_those_of_the_oracle(
    oracle: str, name: str, phase: str, family: Comparisons
) -> None:
    errors = family[oracle, "float32", name].errors(phase)
    assert len(errors) == 5
    assert max(errors.values()) <= LOGITS, errors


@pytest.mark.parametrize(("oracle", "name"), RUN)
def test_each_layer_alone_computes_what_the_oracle_computes(
    oracle: str, name: str, family: Comparisons
) -> None:
    errors = family[oracle, "float32", name].errors("layers.")
    assert len(errors) >= 4
    assert max(errors.values()) <= ALONE, {k: e for k, e in errors.items() if e > ALONE}


@pytest.mark.parametrize(("oracle", "name"), RUN)
def test_in_float64_the_oracle_computes_the_same_to_the_last_digits(
    oracle: str, name: str, family: Comparisons
) -> None:
    comparison = family[oracle, "float64", name]
    assert {tensor.dtype for tensor in comparison.oracle.values()} == {torch.float64}
    errors = comparison.errors("")
    assert len(errors) > 15
    assert max(errors.values()) <= EXACT, {k: e for k, e in errors.items() if e > EXACT}


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("part", ["prefill", "decode", "latent decode", "layers."])
def test_the_worst_of_all_cases_is_told(
    part: str, dtype: str, family: Comparisons, measured: Callable[[str], None]
) -> None:
    for kind, cases in (("Kimi-Linear", KIMI_LINEAR_CASES), ("K2", K2_CASES)):
        names = {label(case, shrink) for case, shrink in variants(cases)}
        for oracle in sorted({oracle for case in cases for oracle in case.oracles}):
            errors = {
                name: max(comparison.errors(part).values())
                for (by, computed_in, name), comparison in family.items()
                if (by, computed_in) == (oracle, dtype) and name in names
            }
            name = max(errors, key=lambda name: errors[name])
            where = "layer alone" if part == "layers." else f"{part} logits"
            measured(
                f"{kind}, worst {where} against {oracle}, {dtype}: {errors[name]:.1e} ({name})"
            )
            assert errors[name] <= (EXACT if dtype == "float64" else LOGITS)


def test_near_ties_of_routers_are_redrawn_and_counted(
    family: Comparisons, measured: Callable[[str], None]
) -> None:
    redraws = {(n, dtype): c.redraws for (_, dtype, n), c in family.items() if c.redraws}
    measured(f"cases redrawn because of near ties: {redraws or 'none'}")
    assert sum(redraws.values()) < len(family)


@pytest.mark.parametrize(("name", "mixer"), MLX_FULL)
def test_the_latent_norm_has_the_epsilon_of_upstream_and_not_the_one_of_mlx(
    name: str, mixer: str, family: Comparisons
) -> None:
    """mlx-lm takes the configuration's; as it is it computes what we would compute with that."""
    comparison = family["mlx", "float64", name]
    as_it_is = comparison.oracle[f"{mixer} as it is"]
    lm = load_ours(comparison.config, comparison.weights, "float64")
    for module in lm.modules():
        if hasattr(module, "kv_a_layernorm"):
            module.kv_a_layernorm.eps = comparison.config["rms_norm_eps"]
    assert distance(run_layers(lm, comparison.inputs)[mixer], as_it_is) <= EXACT
    if comparison.config["rms_norm_eps"] != 1e-6:
        assert distance(comparison.ours[mixer], as_it_is) > 1e-7


@pytest.mark.parametrize(("oracle", "name"), RUN)
def test_no_oracle_weighs_experts_by_their_bias(
    oracle: str, name: str, family: Comparisons, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The file released with Kimi-Linear does; its ports here compute what was intended."""
    comparison = family[oracle, "float32", name]
    lm = load_ours(comparison.config, comparison.weights)
    router_weights_with_the_bias(lm, monkeypatch)
    biased = replace(comparison, ours=run_layers(lm, comparison.inputs))
    sparse = [i for i, layer in enumerate(lm.layers) if hasattr(layer, "block_sparse_moe")]
    for index in sparse:
        (error,) = biased.errors(f"layers.{index}.feed_forward").values()
        assert error > 100 * ALONE
