"""What a page of one model is rendered from: nodes, configuration, outline, taps, facts."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property

from annotations.node import MODELS, Node, Symbol, page, tap_of, target
from annotations.outline import Entry, flat, outline
from app.models import config_of, family_of, name_of
from model.catalog import TapInfo, taps
from model.config import KimiConfig
from model.cost_modules import Module, layer_modules, top_modules

PlaceKey = tuple[str, str]


@dataclass(frozen=True)
class Reading:
    """One model, read: everything that its pages need, and nothing of Streamlit or torch."""

    model: str
    nodes: Mapping[str, Node]

    @cached_property
    def config(self) -> KimiConfig:
        return config_of(self.model)

    @cached_property
    def family(self) -> str:
        """The released model whose outline, words and evidence this one's pages take."""
        return family_of(self.model)

    @property
    def name(self) -> str:
        return name_of(self.model)

    @property
    def is_released(self) -> bool:
        return self.model in MODELS

    @property
    def size_words(self) -> str:
        return "released size" if self.is_released else "as it runs here"

    @cached_property
    def taps(self) -> dict[str, TapInfo]:
        return taps()

    @cached_property
    def entries(self) -> tuple[Entry, ...]:
        """Every line of the outline whose node exists, in reading order."""
        return tuple(entry for entry in flat(self.family) if entry.node in self.nodes)

    @cached_property
    def by_place(self) -> dict[PlaceKey, Entry]:
        """The first entry of each node and instance."""
        found: dict[PlaceKey, Entry] = {}
        for entry in self.entries:
            found.setdefault((entry.node, entry.instance), entry)
        return found

    @cached_property
    def whole_modules(self) -> set[PlaceKey]:
        """Groups that open a whole module: those below the layers, and their only children."""
        found: set[PlaceKey] = set()
        for entry in self.entries:
            children = entry.children if entry.place == "all" and not entry.instance else ()
            for group in children:
                while group.children and group.instance:
                    found.add((group.node, group.instance))
                    if len(group.children) != 1:
                        break
                    group = group.children[0]
        return found

    @cached_property
    def others(self) -> "dict[str, Reading]":
        """The released models of other families, read from the same nodes."""
        return {name: Reading(name, self.nodes) for name in MODELS if name != self.family}

    @property
    def tree(self) -> tuple[Entry, ...]:
        return outline(self.family)

    def node(self, entry: Entry) -> Node:
        """The node of an entry as this model and this place have it."""
        return page(self.nodes[entry.node], self.family, entry.instance)

    def layer_of(self, entry: Entry) -> int | None:
        """The first 0-based layer that an entry stands in, None outside the layers."""
        return next(iter(self.layers_of(entry)), None)

    def layers_of(self, entry: Entry) -> list[int]:
        return self.layers_by_place.get(entry.place, [])

    @cached_property
    def layers_by_place(self) -> dict[str, list[int]]:
        config = self.config
        layers = range(config.num_hidden_layers)
        mixed = config.attn_res_block_size is not None
        return {
            "all": [*layers],
            "kda": [i for i in layers if config.mixers[i] == "kda"],
            "mla": [i for i in layers if config.mixers[i] == "mla"],
            "dense": [i for i in layers if config.feed_forwards[i] == "dense"],
            "moe": [i for i in layers if config.feed_forwards[i] == "moe"],
            "seals": [i for i in layers if config.seals(i)],
            "mixed": [i for i in layers if mixed and i > 0],
        }

    def modules(self, entry: Entry) -> Mapping[str, Module]:
        """Modules of the layer (or of the model) that an entry stands in, by path."""
        layer = self.layer_of(entry)
        return top_modules(self.config) if layer is None else layer_modules(self.config, layer)

    def entry_for(self, wanted: str, near: Entry) -> Entry | None:
        """The entry that `family/node` or `family/node @ instance` means when said at `near`."""
        node, instance = target(wanted)
        places = [entry for entry in self.entries if entry.node == node]
        if instance:
            places = [entry for entry in places if entry.instance == instance]
        ranked = sorted(places, key=lambda entry: -_closeness(entry, near))
        return ranked[0] if ranked else None

    def tap_behind(self, symbol: Symbol, near: Entry) -> tuple[TapInfo, Entry] | None:
        """The tap that a symbol stands for, and the place to read it at, in the same layer."""
        found = tap_of(self.nodes, symbol, near.instance)
        if found is None or found[0] not in self.taps:
            return None
        name, instance = found
        return self.taps[name], replace(near, instance=instance)


def _closeness(entry: Entry, near: Entry) -> int:
    """How near one place of a node lies to where it is spoken of."""
    same_place = entry.place == near.place
    mine, theirs = entry.instance.split("."), near.instance.split(".")
    shared = sum(1 for a, b in zip(mine, theirs, strict=False) if a == b and a)
    return 8 * (entry.instance == near.instance) + 2 * same_place + shared
