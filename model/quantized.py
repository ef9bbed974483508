"""Packed weights to numbers, as the two formats of released checkpoints define them."""

import torch
import torch.nn.functional as F
from torch import Tensor

from model.number_formats import FP8_BLOCK, MXFP4_GROUP

_MAGNITUDES = (0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0)
"""E2M1: two bits of exponent and one of mantissa, below a sign bit."""


def mxfp4(packed: Tensor, scale: Tensor) -> Tensor:
    """Float32 `[…, out, in]` of codes uint8 `[…, out, in/2]` and scales uint8 `[…, out, in/32]`.

    The low half of a byte is the even column. A scale `s` means 2^(s − 127), and 255 NaN, for
    its 32 columns. Every value is exact; scales from 254 on reach beyond float32, to infinity.
    """
    pairs, powers = _pairs(packed.device), _powers(packed.device)
    # a pair moves as one float64, which is looked up in half the time of two float32
    values = pairs.index_select(0, packed.flatten().int()).view(torch.float32)
    groups = values.view(*scale.shape, MXFP4_GROUP)
    groups *= F.embedding(scale.int(), powers)
    return groups.view(*packed.shape[:-1], -1)


def fp8(weight: Tensor, scale_inv: Tensor) -> Tensor:
    """Float32 `[out, in]` of float8 e4m3 and one float32 a block of 128 × 128, multiplied."""
    columns = weight.shape[1]
    by_column = scale_inv.repeat_interleave(FP8_BLOCK, dim=1)[:, :columns]
    values = weight.float()
    for band, factor in zip(values.split(FP8_BLOCK), by_column, strict=True):
        band *= factor
    return values


def fp8_blocks(size: int) -> int:
    """Blocks along an axis, of which the last may hold fewer."""
    return -(-size // FP8_BLOCK)


def _pairs(device: torch.device) -> Tensor:
    """Each byte's two float32 values, side by side in one float64: `[256]`."""
    signed = torch.tensor([*_MAGNITUDES, *(-value for value in _MAGNITUDES)])
    low, high = signed.repeat(16), signed.repeat_interleave(16)
    return torch.stack([low, high], dim=-1).view(torch.float64).flatten().to(device)


def _powers(device: torch.device) -> Tensor:
    """Each scale's power of two, written as the bits of a float32: `[256, 1]`."""
    bits = torch.arange(256, dtype=torch.int32) << 23
    # 2^-127 lies below the least exponent of a float32, and is half of its least power
    bits[0] = 1 << 22
    powers = bits.view(torch.float32)
    powers[255] = torch.nan
    return powers[:, None].to(device)
