"""Where the reader is: the node of the address, and the running layer that it is read from."""

from collections.abc import Mapping
from dataclasses import dataclass

from annotations.node import Node, for_model, for_place
from annotations.outline import Entry, flat, moved
from app import run_taps
from app.models import family_of
from app.sources import BUILT_IN, config_of
from app.state import EXAMPLE_NODE, Selection
from model.config import KimiConfig


@dataclass(frozen=True, kw_only=True)
class Place:
    """A node at one instance, as the running model has it."""

    entry: Entry
    node: Node
    layer: int | None
    """0-based layer of the running model; None for what stands outside the layers."""
    layers: tuple[int, ...]
    """Every layer of the running model that has the node."""

    @property
    def path(self) -> str:
        """Module path of the node in the running model, `layers.3.self_attn`."""
        return self.entry.path(self.layer or 0)


def running_config(source: str) -> KimiConfig:
    """The configuration whose layers are walked; of a source that has none, the first one's.

    Why it has none is said where its run would stand.
    """
    try:
        return config_of(source)
    except LookupError:
        return config_of(BUILT_IN[0])


def layers_with(config: KimiConfig, place: str) -> tuple[int, ...]:
    """Layers of a model that stand at `place`, one of `annotations.outline.PLACES`."""
    every = range(config.num_hidden_layers)
    mixes = config.attn_res_block_size is not None
    tests = {
        "all": lambda i: True,
        "kda": lambda i: config.mixers[i] == "kda",
        "mla": lambda i: config.mixers[i] == "mla",
        "dense": lambda i: config.feed_forwards[i] == "dense",
        "moe": lambda i: config.feed_forwards[i] == "moe",
        "seals": config.seals,
        # layer 0 has nothing to read yet
        "mixed": lambda i: mixes and i > 0,
    }
    return tuple(i for i in every if tests[place](i)) if place else ()


def place_of(selection: Selection, nodes: Mapping[str, Node], config: KimiConfig) -> Place:
    """The place that the address means: an unknown node is the example's, a layer the nearest.

    The reader, in the browser, says what it could not find; here only the same choice is made.
    An id that has moved is its new one, and the instance it has there wins over the address.
    """
    family = family_of(selection.model)
    name, instance = moved().get(selection.node, (selection.node, ""))
    entries = [entry for entry in flat(family) if entry.node in nodes]
    here = [entry for entry in entries if entry.node == name]
    here = here or [entry for entry in entries if entry.node == EXAMPLE_NODE]
    wanted = instance or selection.at
    entry = next((entry for entry in here if entry.instance == wanted), here[0])
    node = for_place(for_model(nodes[entry.node], family), entry.instance)
    layers = layers_with(config, entry.place)
    # another model's outline: what stands in all of its layers stands in some of this one's
    held = run_taps.layers_with(node, config, entry.instance or None)
    layers = tuple(layer for layer in layers if layer in held) or layers
    layer = None
    if layers:
        wanted = layers[0] if selection.layer is None else selection.layer
        layer = min(layers, key=lambda i: (abs(i - wanted), i))
    return Place(entry=entry, node=node, layer=layer, layers=layers)
