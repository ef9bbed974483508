"""What tests of kernels rest on: borders that notice, poison that spreads, true bfloat16."""

import pytest
import torch
import triton
import triton.language as tl

from tests.parity.triton.conftest import ON_GPU
from tests.parity.triton.guards import BORDER, Guards, poisoned


@triton.jit
def copy_kernel(x_ptr, y_ptr, first, count, BLOCK: tl.constexpr):
    at = first + tl.arange(0, BLOCK)
    inside = at < count
    tl.store(y_ptr + at, tl.load(x_ptr + at, mask=inside, other=0.0), mask=inside)


def copied(guards: Guards, first: int, count: int) -> torch.Tensor:
    """Ten values copied from and to guarded memory, with bounds that may be wrong."""
    x, y = guards.copy(torch.arange(10.0)), guards.empty(10)
    copy_kernel[(1,)](x, y, first, count, BLOCK=16)
    return y


def test_a_right_copy_leaves_the_borders_alone(device):
    own = Guards(device)
    assert copied(own, 0, 10).tolist() == list(range(10))
    own.check()


@pytest.mark.parametrize(("first", "count"), [(0, 11), (-1, 10)], ids=["behind", "before"])
def test_a_value_written_beside_a_tensor_is_noticed(first, count, device):
    own = Guards(device)
    x, y = torch.ones(32, device=device), own.empty(10)
    copy_kernel[(1,)](x[8:], y, first, count, BLOCK=16)
    with pytest.raises(AssertionError, match="1 values beside a tensor of 10 were written over"):
        own.check()


def test_a_value_read_beside_a_tensor_is_not_a_number(device):
    own = Guards(device)
    y = own.empty(32)
    copy_kernel[(1,)](own.copy(torch.arange(10.0)), y, 0, 11, BLOCK=16)
    assert y[9] == 9
    assert y[10].isnan()


def test_a_value_left_out_stays_not_a_number(device):
    assert copied(Guards(device), 0, 9).isnan().tolist() == [False] * 9 + [True]


def test_the_gap_behind_each_row_is_guarded(device):
    own = Guards(device)
    x = own.copy(torch.ones(3, 5), gap=2)
    assert x.stride() == (7, 1)
    x[1, :3] = 2.0
    own.check()
    x.as_strided((1,), (1,), x.storage_offset() + 5).fill_(2.0)
    with pytest.raises(AssertionError, match="1 values beside"):
        own.check()


def test_memory_is_poisoned_for_kernels_and_for_nobody_else(device):
    own = Guards(device)
    source = "def ask(empty): return empty(3, 5, device=DEVICE)"
    for folder, guarded in (("kernels", 1), ("model", 0)):
        path = __file__.replace("tests/parity/triton", folder)
        scope: dict = {"DEVICE": device}
        exec(compile(source, path, "exec"), scope)
        before = len(own.kept)
        x = scope["ask"](poisoned(torch.zeros, own))
        assert len(own.kept) - before == guarded
        assert bool(x.isnan().all()) == bool(guarded)
        assert not guarded or x.storage_offset() == BORDER


@triton.jit
def mixed_kernel(a_ptr, b_ptr, y_ptr, N: tl.constexpr):
    at = tl.arange(0, N)[:, None] * N + tl.arange(0, N)
    a, b = tl.load(a_ptr + at), tl.load(b_ptr + at)
    product = tl.dot(a, tl.trans(b))
    best = tl.maximum(a * b + 1.0, a - b)
    y = tl.where(a > b, best, product.to(a.dtype)) + tl.exp(a.to(tl.float32)).to(a.dtype)
    tl.store(y_ptr + at, y)


def test_bfloat16_is_computed_as_torch_does(device):
    drawing = torch.Generator().manual_seed(0)
    a, b = torch.randn(2, 16, 16, generator=drawing).bfloat16().to(device)
    y = torch.zeros_like(a)
    mixed_kernel[(1,)](a, b, y, N=16)
    product = (a.float() @ b.float().mT).bfloat16()
    best = torch.maximum((a * b) + 1.0, a - b)
    wanted = torch.where(a > b, best, product) + a.float().exp().bfloat16()
    torch.testing.assert_close(y, wanted, rtol=0 if not ON_GPU else 0.01, atol=0)


@triton.jit
def product_kernel(a_ptr, b_ptr, y_ptr, PRECISION: tl.constexpr):
    at = tl.arange(0, 16)[:, None] * 16 + tl.arange(0, 16)
    product = tl.dot(tl.load(a_ptr + at), tl.load(b_ptr + at), input_precision=PRECISION)
    tl.store(y_ptr + at, product)


@pytest.mark.skipif(ON_GPU, reason="a GPU takes products of ten bits by itself")
def test_a_product_in_ten_bits_is_as_coarse_as_on_a_gpu():
    a = torch.full((16, 16), 1 + 2**-10 + 2**-11)
    coarse, fine = torch.zeros(2, 16, 16)
    product_kernel[(1,)](a, torch.eye(16), coarse, PRECISION="tf32")
    product_kernel[(1,)](a, torch.eye(16), fine, PRECISION="ieee")
    assert (coarse == 1 + 2**-10).all()
    assert torch.equal(fine, a)


@triton.jit
def narrow_kernel(x_ptr, y_ptr, N: tl.constexpr):
    at = tl.arange(0, N)
    tl.store(y_ptr + at, tl.load(x_ptr + at).to(tl.bfloat16))


def test_float32_is_rounded_to_the_nearest_bfloat16(device):
    bits = torch.randint(-(2**31), 2**31, (4096,), generator=torch.Generator().manual_seed(0))
    x = bits.to(torch.int32).view(torch.float32).to(device)
    x[:6] = torch.tensor([float("inf"), -float("inf"), float("nan"), 0.0, -0.0, 1e-40])
    y = torch.zeros_like(x, dtype=torch.bfloat16)
    narrow_kernel[(1,)](x, y, N=4096)
    torch.testing.assert_close(y, x.bfloat16(), rtol=0, atol=0, equal_nan=True)


@pytest.mark.skipif(ON_GPU, reason="only the interpreter sums bit patterns")
def test_a_sum_of_bfloat16_is_refused_rather_than_wrong():
    @triton.jit
    def sum_kernel(x_ptr, y_ptr):
        tl.store(y_ptr, tl.sum(tl.load(x_ptr + tl.arange(0, 16)), axis=0))

    with pytest.raises(Exception, match="widen the tile"):
        sum_kernel[(1,)](torch.ones(16).bfloat16(), torch.zeros(1))
