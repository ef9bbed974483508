"""The reading half starts at once: it imports no torch, whoever asks for it."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
READING = [
    "model.config",
    "model.dims",
    "model.presets",
    "model.cost",
    "model.catalog",
    "annotations.loader",
    "annotations.outline",
    "annotations.binding",
    "annotations.pins",
    "app.state",
    "app.theme",
    "app.reader.payload",
    "app.runs",
    "app.main",
]


@pytest.mark.parametrize("module", READING)
def test_reading_needs_no_torch(module):
    program = (
        f"import sys, {module}; "
        "print(sorted(m for m in sys.modules if m.split('.')[0] in {'torch', 'triton', 'mlx'}))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "[]"
