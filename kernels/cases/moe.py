"""The router, the routed experts and their activations at the sizes of K3."""

from collections.abc import Sequence
from functools import partial

import torch
from torch import Tensor

from kernels import work
from kernels.cases.case import EVERY_TARGET, Case, Draw
from kernels.experts import Matrices, through_experts
from kernels.router import choose
from kernels.situ import situ, swiglu

LONG, MANY = 8192, 128
EXPERTS, CHOICES, LATENT, HIDDEN = 896, 16, 3584, 3072
BETA, LINEAR_BETA = 4.0, 25.0
K2_EXPERTS, K2_CHOICES = 384, 8
NEWER = [("sm_90", "bfloat16"), ("sm_100", "bfloat16")]


def logits(draw: Draw, experts: int, top: int, groups: int = 1) -> dict[str, object]:
    return {
        "logits": draw.normal(LONG, experts, dtype=draw.wide),
        "bias": draw.normal(experts, scale=0.01, dtype=draw.wide),
        "top": top,
        "groups": groups,
        "top_groups": max(groups // 2, 1),
    }


def packed(draw: Draw, out: int, width: int) -> Matrices:
    """Codes at random, and scales that leave a unit row a unit row."""
    codes = draw.integers(256, EXPERTS, out, width // 2, dtype=torch.uint8)
    scale = 121 + draw.integers(2, EXPERTS, out, width // 32, dtype=torch.uint8)
    return codes, scale


def dense(draw: Draw, out: int, width: int) -> Matrices:
    """Column by column, as the model keeps its matrices."""
    columns = draw.normal(EXPERTS, width, out, scale=width**-0.5)
    return columns.mT


def routed(draw: Draw, tokens: int, is_packed: bool) -> dict[str, object]:
    matrix = packed if is_packed else dense
    return {
        "z": draw.normal(tokens, LATENT),
        "chosen": different(draw, tokens),
        "w1": matrix(draw, HIDDEN, LATENT),
        "w2": matrix(draw, LATENT, HIDDEN),
        "w3": matrix(draw, HIDDEN, LATENT),
        "beta": BETA,
        "linear_beta": LINEAR_BETA,
    }


def different(draw: Draw, tokens: int) -> Tensor:
    return draw.normal(tokens, EXPERTS, dtype=draw.wide).topk(CHOICES).indices


def gate_and_up(draw: Draw) -> dict[str, object]:
    gate, up = draw.normal(LONG, 2 * 2 * HIDDEN).split(2 * HIDDEN, dim=-1)
    return {"gate": gate, "up": up}


def experts(
    tokens: int, *, is_packed: bool, compiled_for: Sequence[tuple[str, str]] = EVERY_TARGET
) -> Case:
    kind = "MXFP4" if is_packed else "dense"
    count = partial(work.experts, tokens, EXPERTS, CHOICES, LATENT, HIDDEN)
    return Case(
        kernel="experts",
        sizes=f"{tokens} tokens, {kind}",
        launcher=through_experts,
        arguments=lambda draw: routed(draw, tokens, is_packed),
        work=lambda item: count(item, 17 / 32 if is_packed else item),
        compiled_for=compiled_for,
    )


CASES = [
    Case(
        kernel="router",
        sizes=f"{LONG} tokens, {CHOICES} of {EXPERTS}",
        launcher=choose,
        arguments=lambda draw: logits(draw, EXPERTS, CHOICES),
        work=lambda item: work.router(LONG, EXPERTS, CHOICES),
    ),
    Case(
        kernel="router",
        sizes=f"{LONG} tokens, {K2_CHOICES} of {K2_EXPERTS} in 8 groups",
        launcher=choose,
        arguments=lambda draw: logits(draw, K2_EXPERTS, K2_CHOICES, groups=8),
        work=lambda item: work.router(LONG, K2_EXPERTS, K2_CHOICES),
        compiled_for=NEWER,
    ),
    experts(1, is_packed=True, compiled_for=[]),
    experts(MANY, is_packed=True),
    experts(LONG, is_packed=True, compiled_for=NEWER),
    experts(1, is_packed=False, compiled_for=[]),
    experts(MANY, is_packed=False, compiled_for=NEWER[:1]),
    experts(LONG, is_packed=False, compiled_for=NEWER),
    Case(
        kernel="situ",
        sizes=f"{LONG} tokens of {2 * HIDDEN}",
        launcher=partial(situ, beta=BETA, linear_beta=LINEAR_BETA),
        arguments=gate_and_up,
        work=lambda item: work.situ(LONG, 2 * HIDDEN, item),
    ),
    Case(
        kernel="situ",
        sizes=f"{LONG} tokens of {2 * HIDDEN}, SwiGLU",
        launcher=swiglu,
        arguments=gate_and_up,
        work=lambda item: work.swiglu(LONG, 2 * HIDDEN, item),
        compiled_for=NEWER,
    ),
]
