"""Stored bytes to numbers: the types of safetensors that have whole bytes, and packed weights."""

import ml_dtypes
import numpy as np
from numpy.typing import NDArray

from model.header import Entry

MXFP4_GROUP = 32
"""Values of a row that share a power of two."""
FP8_BLOCK = 128
"""Rows and columns of a block that share a factor."""

_TYPES: dict[str, np.dtype] = {
    "BOOL": np.dtype(np.uint8),
    **{f"U{bits}": np.dtype(f"<u{bits // 8}") for bits in (8, 16, 32, 64)},
    **{f"I{bits}": np.dtype(f"<i{bits // 8}") for bits in (8, 16, 32, 64)},
    **{f"F{bits}": np.dtype(f"<f{bits // 8}") for bits in (16, 32, 64)},
    "BF16": np.dtype(ml_dtypes.bfloat16),
    "F8_E4M3": np.dtype(ml_dtypes.float8_e4m3fn),
    "F8_E5M2": np.dtype(ml_dtypes.float8_e5m2),
    "F8_E4M3FNUZ": np.dtype(ml_dtypes.float8_e4m3fnuz),
    "F8_E5M2FNUZ": np.dtype(ml_dtypes.float8_e5m2fnuz),
    "F8_E8M0": np.dtype(ml_dtypes.float8_e8m0fnu),
}
_HALF_BYTES = np.arange(16, dtype=np.uint8).view(ml_dtypes.float4_e2m1fn).astype(np.float64)

Numbers = NDArray[np.float64]


def is_read(dtype: str) -> bool:
    """Whether values of a safetensors type can be shown as numbers."""
    return dtype in _TYPES or dtype == "F4"


def require_read(entry: Entry) -> None:
    if not is_read(entry.dtype):
        raise ValueError(
            f"{entry.name!r} is stored as {entry.dtype}, whose values are not shown here; --list "
            "says where they stand."
        )


def numbers(raw: bytes, dtype: str) -> Numbers:
    """All values in order, one axis, each exact but for integers beyond 2^53."""
    if dtype == "F4":
        return _HALF_BYTES[halves(np.frombuffer(raw, dtype=np.uint8))]
    stored = np.frombuffer(raw, dtype=_TYPES[dtype])
    # a NaN that signals does so when it is widened
    with np.errstate(invalid="ignore"):
        # the narrow types go through float32, which is quicker and as exact
        wide = stored.astype(np.float32) if stored.dtype.itemsize <= 2 else stored
        return wide.astype(np.float64)


def halves(packed: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """The two codes of four bits in each byte, the low one first, along the last axis."""
    codes = np.empty((*packed.shape, 2), dtype=np.uint8)
    codes[..., 0], codes[..., 1] = packed & 15, packed >> 4
    return codes.reshape(*packed.shape[:-1], -1)


def mxfp4(packed: NDArray[np.uint8], scale: NDArray[np.uint8]) -> Numbers:
    """`[out, in]` of codes `[out, in/2]` and exponents `[out, in/32]`, 255 of which means NaN."""
    powers = scale.view(ml_dtypes.float8_e8m0fnu).astype(np.float64)
    groups = _HALF_BYTES[halves(packed)].reshape(*scale.shape, MXFP4_GROUP)
    return (groups * powers[..., None]).reshape(packed.shape[0], -1)


def fp8(codes: NDArray[np.uint8], scale_inv: Numbers) -> Numbers:
    """`[out, in]` of e4m3 codes and one factor for each 128 × 128 of them, multiplied."""
    rows, columns = codes.shape
    values = codes.view(ml_dtypes.float8_e4m3fn).astype(np.float32).astype(np.float64)
    by_row = np.repeat(scale_inv, FP8_BLOCK, axis=0)[:rows]
    return values * np.repeat(by_row, FP8_BLOCK, axis=1)[:, :columns]
