"""Every planted fault, by family."""

from tests.maths.mutations import depth, kda, mla, moe
from tests.maths.mutations.fault import Fault

FAULTS: tuple[Fault, ...] = (*depth.FAULTS, *kda.FAULTS, *mla.FAULTS, *moe.FAULTS)
