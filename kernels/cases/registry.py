"""All cases, kernel by kernel."""

from kernels.cases import kda, mla, moe, norms, residual
from kernels.cases.case import Case

CASES: list[Case] = [
    *norms.CASES,
    *kda.CASES,
    *mla.CASES,
    *residual.CASES,
    *moe.CASES,
]
