"""Offsets beyond what 32 bits count: rows of a tensor may lie anywhere in memory."""

import ast
from pathlib import Path

import pytest
import torch
from torch import Tensor

from kernels.attn_res import read_sources
from kernels.experts import through_experts
from kernels.mla_decode import read_latents
from kernels.mla_prefill import attend
from kernels.rope import rotate
from kernels.router import choose
from kernels.situ import swiglu
from tests.parity.triton.closeness import assert_near
from tests.parity.triton.guards import KERNELS, Guards
from tests.parity.triton.references import (
    attention,
    by_index,
    chosen_by,
    drawn,
    mix_of_sources,
    of_experts,
    wide,
)

APART = 2**30
"""Values from one row to the next; the third lies where a 32-bit offset has turned negative."""
LARGEST = 4096


@pytest.fixture(scope="module")
def far(device) -> Tensor:
    """Memory that is reserved, and of which only what is touched exists."""
    return torch.empty(2 * APART + LARGEST, dtype=torch.bfloat16, device=device)


def spread(far: Tensor, x: Tensor) -> Tensor:
    """The values of `x`, `[3, …]`, each of the three far from the others."""
    inner = torch.empty(x.shape[1:], device="meta").stride()
    return far.as_strided(x.shape, (APART, *inner)).copy_(x)


def test_gates_may_lie_far_apart(far, guards: Guards):
    gate, up = drawn(3, 60), drawn(3, 60, seed=1).bfloat16()
    wanted = torch.nn.functional.silu(wide(gate.bfloat16())) * wide(up)
    assert_near(swiglu(spread(far, gate), guards.copy(up)), wanted)


def test_rows_that_turn_may_lie_far_apart(far, guards: Guards):
    x, ones, zeros = drawn(3, 12).bfloat16(), torch.ones(3, 6), torch.zeros(3, 6)
    y = rotate(spread(far, x), guards.copy(ones), guards.copy(zeros))
    assert torch.equal(y.cpu(), torch.cat([x[:, 0::2], x[:, 1::2]], dim=-1).float())


@pytest.mark.parametrize("axis", [0, 1], ids=["row", "source"])
def test_sources_may_lie_far_apart(axis, far, guards: Guards):
    residual, bank = drawn(3, 60).bfloat16(), drawn(3, 3, 60, seed=1).bfloat16()
    norm, proj = drawn(60, seed=2), drawn(60, seed=3) / 8
    apart = spread(far, bank.transpose(0, axis)).transpose(0, axis)
    y = read_sources(guards.copy(residual), apart, guards.copy(norm), guards.copy(proj), 1e-5)
    assert_near(y, mix_of_sources(residual, bank, norm, proj, 1e-5))


def test_running_sums_may_lie_far_apart(far, guards: Guards):
    residual, bank = drawn(3, 60).bfloat16(), drawn(3, 2, 60, seed=1).bfloat16()
    norm, proj = drawn(60, seed=2), drawn(60, seed=3) / 8
    others = (guards.copy(x) for x in (bank, norm, proj))
    y = read_sources(spread(far, residual), *others, 1e-5)
    assert_near(y, mix_of_sources(residual, bank, norm, proj, 1e-5))


def test_logits_may_lie_far_apart(far, guards: Guards):
    logits, bias = drawn(3, 60).bfloat16(), torch.zeros(60)
    expert, weight = by_index(*choose(spread(far, logits), guards.copy(bias), top=5))
    wanted = chosen_by(logits, bias, top=5)
    assert torch.equal(expert, wanted[0])
    assert_near(weight, wanted[1])


@pytest.mark.parametrize("axis", ["batch", "head", "src"])
def test_keys_may_lie_far_apart(axis, far, guards: Guards):
    shape = {"batch": (3, 2, 3), "head": (1, 3, 3), "src": (1, 2, 3)}[axis]
    place = {"batch": 0, "head": 1, "src": 2}[axis]
    q, k, v = (drawn(*shape, 24, seed=i).bfloat16() for i in range(3))
    apart = spread(far, k.transpose(0, place)).transpose(0, place)
    assert_near(attend(guards.copy(q), apart, guards.copy(v), 0.2), attention(q, k, v, 0.2)[0])


@pytest.mark.parametrize("axis", [0, 1], ids=["batch", "src"])
def test_latents_may_lie_far_apart(axis, far, guards: Guards):
    q, latents, shared = drawn(3, 2, 1, 36), drawn(3, 3, 24, seed=1), drawn(3, 3, 12, seed=2)
    q, latents, shared = (x.bfloat16() for x in (q, latents, shared))
    apart = spread(far, latents.transpose(0, axis)).transpose(0, axis)
    k = torch.cat([latents, shared], dim=-1)[:, None]
    read = read_latents(guards.copy(q), apart, guards.copy(shared), 0.2)
    assert_near(read, attention(q, k, latents[:, None], 0.2)[0])


def test_matrices_of_experts_may_lie_far_apart(far, guards: Guards):
    z, chosen = drawn(6, 32).bfloat16(), torch.tensor([[0, 2], [1, 2], [2, 0]] * 2)
    w1, w2, w3 = (m.bfloat16() for m in (drawn(3, 16, 32), drawn(3, 32, 16), drawn(3, 16, 32)))
    hidden, _ = through_experts(
        guards.copy(z), chosen.to(far.device), spread(far, w1), guards.copy(w2), guards.copy(w3)
    )
    assert_near(hidden, of_experts(z, chosen, w1, w2, w3, None, None)[0])


def test_programs_are_counted_on_one_axis_which_has_room_for_two_thousand_million():
    """The other two hold 65,535 programs, which long batches of many heads exceed."""
    for path in Path(KERNELS).glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call) and ast.unparse(node.func) == "tl.program_id":
                assert ast.unparse(node) == "tl.program_id(0)", f"{path.name}:{node.lineno}"
