"""One thread a test process; what tests measured is printed at the end, if they pass too."""

import os
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest

MEASURED = "measured"

# before torch is imported: two workers on two cores, and sums in one order whatever ran before
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
# before anything imports Triton: without a GPU its kernels run in the interpreter
if not Path("/dev/nvidiactl").exists():
    os.environ.setdefault("TRITON_INTERPRET", "1")


@pytest.fixture
def measured(request: pytest.FixtureRequest) -> Callable[[str], None]:
    """Say one sentence in the summary; it travels with the report, so that workers may send it."""
    return lambda sentence: request.node.user_properties.append((MEASURED, sentence))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    sentences = [
        sentence
        for reports in terminalreporter.stats.values()
        for report in reports
        if getattr(report, "when", None) == "call"
        for name, sentence in report.user_properties
        if name == MEASURED
    ]
    if sentences:
        terminalreporter.section("measured")
        for sentence in sentences:
            terminalreporter.line(sentence)


@pytest.fixture
def plain_main(monkeypatch: pytest.MonkeyPatch) -> None:
    """A `__main__` from which a spawned process has nothing to import.

    Streamlit's own test runs leave the app there, and a second process would start it.
    """
    monkeypatch.setitem(sys.modules, "__main__", ModuleType("__main__"))
