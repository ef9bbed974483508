"""Which taps a Triton kernel keeps to itself. Needs no torch."""

from model import catalog

_CONSTANTS = {
    "AttnResidual": ("model.attn_res:AttnResidual.IN_KERNEL",),
    "KimiMoEGate": ("model.moe:KimiMoEGate.IN_KERNEL",),
    "KimiMLAAttention": ("model.mla:KimiMLAAttention.FUSED_AWAY",),
}
_OF_A_STEP = (
    "model.kda:KimiDeltaAttention.IN_KERNEL",
    "model.kda:KimiDeltaAttention.RECOMPUTED",
)


def taps_in_kernel(owner: str, pos: int) -> frozenset[str]:
    """Attributes of the class `owner` that do not fire, on kernels, in a kept call of `pos` rows.

    Of a memory's prompt chunks are computed from terms that are held; a step is one kernel.
    """
    constants = _CONSTANTS.get(owner, ())
    if owner == "KimiDeltaAttention":
        constants = _OF_A_STEP if pos == 1 else _OF_A_STEP[1:]
    return frozenset(tap for constant in constants for tap in catalog.constant(constant))
