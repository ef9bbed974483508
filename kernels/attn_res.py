"""Attention residual: one pass over the sources, each of which is loaded once and used twice."""

import torch
import triton
import triton.language as tl
from torch import Tensor

from kernels.operands import check_operands, check_shapes


@triton.jit
def read_sources_kernel(
    residual_ptr,
    bank_ptr,
    norm_ptr,
    proj_ptr,
    y_ptr,
    residual_row,
    bank_row,
    bank_source,
    S,
    D,
    eps,
    BLOCK: tl.constexpr,
):
    row = tl.program_id(0).to(tl.int64)
    feature = tl.arange(0, BLOCK)
    inside = feature < D
    norm = tl.load(norm_ptr + feature, mask=inside, other=0.0).to(tl.float32)
    query = norm * tl.load(proj_ptr + feature, mask=inside, other=0.0).to(tl.float32)  # [BLOCK]

    # the running sum goes first, so that an empty bank leaves it as it is
    mixed = tl.load(residual_ptr + row * residual_row + feature, mask=inside, other=0.0)
    mixed = mixed.to(tl.float32)  # [BLOCK]
    top = tl.sum(query * mixed, axis=0) * tl.rsqrt(tl.sum(mixed * mixed, axis=0) / D + eps)
    total = top * 0.0 + 1.0
    bank_ptr += row * bank_row
    for _ in range(S):
        v = tl.load(bank_ptr + feature, mask=inside, other=0.0).to(tl.float32)  # [BLOCK]
        score = tl.sum(query * v, axis=0) * tl.rsqrt(tl.sum(v * v, axis=0) / D + eps)
        highest = tl.maximum(top, score)
        keep, weight = tl.exp(top - highest), tl.exp(score - highest)
        # the raw source is mixed: its norm only decided how much
        mixed = keep * mixed + weight * v
        total = keep * total + weight
        top = highest
        bank_ptr += bank_source
    mixed = mixed / total
    tl.store(y_ptr + row * D + feature, mixed.to(y_ptr.dtype.element_ty), mask=inside)


def read_sources(
    residual: Tensor, bank: Tensor, norm_weight: Tensor, proj_weight: Tensor, eps: float
) -> Tensor:
    """Softmax mix of `bank`, `[…, source, D]`, and the running sum `residual`, `[…, D]`.

    A source's score is that of its unit-rms copy against `norm_weight ⊙ proj_weight`, both `[D]`.
    """
    *lead, D = residual.shape
    S = bank.shape[-2] if bank.ndim > 1 else 0
    check_shapes(
        "read_sources",
        bank=(bank, (*lead, S, D)),
        norm_weight=(norm_weight, (D,)),
        proj_weight=(proj_weight, (D,)),
    )
    check_operands(
        "read_sources",
        residual=residual,
        bank=bank,
        norm_weight=norm_weight,
        proj_weight=proj_weight,
    )
    dtype = torch.promote_types(residual.dtype, bank.dtype)
    y = torch.empty(residual.shape, dtype=dtype, device=residual.device)
    if not y.numel():
        return y
    v = residual.reshape(-1, D)
    sources = bank.reshape(len(v), S, D)
    block = triton.next_power_of_2(D)
    read_sources_kernel[(len(v),)](
        v,
        sources,
        norm_weight,
        proj_weight,
        y,
        v.stride(0),
        sources.stride(0),
        sources.stride(1),
        S,
        D,
        eps,
        BLOCK=block,
        num_warps=min(max(block // 512, 1), 16),
    )
    return y
