"""Kernels run in Triton's interpreter, or on a GPU if there is one, in guarded memory."""

import os
import sys
from collections.abc import Iterator

import numpy as np
import pytest
import torch

from tests.parity.triton.guards import Guards, poisoned

ON_GPU = torch.cuda.is_available()

if not ON_GPU:
    if "triton" in sys.modules and os.environ.get("TRITON_INTERPRET") != "1":
        raise RuntimeError("Triton was imported before TRITON_INTERPRET=1 was set for these tests.")
    os.environ["TRITON_INTERPRET"] = "1"

    from tests.parity.triton.interpreter import prepare_language_once, teach_bfloat16

    teach_bfloat16()
    prepare_language_once()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """What compares kernels repeats on a GPU: there, `-m gpu` selects it."""
    if ON_GPU:
        for item in items:
            if "triton" in item.path.parts and {"guards", "device"} & set(item.fixturenames):
                item.add_marker(pytest.mark.gpu)


@pytest.fixture(scope="session")
def device() -> torch.device:
    return torch.device("cuda" if ON_GPU else "cpu")


@pytest.fixture(autouse=True)
def guards(device: torch.device, monkeypatch: pytest.MonkeyPatch) -> Iterator[Guards]:
    """Memory of launchers is NaN until it is written, and nothing is written beside it."""
    guards = Guards(device)
    for name in ("empty", "empty_like"):
        monkeypatch.setattr(torch, name, poisoned(getattr(torch, name), guards))
    monkeypatch.setattr(torch.Tensor, "new_empty", poisoned(torch.Tensor.new_empty, guards))
    # the interpreter computes with numpy, which warns where a GPU gives inf or NaN
    with np.errstate(all="ignore"):
        yield guards
    guards.check()
