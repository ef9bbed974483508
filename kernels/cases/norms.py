"""The norms at the sizes of K3."""

from kernels import work
from kernels.cases.case import Case, Draw
from kernels.rms_norm import rms_norm

EPS = 1e-5


def residual_norm(draw: Draw) -> dict[str, object]:
    return {"x": draw.normal(8192, 7168), "weight": draw.normal(7168), "eps": EPS}


CASES = [
    Case(
        kernel="rms_norm",
        sizes="8192 rows of 7168",
        launcher=rms_norm,
        arguments=residual_norm,
        work=lambda item: work.rms_norm(8192, 7168, item),
    ),
]
