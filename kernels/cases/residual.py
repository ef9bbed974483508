"""The attention residual at the width of K3."""

from kernels import work
from kernels.attn_res import read_sources
from kernels.cases.case import Case, Draw

LONG, WIDTH, SEALED = 8192, 7168, 8
EPS = 1e-5


def sources(draw: Draw, rows: int) -> dict[str, object]:
    return {
        "residual": draw.normal(rows, WIDTH),
        "bank": draw.normal(rows, SEALED, WIDTH),
        "norm_weight": draw.normal(WIDTH),
        "proj_weight": draw.normal(WIDTH, scale=WIDTH**-0.5),
        "eps": EPS,
    }


CASES = [
    Case(
        kernel="attn_res",
        sizes=f"{LONG} tokens of {WIDTH}, {SEALED + 1} sources",
        launcher=read_sources,
        arguments=lambda draw: sources(draw, LONG),
        work=lambda item: work.source_mix(LONG, SEALED + 1, WIDTH, item),
    ),
    Case(
        kernel="attn_res",
        sizes=f"one token of {WIDTH}, {SEALED + 1} sources",
        launcher=read_sources,
        arguments=lambda draw: sources(draw, 1),
        work=lambda item: work.source_mix(1, SEALED + 1, WIDTH, item),
        compiled_for=[],
    ),
]
