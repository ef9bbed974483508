"""One run of the oracle serves every parity test of a session."""

import pytest

from tests.parity.cases import VARIANTS, label
from tests.parity.comparison import Comparison, ask_oracle, draw


@pytest.fixture(scope="session")
def comparisons(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Comparison]:
    drawn = {
        label(case, shrink): draw(case, shrink, seed)
        for seed, (case, shrink) in enumerate(VARIANTS)
    }
    ask_oracle(drawn, tmp_path_factory.mktemp("oracle"))
    return drawn
