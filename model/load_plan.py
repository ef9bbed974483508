"""Which tensor of a checkpoint goes where in a model, by names, dtypes and shapes alone."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from math import prod
from typing import Literal, Protocol

from model.number_formats import MXFP4_GROUP
from model.quantized import fp8_blocks
from model.spelling import expert_part, from_upstream, to_upstream

PLAIN = ("F64", "F32", "BF16", "F16")
"""What a tensor may come in by itself: anything else holds codes, which need scales."""
NAMED = 10
"""Names of each kind of mismatch that an error lists."""
FAULTS = (
    "missing",
    "unexpected",
    "given twice",
    "of a dtype that is not read",
    "packed without its scale",
    "scale without its weight",
    "misshapen",
)

Form = Literal["plain", "mxfp4", "fp8"]
Shape = tuple[int, ...]

_LAYER = re.compile(r"layers\.(\d+)\.")
_VISION = ("vision_tower.", "mm_projector.")
_SCALE = {"weight_scale": "mxfp4", "weight_scale_inv": "fp8"}
"""The last word of a scale's name, and the form of its weight."""
_DTYPES = {"mxfp4": ("U8", "U8"), "fp8": ("F8_E4M3", "F32")}
"""Of the weight and of its scale."""


class Described(Protocol):
    """A tensor, as a header or the tensor itself describes it."""

    @property
    def name(self) -> str: ...
    @property
    def dtype(self) -> str:
        """In safetensors' words."""
        ...

    @property
    def shape(self) -> Shape: ...


@dataclass(frozen=True, slots=True)
class Part:
    """Where one matrix or vector of the model comes from."""

    place: str
    """K3's name of it."""
    form: Form
    weight: str
    """The checkpoint's name."""
    scale: str | None = None


@dataclass(slots=True)
class _Found:
    """What came under the names of one place."""

    weights: list[Described] = field(default_factory=list)
    scales: list[Described] = field(default_factory=list)


def plan(places: Mapping[str, Shape], given: Iterable[Described]) -> list[Part]:
    """A part for each of `places`, or one `ValueError` that lists all that does not fit."""
    faults: dict[str, list[str]] = {kind: [] for kind in FAULTS}
    found = {name: _Found() for name in places}
    for tensor in given:
        place, is_scale = place_of(tensor.name)
        if place not in found:
            faults["unexpected"].append(tensor.name)
            continue
        same = found[place].scales if is_scale else found[place].weights
        if same:
            faults["given twice"].append(tensor.name)
        same.append(tensor)
    parts = [_part(place, found[place], shape, faults) for place, shape in places.items()]
    _report(faults)
    return [part for part in parts if part is not None]


def _part(place: str, found: _Found, shape: Shape, faults: Mapping[str, list[str]]) -> Part | None:
    """The part for one place, as far as it can be told; what is wrong goes into `faults`."""
    if not found.weights:
        missing = [scale.name for scale in found.scales]
        faults["scale without its weight" if missing else "missing"].extend(missing or [place])
        return None
    weight, scale = found.weights[0], found.scales[0] if found.scales else None
    form = _form(weight)
    if form is None:
        faults["of a dtype that is not read"].append(f"{weight.name} as {weight.dtype}")
        return None
    if form == "plain":
        if scale is not None:
            faults["scale without its weight"].append(scale.name)
        elif not _fits(place, weight.shape, shape):
            faults["misshapen"].append(_unlike(weight, shape))
        return Part(place, form, weight.name)
    if scale is None:
        faults["packed without its scale"].append(weight.name)
        return None
    if _SCALE[scale.name.rpartition(".")[2]] != form or scale.dtype != _DTYPES[form][1]:
        faults["of a dtype that is not read"].append(
            f"{scale.name} as {scale.dtype}, the scale of {form}"
        )
        return None
    if (stored := packed_shapes(form, shape)) is None:
        faults["misshapen"].append(f"{weight.name}, {form} for {[*shape]}")
        return None
    pairs = zip((weight, scale), stored, strict=True)
    faults["misshapen"].extend(_unlike(came, right) for came, right in pairs if came.shape != right)
    return Part(place, form, weight.name, scale.name)


def _form(weight: Described) -> Form | None:
    if weight.name.endswith(".weight_packed"):
        return "mxfp4" if weight.dtype == _DTYPES["mxfp4"][0] else None
    if weight.dtype == _DTYPES["fp8"][0]:
        return "fp8"
    return "plain" if weight.dtype in PLAIN else None


def packed_shapes(form: Form, shape: Shape) -> tuple[Shape, Shape] | None:
    """Of the stored weight and of its scale, for a matrix `[out, in]` that the form can hold."""
    if len(shape) != 2:
        return None
    rows, columns = shape
    if form == "fp8":
        return shape, (fp8_blocks(rows), fp8_blocks(columns))
    if columns % MXFP4_GROUP:
        return None
    return (rows, columns // 2), (rows, columns // MXFP4_GROUP)


def _fits(place: str, came: Shape, shape: Shape) -> bool:
    """`A_log` is padded in K3's file, and has axes of one around its heads in Kimi-Linear's."""
    return came == shape or (place.endswith("A_log") and prod(came) >= prod(shape))


def _unlike(tensor: Described, shape: Shape) -> str:
    return f"{tensor.name} {[*tensor.shape]} for {[*shape]}"


def _report(faults: Mapping[str, list[str]]) -> None:
    """Raise once for all of them, where there are any."""
    lines = [
        f"{len(names):,} {kind}: {', '.join(names[:NAMED])}{', …' if len(names) > NAMED else ''}"
        for kind, names in faults.items()
        if names
    ]
    if lines:
        raise ValueError(f"The tensors do not fit this model. {'; '.join(lines)}.")


def place_of(upstream: str) -> tuple[str, bool]:
    """K3's name of a tensor, whichever model's name and prefix it came under, and if it scales."""
    stem, _, last = upstream.rpartition(".")
    is_scale = last in _SCALE
    if is_scale or last == "weight_packed":
        upstream = f"{stem}.weight"
    name = from_upstream(upstream)
    part = expert_part(name)
    return (to_upstream(*part) if part else to_upstream(name)), is_scale


def beside_the_text(upstream: str, num_layers: int) -> str | None:
    """What a tensor is of, in words, where it is no part of the decoder's `num_layers` layers."""
    name = from_upstream(upstream)
    if name.startswith(_VISION):
        return "vision"
    if name.startswith("mtp."):
        return "multi-token prediction"
    if (found := _LAYER.match(name)) and int(found[1]) >= num_layers:
        return "multi-token prediction"
    return "rotary tables" if name.endswith(".rotary_emb.inv_freq") else None


def layer_of(upstream: str) -> int | None:
    """The layer a tensor stands in; `None` for the embedding, the head and what is around them."""
    found = _LAYER.match(from_upstream(upstream))
    return int(found[1]) if found else None
