"""One run of the oracle serves every parity test of a session."""

import pytest

from tests.parity.cases import VARIANTS, label
from tests.parity.comparison import Comparison, Oracle, draw


@pytest.fixture(scope="session")
def comparisons(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Comparison]:
    oracle, drawn = Oracle(tmp_path_factory.mktemp("oracle")), {}
    for seed, (case, shrink) in enumerate(VARIANTS):
        drawn[label(case, shrink)] = draw(case, shrink, seed)
        oracle.ask(drawn[label(case, shrink)])
    oracle.finish()
    return drawn
