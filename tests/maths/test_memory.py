"""Memory for weights: in one piece, on pages that come quickly."""

import sys

import pytest
import torch

from model import memory
from model.memory import AHEAD, HUGE_PAGE, block

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="only Linux takes such advice")


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32, torch.float64])
@pytest.mark.parametrize("size", [0, 8, HUGE_PAGE - 8, HUGE_PAGE, HUGE_PAGE + 8, AHEAD + 8])
def test_a_block_is_all_there_and_begins_with_a_page(dtype, size):
    numel = size // dtype.itemsize
    weights = block(numel, dtype, "cpu")
    assert weights.shape == (numel,)
    assert weights.dtype == dtype
    weights.fill_(3)
    assert bool((weights == 3).all())
    if size >= HUGE_PAGE:
        assert weights.data_ptr() % HUGE_PAGE == 0


@pytest.mark.parametrize(("quick", "parts"), [(1e9, 3), (-1, 1)], ids=["at hand", "slow"])
def test_huge_pages_are_asked_for_as_long_as_they_come_quickly(monkeypatch, quick, parts):
    asked = []
    monkeypatch.setattr(memory, "QUICK", quick)
    monkeypatch.setattr(memory, "advise", lambda part, advice: asked.append((advice, part.nbytes)))
    weights = block(5 * AHEAD // 2, torch.uint8, "cpu")
    sizes = [AHEAD, AHEAD, AHEAD // 2][:parts]
    both = (memory.MADV_HUGEPAGE, memory.MADV_POPULATE_WRITE)
    assert asked == [(advice, size) for size in sizes for advice in both]
    assert weights.nbytes == 5 * AHEAD // 2
