"""Kimi Delta Attention at the sizes of K3: a prompt of one sequence, and a step of many."""

from dataclasses import replace
from functools import partial

import torch

from kernels import work
from kernels.cases.case import Case, Draw
from kernels.gated_rms_norm import gated_rms_norm
from kernels.kda_chunk import chunked_delta_rule, kda_prefill
from kernels.kda_step import kda_step
from kernels.short_conv import short_convolution

EPS = 1e-5
LONG, MANY = 8192, 128
HEADS, WIDTH, LAG = 96, 128, 4
INNER = HEADS * WIDTH
GATE_BOUND = -5.0
NEWER = (("sm_90", "bfloat16"), ("sm_100", "bfloat16"))


def raw_projections(draw: Draw, batch: int, pos: int, bound: float | None) -> dict[str, object]:
    rows = (batch, pos, HEADS)
    return {
        "q": draw.normal(*rows, WIDTH),
        "k": draw.normal(*rows, WIDTH),
        "v": draw.normal(*rows, WIDTH),
        "gate_logit": draw.normal(*rows, WIDTH),
        "beta_logit": draw.normal(*rows),
        "A_log": draw.normal(HEADS, dtype=draw.wide),
        "dt_bias": draw.normal(INNER, dtype=draw.wide),
        "state": draw.normal(batch, HEADS, WIDTH, WIDTH, dtype=draw.wide),
        "lower_bound": bound,
    }


def convolved(draw: Draw, batch: int, pos: int) -> dict[str, object]:
    return {
        "x": draw.normal(batch, pos, INNER),
        "weight": draw.normal(INNER, LAG),
        "state": draw.normal(batch, INNER, LAG),
    }


def gated(draw: Draw) -> dict[str, object]:
    read, gate = draw.normal(LONG, HEADS, WIDTH), draw.normal(LONG, HEADS, WIDTH)
    return {"read": read, "gate": gate, "weight": draw.normal(WIDTH), "eps": EPS}


def terms(draw: Draw) -> dict[str, object]:
    """What the model's own function takes: normed, scaled and through the gate."""
    draw = replace(draw, dtype=draw.wide)
    rows = (1, LONG // 4, HEADS)
    unit = partial(torch.nn.functional.normalize, dim=-1)
    return {
        "q": unit(draw.normal(*rows, WIDTH)) * WIDTH**-0.5,
        "k": unit(draw.normal(*rows, WIDTH)),
        "v": draw.normal(*rows, WIDTH),
        "log_decay": GATE_BOUND * draw.normal(*rows, WIDTH).sigmoid(),
        "beta": draw.normal(*rows).sigmoid(),
        "state": draw.normal(1, HEADS, WIDTH, WIDTH),
    }


CASES = [
    Case(
        kernel="kda_step",
        sizes=f"{MANY} sequences",
        launcher=kda_step,
        arguments=lambda draw: raw_projections(draw, MANY, 1, GATE_BOUND),
        work=lambda item: work.kda_step(MANY, HEADS, WIDTH, WIDTH, item),
    ),
    Case(
        kernel="kda_step",
        sizes=f"{MANY} sequences, unbounded gate",
        launcher=kda_step,
        arguments=lambda draw: raw_projections(draw, MANY, 1, None),
        work=lambda item: work.kda_step(MANY, HEADS, WIDTH, WIDTH, item),
        compiled_for=NEWER,
    ),
    Case(
        kernel="kda_chunk",
        sizes=f"{LONG} tokens",
        launcher=kda_prefill,
        arguments=lambda draw: raw_projections(draw, 1, LONG, GATE_BOUND),
        work=lambda item: work.kda_prefill(1, LONG, HEADS, WIDTH, WIDTH, item),
    ),
    Case(
        kernel="kda_chunk",
        sizes=f"{LONG} tokens, unbounded gate",
        launcher=kda_prefill,
        arguments=lambda draw: raw_projections(draw, 1, LONG, None),
        work=lambda item: work.kda_prefill(1, LONG, HEADS, WIDTH, WIDTH, item),
        compiled_for=NEWER,
    ),
    Case(
        kernel="kda_chunk",
        sizes=f"{LONG // 4} tokens, every term out",
        launcher=chunked_delta_rule,
        arguments=terms,
        work=lambda item: work.kda_prefill(1, LONG // 4, HEADS, WIDTH, WIDTH, item),
        # the model's own terms are float32
        compiled_for=[("sm_90", "float32"), ("sm_100", "float32")],
    ),
    Case(
        kernel="short_conv",
        sizes=f"{LONG} tokens of {INNER}",
        launcher=short_convolution,
        arguments=lambda draw: convolved(draw, 1, LONG),
        work=lambda item: work.short_convolution(1, LONG, INNER, LAG, item),
    ),
    Case(
        kernel="short_conv",
        sizes=f"{MANY} sequences of {INNER}",
        launcher=short_convolution,
        arguments=lambda draw: convolved(draw, MANY, 1),
        work=lambda item: work.short_convolution(MANY, 1, INNER, LAG, item),
    ),
    Case(
        kernel="gated_rms_norm",
        sizes=f"{LONG} tokens of {HEADS} heads",
        launcher=gated_rms_norm,
        arguments=gated,
        work=lambda item: work.gated_rms_norm(LONG * HEADS, WIDTH, item),
    ),
]
