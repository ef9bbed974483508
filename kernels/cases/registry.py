"""All cases, kernel by kernel."""

from kernels.cases import kda, norms
from kernels.cases.case import Case

CASES: list[Case] = [*norms.CASES, *kda.CASES]
