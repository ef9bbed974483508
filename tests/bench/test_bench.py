"""The benches run on small sizes; timings are reported and fail nothing."""

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.bench import ours
from tests.bench.measure import Rival, alternate, bench_config, random_weights, write_folder

PARAMETERS = {"k3": 18.8e6, "kimi_linear": 32.9e6}


@pytest.mark.parametrize("name", PARAMETERS)
def test_a_bench_configuration_has_its_stated_size(name: str) -> None:
    config = bench_config(name)
    lm = ours.load_ours(config, random_weights(config))
    counted = sum(parameter.numel() for parameter in lm.parameters())
    assert counted == pytest.approx(PARAMETERS[name], rel=5e-3)


@pytest.mark.oracle
@pytest.mark.parametrize(("name", "kind"), [("k3", "mlx"), ("kimi_linear", "transformers")])
def test_a_short_prefill_and_decode_are_timed_on_both_sides(
    name: str, kind: str, tmp_path: Path, measured: Callable[[str], None]
) -> None:
    config = bench_config(name)
    weights = random_weights(config)
    lm = ours.load_ours(config, weights)
    write_folder(tmp_path, config, weights)
    with Rival(kind, tmp_path) as rival:
        for phase, run, request in (
            ("prefill", ours.prefill(lm, 32, record=True), "prefill 32"),
            ("decode", ours.decode(lm, 8, 4, record=True), "decode 8 4"),
        ):
            pairs = alternate(run, lambda request=request: rival(request), count=3)
            measured(f"{name}, short {phase}, every tap recorded: {pairs.ratio:.2f}x {kind}")
            assert pairs.count == 3
