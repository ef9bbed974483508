"""All cases, kernel by kernel."""

from kernels.cases import norms
from kernels.cases.case import Case

CASES: list[Case] = [*norms.CASES]
