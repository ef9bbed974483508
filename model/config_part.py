"""The configuration of a model's first layers, for a checkpoint that is loaded in part."""

from collections.abc import Iterable
from dataclasses import replace
from operator import index

from model.config import KimiConfig


def first_layers(config: KimiConfig, layers: Iterable[int] | None) -> KimiConfig:
    """The configuration of the model's first layers, which `layers` must name without a gap."""
    if layers is None:
        return config
    most = config.num_hidden_layers
    try:
        asked = sorted({index(layer) for layer in layers})
    except TypeError as error:
        raise ValueError(f"layers={layers!r}: name the layers by number, as range(4).") from error
    if not asked or asked[0] < 0 or asked[-1] >= most:
        raise ValueError(f"layers={asked}: the model has layers 0 to {most - 1}.")
    count = asked[-1] + 1
    if len(asked) < count:
        raise ValueError(
            f"layers={asked}: a layer reads what those before it wrote, so a part begins with "
            f"layer 0 and leaves none out, as range({count}). `python -m model peek` reads single "
            "tensors of any layer."
        )
    return replace(
        config,
        num_hidden_layers=count,
        mixers=config.mixers[:count],
        feed_forwards=config.feed_forwards[:count],
    )


def part_note(config: KimiConfig, whole: KimiConfig) -> str:
    last = config.num_hidden_layers - 1
    if last + 1 == whole.num_hidden_layers:
        return ""
    return (
        f"layers 0 to {last} of {whole.num_hidden_layers} alone, logits as they read after "
        f"layer {last}"
    )
