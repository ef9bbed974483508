"""Which taps of a run a node shows: its classes at the chosen place and layer."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

from annotations.node import Node
from model.catalog import Instance, TapInfo, instances, taps
from model.config import KimiConfig
from model.cost_modules import LAYER, LM


@dataclass(frozen=True)
class LiveTap:
    """A tap of a node, found in the running model."""

    tap: str
    """`Class.attribute`"""
    name: str
    """Full name in a run: `layers.3.self_attn.k_shared`."""
    place: str
    """Path inside a layer, or in the model; empty for the layer or the model itself."""
    stream: str
    attribute: str


class NotHereError(LookupError):
    """The layer, or the model, has no such part."""


def live_taps(node: Node) -> tuple[str, ...]:
    """The taps shown live: those stated, else those of the outputs, else all of the node."""
    if node.live:
        return node.live
    of_outputs = [s.tap for s in node.symbols if s.tap and s.tex in node.outputs]
    return tuple(dict.fromkeys(of_outputs)) or node.taps


def stream_of(node: Node, tap: str) -> str:
    rows = (*node.symbols, *(s for change in node.changes for s in change.symbols))
    return next((row.stream for row in rows if row.tap == tap and row.stream), "ink")


def find_taps(
    node: Node, wanted: Sequence[str], config: KimiConfig, layer: int, at: str | None
) -> tuple[LiveTap, ...]:
    """`wanted` as this layer of this model has them; raises `NotHereError` in words."""
    return tuple(_find(node, tap, config, layer, at) for tap in wanted)


def _find(node: Node, tap: str, config: KimiConfig, layer: int, at: str | None) -> LiveTap:
    info = _known(tap)
    places = [p for p in _places(config) if p.cls == info.cls]
    if not places:
        raise NotHereError(f"The running model has no {info.cls}, so nothing of it was captured.")
    here = [p for p in places if p.layers is None or layer in p.layers]
    if not here:
        raise NotHereError(_elsewhere(info, places, layer))
    place = next((p for p in here if p.path == at), here[0])
    if at is not None and place.path != at and any(p.path == at for p in places):
        raise NotHereError(_elsewhere(info, [p for p in places if p.path == at], layer))
    inside = None if place.layers is None else layer
    return LiveTap(
        tap=tap,
        name=place.tap_path(info.attribute, inside),
        place="" if place.path in (LAYER, LM) else place.path,
        stream=stream_of(node, tap),
        attribute=info.attribute,
    )


def layers_with(node: Node, config: KimiConfig, at: str | None) -> tuple[int, ...]:
    """Layers of the running model that hold the node's taps; all where it has none or is above."""
    for tap in live_taps(node):
        places = [p for p in _places(config) if p.cls == _known(tap).cls]
        if any(p.path == at for p in places):
            places = [p for p in places if p.path == at]
        if any(p.layers is None for p in places):
            break
        return tuple(sorted({layer for p in places for layer in p.layers or ()}))
    return tuple(range(config.num_hidden_layers))


def _known(tap: str) -> TapInfo:
    found = _taps().get(tap)
    if found is None:
        raise NotHereError(f"The model has no tap {tap}.")
    return found


def _elsewhere(info: TapInfo, places: Sequence[Instance], layer: int) -> str:
    layers = sorted({n for p in places for n in p.layers or ()})
    listed = ", ".join(map(str, layers))
    return f"Layer {layer} has no {info.cls}; layers {listed} have one."


@lru_cache(maxsize=1)
def _taps() -> dict[str, TapInfo]:
    return taps()


@lru_cache(maxsize=8)
def _places(config: KimiConfig) -> tuple[Instance, ...]:
    return tuple(instances(config).values())
