"""Sigmoid and tanh to the accuracy of float32 everywhere, without overflow.

As fractions, numerator and denominator, so that a product of several is divided only once.
"""

import triton
import triton.language as tl

LOG2_E = tl.constexpr(1.4426950408889634)


@triton.jit
def sigmoid(x):
    numerator, denominator = sigmoid_fraction(x)
    return numerator / denominator


@triton.jit
def sigmoid_fraction(x):
    decay = tl.exp2(tl.abs(x) * -LOG2_E)
    return tl.where(x < 0, decay, 1.0), 1.0 + decay


@triton.jit
def tanh_fraction(x):
    decay = tl.exp2(tl.abs(x) * (-2 * LOG2_E))
    far = tl.where(x < 0, decay - 1.0, 1.0 - decay)
    # the difference cancels near zero, where four terms of the series are exact to float32
    s = tl.minimum(x * x, 1.0)
    series = 1.0 + s * (-1 / 3 + s * (2 / 15 + s * (-17 / 315)))
    near = x * series * (1.0 + decay)
    return tl.where(tl.abs(x) < 0.125, near, far), 1.0 + decay
