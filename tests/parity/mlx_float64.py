"""Makes mlx compute in float64 on the CPU, so that rounding cannot hide or feign a difference.

mlx holds float64 and multiplies matrices in it, but its exponentials are as exact as float32 only,
and some operations round their operands to float32 or refuse float64. Each is replaced by the
same function in float64 terms. Call `widen` before the module of a model is imported: what asks
for `mx.float32` afterwards gets float64.
"""

import math
from pathlib import Path
from typing import Any

import mlx.core as mx
import numpy as np


def widen() -> None:
    load, single = mx.load, mx.float32

    def load_wide(path: str) -> dict[str, mx.array]:
        loaded = load(path)
        return {k: v.astype(mx.float64) if v.dtype == single else v for k, v in loaded.items()}

    mx.load = load_wide
    mx.exp, mx.sigmoid, mx.softmax, mx.logaddexp = exp, sigmoid, softmax, logaddexp
    mx.gather_mm, mx.conv1d = gather_mm, conv1d
    mx.fast.rms_norm, mx.fast.scaled_dot_product_attention = rms_norm, attention
    mx.save_safetensors = save
    mx.float32 = mx.float64


def exp(x: mx.array, **_: Any) -> mx.array:
    # powers are exact in float64
    return mx.power(mx.array(math.e, dtype=mx.float64), x)


def sigmoid(x: mx.array, **_: Any) -> mx.array:
    return 0.5 * (1.0 + mx.tanh(0.5 * x))


def logaddexp(a: mx.array, b: mx.array | float, **_: Any) -> mx.array:
    top = mx.maximum(a, b)
    return top + mx.log1p(exp(-mx.abs(a - b)))


def softmax(x: mx.array, axis: int = -1, **_: Any) -> mx.array:
    weight = exp(x - x.max(axis=axis, keepdims=True))
    return weight / weight.sum(axis=axis, keepdims=True)


def rms_norm(x: mx.array, weight: mx.array | None, eps: float, **_: Any) -> mx.array:
    normed = x / mx.sqrt((x * x).mean(axis=-1, keepdims=True) + eps)
    return normed if weight is None else normed * weight


def attention(
    q: mx.array, k: mx.array, v: mx.array, *, scale: float, mask: Any = None, **_: Any
) -> mx.array:
    """Softmax of scaled scores; one key head may serve many query heads."""
    scores = scale * (q @ k.swapaxes(-1, -2))
    if isinstance(mask, str):
        assert mask == "causal"
        rows, columns = scores.shape[-2:]
        mask = mx.tril(mx.ones((rows, columns), dtype=mx.bool_), columns - rows)
    if mask is not None:
        is_kept = mask.dtype == mx.bool_
        scores = mx.where(mask, scores, -math.inf) if is_kept else scores + mask
    return softmax(scores) @ v


def gather_mm(
    a: mx.array, b: mx.array, *, lhs_indices: None = None, rhs_indices: mx.array, **_: Any
) -> mx.array:
    assert lhs_indices is None
    return a @ b[rhs_indices]


def conv1d(x: mx.array, weight: mx.array, *_: Any, **__: Any) -> mx.array:
    """Each channel of `[batch, pos, channel]` by its own `[channel, lag, 1]`, without padding."""
    assert weight.shape[0] == x.shape[-1]
    lags = weight.shape[1]
    pos = x.shape[1] - lags + 1
    return sum((x[:, lag : lag + pos] * weight[:, lag, 0] for lag in range(lags)), mx.array(0.0))


def save(path: str, arrays: dict[str, mx.array]) -> None:
    """mlx's own writer knows no float64."""
    from safetensors.numpy import save_file

    assert {array.dtype for array in arrays.values()} == {mx.float64}
    save_file({name: np.array(array) for name, array in arrays.items()}, Path(path))
