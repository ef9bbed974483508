"""Which functions a model runs: those of its own text, or Triton kernels in their place."""

from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import Any

import torch
from torch import Tensor

from kernels.available import why_not

KERNELS = ("auto", "torch", "triton")
IN_TORCH = "torch: chunked KDA in prefill, one step at a time in decode"
IN_TRITON = (
    "triton: norms, convolutions, rotation, routing, experts, attention and mixes over depth in "
    "kernels; chunked KDA in prefill, one fused step in decode"
)

Pair = tuple[Tensor, Tensor]


@dataclass(frozen=True, kw_only=True)
class Kernels:
    """What stands in for functions of the model, by their names; `None` leaves the text itself.

    Each takes what the function of its name takes. `kda_step`, `kda_prefill` and
    `through_experts` fuse several statements of the text; their arguments are said there.
    """

    rms_norm: Callable[[Tensor, Tensor, float], Tensor] | None = None
    gated_rms_norm: Callable[[Tensor, Tensor, Tensor, float], Tensor] | None = None
    short_convolution: Callable[[Tensor, Tensor, Tensor, Tensor | None], Pair] | None = None
    rotate: Callable[[Tensor, Tensor, Tensor], Tensor] | None = None
    situ: Callable[[Tensor, Tensor, float, float | None], Tensor] | None = None
    swiglu: Callable[[Tensor, Tensor], Tensor] | None = None
    chunked_delta_rule: Callable[[Tensor, Tensor, Tensor, Tensor, Tensor, Tensor], Any] | None = (
        None
    )
    kda_step: Callable[..., Pair] | None = None
    kda_prefill: Callable[..., Pair] | None = None
    read_sources: Callable[[Tensor, Tensor, Tensor, Tensor, float], Tensor] | None = None
    choose: Callable[..., Pair] | None = None
    through_experts: Callable[..., Pair] | None = None
    attend: Callable[[Tensor, Tensor, Tensor, float, Tensor | None], Tensor] | None = None
    read_latents: Callable[[Tensor, Tensor, Tensor, float, Tensor | None], Tensor] | None = None

    @property
    def path(self) -> str:
        """`torch` where nothing stands in for the text."""
        given = any(getattr(self, field.name) is not None for field in fields(self))
        return "triton" if given else "torch"


TORCH = Kernels()


def triton_kernels() -> Kernels:
    """Every launcher. Needs Triton, which a machine without a GPU can do without."""
    from kernels.attn_res import read_sources
    from kernels.experts import through_experts
    from kernels.gated_rms_norm import gated_rms_norm
    from kernels.kda_chunk import chunked_delta_rule, kda_prefill
    from kernels.kda_step import kda_step
    from kernels.mla_decode import read_latents
    from kernels.mla_prefill import attend
    from kernels.rms_norm import rms_norm
    from kernels.rope import rotate
    from kernels.router import choose
    from kernels.short_conv import short_convolution
    from kernels.situ import situ, swiglu

    return Kernels(
        rms_norm=rms_norm,
        gated_rms_norm=gated_rms_norm,
        short_convolution=short_convolution,
        rotate=rotate,
        situ=situ,
        swiglu=swiglu,
        chunked_delta_rule=chunked_delta_rule,
        kda_step=kda_step,
        kda_prefill=kda_prefill,
        read_sources=read_sources,
        choose=choose,
        through_experts=through_experts,
        attend=attend,
        read_latents=read_latents,
    )


@dataclass(frozen=True)
class Choice:
    """What a model runs on, and the words for it that stand beside every value."""

    kernels: Kernels
    words: str


def choose_kernels(asked: str, device: torch.device, dtype: str) -> Choice:
    """Decided once, when a model is made.

    `"auto"` takes Triton on a GPU and the model's own text elsewhere, and says why. `"triton"`
    raises a ValueError where it cannot run.
    """
    if asked not in KERNELS:
        raise ValueError(f"kernels={asked!r}: choose one of {', '.join(KERNELS)}.")
    if asked == "torch":
        return Choice(TORCH, IN_TORCH)
    if asked == "auto" and device.type != "cuda":
        # Triton is not even imported for it
        return Choice(TORCH, f"{IN_TORCH}; no Triton, since the model is not on a GPU")
    missing = why_not(device.type, dtype)
    if missing and asked == "triton":
        raise ValueError(f"kernels='triton' cannot run: {missing}. 'auto' or 'torch' can.")
    if missing:
        return Choice(TORCH, f"{IN_TORCH}; no Triton, since {missing}")
    where = "" if device.type == "cuda" else "; in Triton's interpreter"
    return Choice(triton_kernels(), IN_TRITON + where)
