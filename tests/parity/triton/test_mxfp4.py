"""MXFP4 inside a kernel is, bit by bit, what the model unpacks."""

import pytest
import torch
import triton
import triton.language as tl
from torch import Tensor

from kernels.mxfp4 import load_mxfp4
from model.quantized import mxfp4
from tests.parity.triton.guards import Guards


@triton.jit
def unpack_kernel(
    codes_ptr, scale_ptr, y_ptr, rows, columns, ROWS: tl.constexpr, COLUMNS: tl.constexpr
):
    row = tl.arange(0, ROWS).to(tl.int64)
    start = tl.program_id(0) * COLUMNS
    inside = row < rows
    x = load_mxfp4(codes_ptr, scale_ptr, row, inside, start, columns, ROWS, COLUMNS)
    column = start + tl.arange(0, COLUMNS)
    tl.store(y_ptr + row[:, None] * tl.num_programs(0) * COLUMNS + column[None, :], x)


def unpacked(codes: Tensor, scale: Tensor, guards: Guards, block: int = 128) -> Tensor:
    """Whole tiles, of which what lies outside must be zero."""
    rows, columns = len(codes), 2 * codes.shape[1]
    height, programs = triton.next_power_of_2(rows), triton.cdiv(columns, block)
    y = guards.empty(height, programs * block)
    unpack_kernel[(programs,)](
        guards.copy(codes),
        guards.copy(scale),
        y,
        rows,
        columns,
        ROWS=height,
        COLUMNS=block,
    )
    assert not y[rows:].any()
    assert not y[:, columns:].any()
    return y[:rows, :columns].cpu().contiguous()


def test_every_byte_at_every_scale_is_what_the_model_unpacks(guards: Guards):
    codes = torch.arange(256, dtype=torch.uint8).expand(256, -1).contiguous()
    scale = torch.arange(256, dtype=torch.uint8)[:, None].expand(-1, 16).contiguous()
    ours, wanted = unpacked(codes, scale, guards), mxfp4(codes, scale)
    assert torch.equal(ours.isnan(), wanted.isnan())
    # also the sign of zero
    finite = ~wanted.isnan()
    assert torch.equal(ours.view(torch.int32)[finite], wanted.view(torch.int32)[finite])


@pytest.mark.parametrize("columns", [32, 96, 160])
def test_groups_of_columns_keep_their_own_scales_at_the_end_of_a_row(columns, guards: Guards):
    drawing = torch.Generator().manual_seed(0)
    codes = torch.randint(0, 256, (5, columns // 2), dtype=torch.uint8, generator=drawing)
    scale = torch.randint(100, 150, (5, columns // 32), dtype=torch.uint8, generator=drawing)
    assert torch.equal(unpacked(codes, scale, guards, 64), mxfp4(codes, scale))


def test_the_low_half_of_a_byte_is_the_even_column(guards: Guards):
    codes = torch.full((1, 16), 0x72, dtype=torch.uint8)
    values = unpacked(codes, torch.full((1, 1), 127, dtype=torch.uint8), guards, 32)
    assert values[0, :2].tolist() == [1.0, 6.0]
