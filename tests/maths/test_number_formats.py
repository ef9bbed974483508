"""Stored bytes are the numbers that the formats define, and what the loader makes of them."""

import math
import struct

import numpy as np
import pytest
import torch

from model.header import ITEM_BYTES, Entry
from model.number_formats import fp8, halves, is_read, mxfp4, numbers, require_read
from model.quantized import fp8 as torch_fp8
from model.quantized import mxfp4 as torch_mxfp4

rng = np.random.default_rng(7)
TORCH = {
    "BF16": torch.bfloat16,
    "F16": torch.float16,
    "F8_E4M3": torch.float8_e4m3fn,
    "F8_E5M2": torch.float8_e5m2,
    "F8_E4M3FNUZ": torch.float8_e4m3fnuz,
    "F8_E5M2FNUZ": torch.float8_e5m2fnuz,
}


@pytest.mark.parametrize("dtype", TORCH)
def test_every_code_of_a_narrow_type_is_the_number_that_torch_reads(dtype):
    bits = int(8 * ITEM_BYTES[dtype])
    raw = np.arange(1 << bits, dtype=f"<u{bits // 8}").tobytes()
    theirs = torch.frombuffer(bytearray(raw), dtype=TORCH[dtype]).double().numpy()
    np.testing.assert_array_equal(numbers(raw, dtype), theirs)


@pytest.mark.parametrize(
    ("dtype", "code", "values"),
    [
        ("F32", "<f", [0.1, -3e38, math.inf, math.nan]),
        ("F64", "<d", [0.1, -1e308, math.inf, math.nan]),
        ("I8", "<b", [-128, 127, 0, -1]),
        ("I16", "<h", [-(2**15), 2**15 - 1, 0, 1]),
        ("I32", "<i", [-(2**31), 2**31 - 1, 0, 1]),
        ("I64", "<q", [-(2**53), 2**53, 0, 1]),
        ("U16", "<H", [0, 1, 2, 2**16 - 1]),
        ("U32", "<I", [0, 1, 2, 2**32 - 1]),
        ("U64", "<Q", [0, 1, 2, 2**53]),
        ("BOOL", "<B", [0, 1, 1, 0]),
        ("U8", "<B", [0, 1, 254, 255]),
    ],
)
def test_wide_types_are_read_little_end_first(dtype, code, values):
    raw = b"".join(struct.pack(code, value) for value in values)
    wanted = [struct.unpack(code, struct.pack(code, value))[0] for value in values]
    np.testing.assert_array_equal(numbers(raw, dtype), wanted)


def test_powers_of_two_are_read_as_such():
    values = numbers(bytes(range(256)), "F8_E8M0")
    np.testing.assert_array_equal(values[:255], [2.0 ** (i - 127) for i in range(255)])
    assert math.isnan(values[255])


def test_half_bytes_come_low_half_first():
    np.testing.assert_array_equal(halves(np.array([0x21, 0xF0], dtype=np.uint8)), [1, 2, 0, 15])
    table = [0, 0.5, 1, 1.5, 2, 3, 4, 6]
    np.testing.assert_array_equal(
        numbers(bytes([0x10, 0x32, 0x54, 0x76, 0x98, 0xBA, 0xDC, 0xFE]), "F4"),
        [*table, *(-value for value in table)],
    )


@pytest.mark.parametrize("dtype", ITEM_BYTES)
def test_every_type_is_read_or_refused_in_words(dtype):
    entry = Entry(name="x", dtype=dtype, shape=(8,), start=0, end=8, file="f")
    if is_read(dtype):
        require_read(entry)
        assert numbers(bytes(int(8 * ITEM_BYTES[dtype])), dtype).shape == (8,)
    else:
        with pytest.raises(ValueError, match=f"stored as {dtype}"):
            require_read(entry)
    assert is_read(dtype) == (dtype not in ("C64", "F6_E2M3", "F6_E3M2"))


@pytest.mark.parametrize("shape", [(1, 32), (3, 64), (130, 96)])
def test_mxfp4_is_what_the_loader_unpacks(shape):
    rows, columns = shape
    packed = rng.integers(0, 256, (rows, columns // 2), dtype=np.uint8)
    scale = rng.integers(0, 253, (rows, columns // 32), dtype=np.uint8)
    scale[0, 0] = 255
    ours = mxfp4(packed, scale)
    theirs = torch_mxfp4(torch.from_numpy(packed), torch.from_numpy(scale)).double().numpy()
    assert ours.shape == shape
    assert np.isnan(ours[0, :32]).all()
    np.testing.assert_array_equal(ours, theirs)


def test_a_value_of_mxfp4_is_its_code_times_its_power():
    packed = np.zeros((1, 32), dtype=np.uint8)
    packed[0, 0], packed[0, 16] = 0xD7, 0x0E
    values = mxfp4(packed, np.array([[127, 130]], dtype=np.uint8))
    assert values[0, :2].tolist() == [6.0, -3.0]
    assert values[0, 32] == -4.0 * 8


@pytest.mark.parametrize("shape", [(1, 1), (128, 128), (130, 257), (64, 300)])
def test_fp8_is_what_the_loader_unpacks(shape):
    codes = rng.integers(0, 256, shape, dtype=np.uint8)
    codes[codes & 0x7F == 0x7F] = 0
    blocks = tuple(-(-side // 128) for side in shape)
    scale = rng.uniform(1e-3, 2, blocks).astype(np.float32)
    weight = torch.from_numpy(codes).view(torch.float8_e4m3fn)
    theirs = torch_fp8(weight, torch.from_numpy(scale)).numpy()
    np.testing.assert_array_equal(fp8(codes, scale.astype(np.float64)).astype(np.float32), theirs)
