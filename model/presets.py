"""Configurations by name: the released models, and the small ones that run here."""

import difflib
import tomllib
from functools import cache
from pathlib import Path
from typing import Any

from model.config import KimiConfig

FOLDER = Path(__file__).parent / "presets"

RELEASED = ("k3", "k2", "kimi-linear")
"""Models that are read and priced; they are built on the meta device only."""

TINY = ("tiny-k3", "tiny-k2", "tiny-kimi-linear")
"""One model of each family, with random weights: what tests run on."""

PRESETS = (*RELEASED, "k3-mini", *TINY)


@cache
def _table(name: str) -> dict[str, Any]:
    if name not in PRESETS:
        near = difflib.get_close_matches(name, PRESETS, n=1)
        hint = f"Did you mean {near[0]!r}?" if near else f"There are {list(PRESETS)}."
        raise LookupError(f"No preset is called {name!r}. {hint}")
    return tomllib.loads((FOLDER / f"{name}.toml").read_text(encoding="utf-8"))


def hf(name: str) -> dict[str, Any]:
    """The preset as an upstream `text_config` would hold it, in K3's words."""
    return dict(_table(name)["config"])


def pin(name: str) -> str | None:
    """The released revision that the numbers were read from."""
    return _table(name).get("pin")


@cache
def preset(name: str) -> KimiConfig:
    return KimiConfig.from_hf(hf(name))


def tiny_k3() -> KimiConfig:
    """Each kind of layer that K3 has, no two widths alike where they could be."""
    return preset("tiny-k3")


def tiny_k2() -> KimiConfig:
    """As `tiny_k3`, for K2: rotated keys, with a ramp of frequencies several pairs wide."""
    return preset("tiny-k2")


def tiny_kimi_linear() -> KimiConfig:
    """As `tiny_k3`, for Kimi-Linear: softplus decay, low-rank output gate, no query latent."""
    return preset("tiny-kimi-linear")
