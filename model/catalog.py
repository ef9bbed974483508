"""What the model offers to read, from its source text alone: taps, dims, places, our own lines."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from types import MappingProxyType
from typing import Any

from model.catalog_source import MODEL, ROOT, SourceLines, TapInfo, read
from model.config import KimiConfig
from model.cost_modules import LAYER, LM, Module, layer_kinds, layer_modules, top_modules
from model.dims import DIMS
from model.presets import PRESETS, preset


@dataclass(frozen=True, kw_only=True, slots=True)
class Instance:
    """A class of ours at one place, in every layer that has it."""

    path: str
    cls: str
    feature: str | None
    """The dims word behind `feature` at this place."""
    layers: tuple[int, ...] | None
    """None for a place outside the layers."""

    def tap_path(self, attribute: str, layer: int | None = None) -> str:
        """Full name of a tap here; a place inside the layers needs `layer`."""
        inside = "" if self.path in (LAYER, LM) else f"{self.path}."
        if self.layers is None:
            return f"{inside}{attribute}"
        if layer not in self.layers:
            raise LookupError(f"Layer {layer} has no {self.path}.")
        return f"layers.{layer}.{inside}{attribute}"


def taps() -> dict[str, TapInfo]:
    """Every tap by `Class.attribute`, in the order of files and lines."""
    return {tap.name: tap for path in sorted(MODEL.glob("*.py")) for tap in read(path).taps}


def taps_of(cls: str) -> tuple[TapInfo, ...]:
    return tuple(tap for tap in taps().values() if tap.cls == cls)


def problems(of: Iterable[TapInfo] | None = None) -> list[str]:
    """What is wrong with the model's taps, or with those given, one sentence each."""
    found = []
    for tap in taps().values() if of is None else of:
        if not tap.calls:
            found.append(f"{tap.name} is a tap that no method calls.")
        if unknown := [word for word in tap.dims if word not in DIMS]:
            found.append(f"{tap.name} has unknown dims {unknown}; add them to model/dims.py.")
    return found


@lru_cache(maxsize=16)
def instances(config: KimiConfig) -> Mapping[str, Instance]:
    """Every place by its path inside a layer or, outside the layers, by its path in the model.

    A path that two classes share (`self_attn`) is listed for each as `path:Class`.
    """
    places: dict[tuple[str, str], tuple[Module, tuple[int, ...]]] = {}
    for layers in layer_kinds(config).values():
        for path, module in layer_modules(config, layers[0]).items():
            known = places.get((path, module.cls), (module, ()))[1]
            places[path, module.cls] = module, tuple(sorted({*known, *layers}))
    shared = {path for path, _ in places if sum(other == path for other, _ in places) > 1}
    inside = {
        f"{path}:{cls}" if path in shared else path: Instance(
            path=path, cls=cls, feature=module.feature, layers=layers
        )
        for (path, cls), (module, layers) in places.items()
    }
    outside = {
        path: Instance(path=path, cls=module.cls, feature=module.feature, layers=None)
        for path, module in top_modules(config).items()
    }
    return MappingProxyType(inside | outside)


def places_of(config: KimiConfig, cls: str) -> tuple[Instance, ...]:
    """Every place of a class in a model; none where the model lacks it."""
    return tuple(place for place in instances(config).values() if place.cls == cls)


def tap_paths(config: KimiConfig) -> dict[str, TapInfo]:
    """Every tap of a model by its full name, layer by layer."""
    by_class: dict[str, list[TapInfo]] = {}
    for tap in taps().values():
        by_class.setdefault(tap.cls, []).append(tap)
    return {
        place.tap_path(tap.attribute, layer): tap
        for layer in (*range(config.num_hidden_layers), None)
        for place in instances(config).values()
        if (layer is None) == (place.layers is None)
        and (place.layers is None or layer in place.layers)
        for tap in by_class.get(place.cls, [])
    }


def parameters_of(cls: str) -> dict[str, tuple[str, ...]]:
    """Axes of every parameter that a class has in some model, its inner modules included."""
    found: dict[str, tuple[str, ...]] = {}
    for name in PRESETS:
        config = preset(name)
        for modules in _module_tables(config):
            for path, module in modules.items():
                if module.cls == cls:
                    found |= _below(modules, path)
    if not found:
        raise LookupError(f"No class {cls!r} with parameters stands in the model.")
    return found


def _module_tables(config: KimiConfig) -> list[Mapping[str, Module]]:
    layers = [layer_modules(config, members[0]) for members in layer_kinds(config).values()]
    return [*layers, top_modules(config)]


def _below(modules: Mapping[str, Module], path: str) -> dict[str, tuple[str, ...]]:
    stem = "" if path in (LAYER, LM) else f"{path}."
    return {
        (f"{inner.removeprefix(stem)}." if inner not in (path, LAYER, LM) else "") + name: axes
        for inner, module in modules.items()
        if inner == path or inner.startswith(stem)
        for name, axes in module.parameters.items()
        # a class with several widths declares only that it has one
        for axes in [_generic(module, axes) if inner == path else axes]
    }


def _generic(module: Module, axes: tuple[str, ...]) -> tuple[str, ...]:
    return tuple("feature" if axis == module.feature else axis for axis in axes)


def constant(name: str) -> Any:
    """A literal that a file of ours assigns: `model.mla:EXPLICIT_KEYS`, or in a class."""
    module, _, qualified = name.partition(":")
    path = ROOT / f"{module.replace('.', '/')}.py"
    if not path.exists() or qualified not in (file := read(path)).constants:
        raise LookupError(f"No literal {name!r} is assigned in the model.")
    return file.constants[qualified]


def source_of(name: str) -> SourceLines:
    """Our lines for `Class.method`, `Class.attribute` of a tap, or `model.cache:ExpandedKV.append`.

    For a tap: the method that calls it, whole or the part around the call.
    """
    module, _, qualified = name.rpartition(":")
    candidates = [ROOT / f"{module.replace('.', '/')}.py"] if module else sorted(MODEL.glob("*.py"))
    first, _, attribute = qualified.partition(".")
    for path in candidates:
        if not path.exists() or first not in (file := read(path)).text:
            continue
        if qualified in file.definitions:
            return file.definition(qualified)
        for tap in file.taps:
            if tap.cls == first and tap.attribute == attribute and tap.calls:
                return file.around(tap)
    raise LookupError(f"No class, function, method or called tap {name!r} in model/.")
