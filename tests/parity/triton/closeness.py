"""How far a kernel may be from the reference in float64."""

import torch
from torch import Tensor

BOUNDS = {torch.float32: 1e-5, torch.bfloat16: 5e-3, torch.float16: 5e-3}
"""Of the error's root mean square, relative to that of the reference."""


def assert_near(ours: Tensor, reference: Tensor, bound: float | None = None) -> None:
    """Not-a-numbers and infinities stand at the same places, and the rest is within the bound."""
    bound = BOUNDS[ours.dtype] if bound is None else bound
    assert ours.shape == reference.shape, f"{tuple(ours.shape)}, not {tuple(reference.shape)}"
    a, b = ours.double().cpu(), reference.double().cpu()
    odd = ~b.isfinite()
    torch.testing.assert_close(a[odd], b[odd], equal_nan=True)
    a, b = a[~odd], b[~odd]
    assert a.isfinite().all(), f"{(~a.isfinite()).sum()} of {a.numel()} values are not finite"
    if not b.numel():
        return
    scale = b.square().mean().sqrt()
    error = (a - b).square().mean().sqrt()
    assert error <= bound * scale, (
        f"error {error:.2e} of {scale:.2e}, {error / scale:.1e} > {bound}"
    )
