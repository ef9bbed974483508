"""Packed weights are the numbers that their formats define, each computed here bit by bit."""

import math

import pytest
import torch

from model.quantized import fp8, mxfp4
from tests.contract.packed_checkpoint import e2m1, e4m3


def e8m0(byte):
    return math.nan if byte == 255 else 2.0 ** (byte - 127)


def float32(value):
    return torch.tensor(value, dtype=torch.float64).float().item()


def same(ours, expected):
    torch.testing.assert_close(ours, expected, rtol=0, atol=0, equal_nan=True)
    # a sum of differences would not tell zero from minus zero
    assert torch.equal(ours.signbit(), expected.signbit())


def test_every_byte_is_two_codes_low_half_first_at_every_scale():
    scales = torch.arange(256, dtype=torch.uint8).repeat_interleave(16)[:, None]
    packed = torch.arange(256, dtype=torch.uint8).view(16, 16).repeat(256, 1)
    expected = [
        [
            float32(e2m1(code) * e8m0(int(scale)))
            for byte in row.tolist()
            for code in (byte & 15, byte >> 4)
        ]
        for row, scale in zip(packed, scales, strict=True)
    ]
    ours, expected = mxfp4(packed, scales), torch.tensor(expected)
    # the sign of a value that is none means nothing
    number = ~expected.isnan()
    assert torch.equal(ours.isnan(), expected.isnan())
    same(ours[number], expected[number])


@pytest.mark.parametrize("columns", [32, 64, 96, 160])
@pytest.mark.parametrize("rows", [1, 3, 130])
def test_a_scale_is_for_its_32_columns_of_one_row(rows, columns):
    generator = torch.Generator().manual_seed(rows * columns)
    packed = torch.randint(256, (rows, columns // 2), generator=generator, dtype=torch.uint8)
    scales = torch.randint(90, 170, (rows, columns // 32), generator=generator).byte()
    expected = torch.tensor(
        [
            [
                e2m1(int(packed[i, j // 2]) >> (4 if j % 2 else 0) & 15)
                * e8m0(int(scales[i, j // 32]))
                for j in range(columns)
            ]
            for i in range(rows)
        ]
    )
    assert mxfp4(packed, scales).dtype == torch.float32
    same(mxfp4(packed, scales), expected)
    # a stack of experts at once, and memory that is not in one piece
    same(mxfp4(packed.expand(2, -1, -1), scales.expand(2, -1, -1)), expected.expand(2, -1, -1))
    same(mxfp4(packed.T.contiguous().T, scales.T.contiguous().T), expected)


def test_every_code_of_eight_bits_is_its_number():
    codes = torch.arange(256, dtype=torch.uint8).view(1, 256)
    expected = torch.tensor([[e4m3(byte) for byte in range(256)]])
    ours = fp8(codes.view(torch.float8_e4m3fn), torch.ones(1, 2))
    number = ~expected.isnan()
    assert torch.equal(ours.isnan(), expected.isnan())
    same(ours[number], expected[number])


@pytest.mark.parametrize("rows", [1, 127, 128, 129, 300])
@pytest.mark.parametrize("columns", [1, 128, 130, 257])
def test_a_scale_is_for_its_block_and_the_last_blocks_may_be_narrow(rows, columns):
    generator = torch.Generator().manual_seed(rows + 1000 * columns)
    codes = torch.randint(0x78, (rows, columns), generator=generator, dtype=torch.uint8)
    blocks = (rows + 127) // 128, (columns + 127) // 128
    scales = torch.rand(blocks, generator=generator) + 0.5
    numbers = torch.tensor([e4m3(byte) for byte in range(256)])
    expected = torch.empty(rows, columns)
    for i in range(rows):
        for j in range(columns):
            expected[i, j] = numbers[codes[i, j].long()] * scales[i // 128, j // 128]
    ours = fp8(codes.view(torch.float8_e4m3fn), scales)
    assert ours.dtype == torch.float32
    same(ours, expected)


def test_a_scale_beyond_float32_says_so_by_infinity():
    packed = torch.tensor([[0x74] + [0] * 15], dtype=torch.uint8)
    ours = mxfp4(packed, torch.tensor([[254]], dtype=torch.uint8))
    assert ours[0, :2].tolist() == [math.inf, math.inf]
    assert not ours[0, 2:].any()
