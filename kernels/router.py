"""Router: sigmoid, a biased choice of the top experts, and their unbiased weights."""

from typing import NamedTuple

import torch
import triton
import triton.language as tl
from torch import Tensor

from kernels.operands import check_operands, check_shapes, refuse
from kernels.sigmoid import sigmoid

SUM_EPS = tl.constexpr(1e-20)
"""Keeps the renormalization of router weights finite."""
TAKEN = tl.constexpr(-(2**63))
"""Rank below every number, minus infinity too."""


@triton.jit
def order(x):
    """An int32 that grows as the float32 does; a NaN lies above all numbers."""
    bits = x.to(tl.int32, bitcast=True)
    return tl.where(x == x, bits ^ ((bits >> 31) & 0x7FFFFFFF), 0x7FFFFFFF)


@triton.jit
def number(key):
    """The float32 whose `order` this is."""
    return (key ^ ((key >> 31) & 0x7FFFFFFF)).to(tl.float32, bitcast=True)


@triton.jit
def rank(x, index):
    """An int64 that is largest for the largest number, and among equals for the first index."""
    return (order(x).to(tl.int64) << 32) | (0x7FFFFFFF - index).to(tl.int64)


@triton.jit
def index_of(ranked):
    return 0x7FFFFFFF - (ranked & 0xFFFFFFFF)


@triton.jit
def groups_left_out(value, inside, group, TOP_GROUPS: tl.constexpr):
    """`[BLOCK_G, 1]`: whether a group is beaten, by the sum of its two best, by others enough."""
    key = tl.where(inside, order(value), -(2**31))  # [BLOCK_G, BLOCK_S]
    best = tl.max(key, axis=1)
    # one expert of equal ones gives way to the next
    first = tl.argmax(key, axis=1)
    seat = tl.arange(0, key.shape[1])
    second = tl.max(tl.where(seat[None, :] == first[:, None], -(2**31), key), axis=1)
    ranked = rank(number(best) + number(second), group)
    ranked = tl.where(tl.max(inside.to(tl.int32), axis=1) > 0, ranked, TAKEN)
    for _ in range(TOP_GROUPS):
        ranked = tl.where(ranked == tl.max(ranked, axis=0), TAKEN, ranked)
    return (ranked != TAKEN)[:, None]


@triton.jit
def choose_kernel(
    logits_ptr,
    bias_ptr,
    chosen_ptr,
    weight_ptr,
    logits_row,
    scale,
    E,
    TOP: tl.constexpr,
    GROUPS: tl.constexpr,
    TOP_GROUPS: tl.constexpr,
    RENORMALIZE: tl.constexpr,
    BLOCK_G: tl.constexpr,
    BLOCK_S: tl.constexpr,
    BLOCK_A: tl.constexpr,
):
    row = tl.program_id(0).to(tl.int64)
    size = E // GROUPS
    group, seat = tl.arange(0, BLOCK_G), tl.arange(0, BLOCK_S)
    expert = group[:, None] * size + seat[None, :]  # [BLOCK_G, BLOCK_S]
    inside = (group < GROUPS)[:, None] & (seat < size)[None, :]
    logit = tl.load(logits_ptr + row * logits_row + expert, mask=inside, other=0.0)
    bias = tl.load(bias_ptr + expert, mask=inside, other=0.0)
    value = sigmoid(logit.to(tl.float32)) + bias.to(tl.float32)
    if GROUPS > 1:
        value = tl.where(groups_left_out(value, inside, group, TOP_GROUPS), float("-inf"), value)
    ranked = tl.where(inside, rank(value, expert), TAKEN)

    choice = tl.arange(0, BLOCK_A)
    chosen = tl.zeros((BLOCK_A,), tl.int64)
    for i in range(TOP):
        best = tl.max(ranked)
        chosen = tl.where(choice == i, index_of(best), chosen)
        ranked = tl.where(ranked == best, TAKEN, ranked)
    # the bias chose; it does not weigh
    kept = choice < TOP
    logit = tl.load(logits_ptr + row * logits_row + chosen, mask=kept, other=float("-inf"))
    weight = sigmoid(logit.to(tl.float32))  # [BLOCK_A]
    if RENORMALIZE:
        weight = weight / (tl.sum(weight, axis=0) + SUM_EPS)
    tl.store(chosen_ptr + row * TOP + choice, chosen, mask=kept)
    tl.store(weight_ptr + row * TOP + choice, weight * scale, mask=kept)


class Chosen(NamedTuple):
    expert: Tensor
    """`[…, choice]`, the most wanted first."""
    weight: Tensor


def choose(
    logits: Tensor,
    bias: Tensor,
    *,
    top: int,
    groups: int = 1,
    top_groups: int = 1,
    renormalize: bool = True,
    scale: float = 1.0,
) -> Chosen:
    """`top` experts of `[…, expert]` by `σ(logit) + bias`, and their weights by `σ(logit)` alone.

    Of equal experts the first is chosen. A NaN is chosen before all numbers, as `topk` does, so
    that it shows in the weights of its token, and only there; an index is always an expert's.
    """
    E = logits.shape[-1]
    faults = []
    if not 1 <= top <= E:
        faults.append(f"top must be 1 to {E}, not {top!r}")
    if groups < 1 or E % groups or (groups > 1 and E // groups < 2):
        faults.append(f"{E} experts do not split into {groups!r} groups of two or more")
    if not 1 <= top_groups <= groups:
        faults.append(f"top_groups must be 1 to {groups}, not {top_groups!r}")
    refuse("choose", faults)
    check_shapes("choose", bias=(bias, (E,)))
    check_operands("choose", logits=logits, bias=bias)
    shape = (*logits.shape[:-1], top)
    chosen = torch.empty(shape, dtype=torch.int64, device=logits.device)
    weight = torch.empty(shape, dtype=torch.float32, device=logits.device)
    if not chosen.numel():
        return Chosen(chosen, weight)
    rows = logits.reshape(-1, E)
    choose_kernel[(len(rows),)](
        rows,
        bias,
        chosen,
        weight,
        rows.stride(0),
        scale,
        E,
        TOP=top,
        GROUPS=groups,
        TOP_GROUPS=top_groups,
        RENORMALIZE=renormalize and top > 1,
        BLOCK_G=triton.next_power_of_2(groups),
        BLOCK_S=triton.next_power_of_2(E // groups),
        BLOCK_A=triton.next_power_of_2(top),
        # one warp holds a token's experts, so that no round of the choice waits for another warp
        num_warps=1,
    )
    return Chosen(chosen, weight)
