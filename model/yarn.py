"""At which speed rotary pairs turn, and how YaRN slows them for a longer context."""

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from model.config import KimiConfig

PLAIN, STRETCHED = "default", "yarn"
"""Kinds of `rope_scaling` that are built."""
NEEDED = ("factor", "original_max_position_embeddings")
DEFAULTS = {"beta_fast": 32.0, "beta_slow": 1.0, "mscale": 1.0, "mscale_all_dim": 0.0}
"""What a `rope_scaling` table means by leaving a key out."""


def kind_of(table: Mapping[str, Any] | None) -> str | None:
    """What a `rope_scaling` table asks for; without a table the angles are plain."""
    return table.get("rope_type", table.get("type")) if table else PLAIN


def scaling_of(config: "KimiConfig") -> dict[str, Any] | None:
    """The table of a stretched context with its defaults; `None` where the angles are plain."""
    if config.mla_use_nope or kind_of(config.rope_scaling) == PLAIN:
        return None
    return DEFAULTS | dict(config.rope_scaling or {})


def frequencies(config: "KimiConfig") -> list[float]:
    """Angle a position of each pair: `θ^(−2m/R)`, divided by the factor as far as the ramp says."""
    width, base = config.qk_rope_head_dim, config.rope_theta
    assert base is not None
    speeds = [base ** (-2 * pair / width) for pair in range(width // 2)]
    if (scaling := scaling_of(config)) is None:
        return speeds
    slowed = ramp(width, base, scaling)
    return [w * (1 - r) + w / scaling["factor"] * r for w, r in zip(speeds, slowed, strict=True)]


def ramp(width: int, base: float, scaling: Mapping[str, float]) -> list[float]:
    """By pair: 0 where it keeps its speed, 1 where it is divided by the whole factor."""
    low = max(math.floor(pair_that_turns(scaling["beta_fast"], width, base, scaling)), 0)
    high = min(math.ceil(pair_that_turns(scaling["beta_slow"], width, base, scaling)), width - 1)
    # both ends at one pair make a step; a range that runs backwards slows nothing, as upstream
    span = high - low or 1e-3
    return [min(max((pair - low) / span, 0.0), 1.0) for pair in range(width // 2)]


def pair_that_turns(turns: float, width: float, base: float, scaling: Mapping[str, float]) -> float:
    """The pair, as a fraction, that makes so many turns within the original context."""
    original = scaling["original_max_position_embeddings"]
    return width * math.log(original / (2 * math.pi * turns)) / (2 * math.log(base))


def magnitude(factor: float, mscale: float) -> float:
    """By how much YaRN sharpens attention over a context stretched by `factor`."""
    return 0.1 * mscale * math.log(factor) + 1 if factor > 1 else 1.0


def turn_gain(config: "KimiConfig") -> float:
    """Factor on every sine and cosine: one where both magnitudes of the table agree."""
    if (scaling := scaling_of(config)) is None:
        return 1.0
    factor = scaling["factor"]
    return magnitude(factor, scaling["mscale"]) / magnitude(factor, scaling["mscale_all_dim"])


def score_scale(config: "KimiConfig") -> float:
    """Factor on the scores: one over the root of a head's width, with YaRN's magnitude squared."""
    scale = config.qk_head_dim**-0.5
    if (scaling := scaling_of(config)) is None or not scaling["mscale_all_dim"]:
        return scale
    return scale * magnitude(scaling["factor"], scaling["mscale_all_dim"]) ** 2
