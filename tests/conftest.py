"""What tests measured is printed at the end: numbers are reported, also by tests that pass."""

from collections.abc import Callable

import pytest

MEASURED = "measured"


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
