"""Rotary positions: pairs of features turn by an angle that grows with the position."""

from functools import lru_cache

import torch
from torch import Tensor


@lru_cache(maxsize=16)
def speeds_on(speeds: tuple[float, ...], device: torch.device, dtype: torch.dtype) -> Tensor:
    """The speeds of a model's pairs on its device, so that no step has to bring them there."""
    with torch.inference_mode(False):
        return torch.tensor(speeds, device=device, dtype=dtype)


def rotate(x: Tensor, cosine: Tensor, sine: Tensor) -> Tensor:
    """`[…, R]`: features 2m and 2m + 1 turn together, and lie at m and m + R/2 afterwards.

    `cosine` and `sine` are those of each pair's angle, `[…, R/2]`.
    """
    even, odd = x[..., 0::2], x[..., 1::2]
    return torch.cat([even * cosine - odd * sine, odd * cosine + even * sine], dim=-1)
