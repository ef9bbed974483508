"""One run of the oracle serves every parity test of a session, one in each precision."""

import pytest

from tests.parity.cases import VARIANTS, label
from tests.parity.comparison import Comparison, Oracle, draw


@pytest.fixture(scope="session")
def comparisons(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Comparison]:
    return compared(Oracle(tmp_path_factory.mktemp("oracle")), "float32")


@pytest.fixture(scope="session")
def comparisons_in_float64(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Comparison]:
    return compared(Oracle(tmp_path_factory.mktemp("oracle64"), "--float64"), "float64")


def compared(oracle: Oracle, dtype: str) -> dict[str, Comparison]:
    drawn = {}
    for seed, (case, shrink) in enumerate(VARIANTS):
        if dtype == "float64" or case.float32_resolves:
            drawn[label(case, shrink)] = draw(case, shrink, seed, dtype)
            oracle.ask(drawn[label(case, shrink)])
    oracle.finish()
    return drawn
