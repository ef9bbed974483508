"""The norms at the sizes of K3."""

from kernels import work
from kernels.cases.case import Case, Draw
from kernels.rms_norm import rms_norm

LONG, WIDTH = 8192, 7168
EPS = 1e-5


def residual_norm(draw: Draw) -> dict[str, object]:
    return {"x": draw.normal(LONG, WIDTH), "weight": draw.normal(WIDTH), "eps": EPS}


CASES = [
    Case(
        kernel="rms_norm",
        sizes=f"{LONG} rows of {WIDTH}",
        launcher=rms_norm,
        arguments=residual_norm,
        work=lambda item: work.rms_norm(LONG, WIDTH, item),
    ),
]
