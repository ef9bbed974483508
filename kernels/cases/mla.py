"""Multi-head latent attention at the sizes of K3, and the rotation at those of K2."""

import torch
from torch import Tensor

from kernels import work
from kernels.cases.case import Case, Draw
from kernels.mla_decode import read_latents
from kernels.mla_prefill import attend
from kernels.rope import rotate

LONG, SHORT, MANY, FAR = 8192, 64, 8, 131072
HEADS, CONTENT, SHARED, VALUE, LATENT = 96, 128, 64, 128, 512
WIDTH = CONTENT + SHARED
SCALE = WIDTH**-0.5
TURNING_HEADS = 64
NEWER = [("sm_90", "bfloat16"), ("sm_100", "bfloat16")]


def grown(draw: Draw, batch: int, pos: int, padded: bool) -> dict[str, object]:
    """Heads lie side by side in each position, as projections leave them."""
    rows = (batch, pos, HEADS)
    return {
        "q": draw.normal(*rows, WIDTH).transpose(1, 2),
        "k": draw.normal(*rows, WIDTH).transpose(1, 2),
        "v": draw.normal(*rows, VALUE).transpose(1, 2),
        "scale": SCALE,
        "real": lengths(draw, batch, pos) if padded else None,
    }


def lengths(draw: Draw, batch: int, columns: int) -> Tensor:
    """Sequences that end somewhere in the second half of their columns."""
    length = columns - draw.integers(columns // 2, batch, 1)
    return torch.arange(columns, device=draw.device) < length


def latents(draw: Draw, batch: int, src: int, padded: bool) -> dict[str, object]:
    return {
        "q": draw.normal(batch, HEADS, 1, LATENT + SHARED),
        "latents": draw.normal(batch, src, LATENT),
        "shared": draw.normal(batch, src, SHARED),
        "scale": SCALE,
        "real": lengths(draw, batch, src) if padded else None,
    }


def turning(draw: Draw) -> dict[str, object]:
    angles = (1, LONG, 1, SHARED // 2)
    return {
        "x": draw.normal(1, LONG, TURNING_HEADS, SHARED),
        "cosine": draw.normal(*angles, dtype=draw.wide),
        "sine": draw.normal(*angles, dtype=draw.wide),
    }


CASES = [
    Case(
        kernel="mla_prefill",
        sizes=f"{LONG} tokens",
        launcher=attend,
        arguments=lambda draw: grown(draw, 1, LONG, padded=False),
        work=lambda item: work.mla_prefill(1, LONG, HEADS, WIDTH, VALUE, item),
    ),
    Case(
        kernel="mla_prefill",
        sizes=f"{MANY} padded sequences of {LONG // MANY} tokens",
        launcher=attend,
        arguments=lambda draw: grown(draw, MANY, LONG // MANY, padded=True),
        work=lambda item: work.mla_prefill(MANY, LONG // MANY, HEADS, WIDTH, VALUE, item),
        compiled_for=NEWER,
    ),
    Case(
        kernel="mla_prefill",
        sizes=f"{MANY} padded sequences of {SHORT} tokens",
        launcher=attend,
        arguments=lambda draw: grown(draw, MANY, SHORT, padded=True),
        work=lambda item: work.mla_prefill(MANY, SHORT, HEADS, WIDTH, VALUE, item),
        compiled_for=NEWER,
    ),
    Case(
        kernel="mla_decode",
        sizes=f"one sequence of {FAR} positions",
        launcher=read_latents,
        arguments=lambda draw: latents(draw, 1, FAR, padded=False),
        work=lambda item: work.mla_decode(1, FAR, HEADS, LATENT, SHARED, item),
    ),
    Case(
        kernel="mla_decode",
        sizes=f"{MANY} padded sequences of {LONG} positions",
        launcher=read_latents,
        arguments=lambda draw: latents(draw, MANY, LONG, padded=True),
        work=lambda item: work.mla_decode(MANY, LONG, HEADS, LATENT, SHARED, item),
        compiled_for=NEWER,
    ),
    Case(
        kernel="rope",
        sizes=f"{LONG} tokens of {TURNING_HEADS} heads",
        launcher=rotate,
        arguments=turning,
        work=lambda item: work.rotation(LONG, TURNING_HEADS, SHARED, item),
    ),
]
