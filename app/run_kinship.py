"""How the model that runs differs from the released one whose sizes are on the page."""

from collections.abc import Callable, Sequence

from model.config import KimiConfig
from model.presets import RELEASED, preset

FEATURES: dict[str, Callable[[KimiConfig], bool]] = {
    "layers with a memory of fixed size": lambda c: "kda" in c.mixers,
    "residual sums that are mixed over depth": lambda c: c.attn_res_block_size is not None,
    "keys turned by their position": lambda c: not c.mla_use_nope,
    "an output gate in attention": lambda c: c.mla_use_output_gate,
    "queries through a latent": lambda c: c.q_lora_rank is not None,
    "routed experts on a latent": lambda c: c.routed_expert_hidden_size is not None,
    "the activation SiTU": lambda c: c.hidden_act == "situ",
}
"""What one model of the family has and another has not."""


def features(config: KimiConfig) -> frozenset[str]:
    return frozenset(name for name, has in FEATURES.items() if has(config))


def released_like(config: KimiConfig) -> str | None:
    """The released model that a running one is built as."""
    return next((name for name in RELEASED if features(preset(name)) == features(config)), None)


def difference(running: KimiConfig, priced: KimiConfig) -> tuple[str, ...]:
    """What the running model has more, and what it lacks, each as a phrase."""
    ours, theirs = features(running), features(priced)
    more = [name for name in FEATURES if name in ours - theirs]
    less = [name for name in FEATURES if name in theirs - ours]
    parts = [f"has {_listed(more)}"] if more else []
    return (*parts, *([f"lacks {_listed(less)}"] if less else []))


def _listed(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"
