"""How fast a KDA memory forgets, and rows of unit length: parts of both KDA kernels."""

import triton
import triton.language as tl

from kernels.sigmoid import sigmoid

L2_EPS = tl.constexpr(1e-6)
"""Added to the sum of squares, inside the root."""


@triton.jit
def log_decay(z, rate, lower_bound, BOUNDED: tl.constexpr):
    """`g_min σ(e^A z)`, or `−e^A softplus(z)` without a bound; `rate` is `e^A`."""
    if BOUNDED:
        return lower_bound * sigmoid(rate * z)
    return -rate * softplus(z)


@triton.jit
def softplus(z):
    u = tl.exp(-tl.abs(z))
    one_more = 1.0 + u
    # log(1 + u) loses u to rounding; what it lost is in (1 + u) − 1
    log = tl.where(one_more == 1.0, u, tl.log(one_more) * (u / (one_more - 1.0)))
    return tl.maximum(z, 0.0) + log


@triton.jit
def unit_length(x, axis: tl.constexpr):
    return x * tl.rsqrt(tl.sum(x * x, axis=axis, keep_dims=True) + L2_EPS)
