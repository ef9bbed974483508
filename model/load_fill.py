"""Weights into a model, one tensor after another: unpacked, widened and turned on the way."""

from collections.abc import Callable, Mapping, Sequence

import torch
from torch import Tensor

from model.load_plan import Part
from model.quantized import fp8, mxfp4

BAND = 2**23
"""Bytes that are turned at a time: few enough to stay in the cache between two copies."""

Progress = Callable[[int, int], None]
"""Called after each tensor with the bytes read so far and the bytes in all."""
ByName = Callable[[str], Tensor]
"""The tensor of a checkpoint under the checkpoint's name for it."""


def fill(
    places: Mapping[str, Tensor],
    parts: Sequence[Part],
    tensor_of: ByName,
    progress: Progress | None = None,
    total: int = 0,
) -> str:
    """Copy each part to its place, in the order given; a note where some are no numbers."""
    odd, done = [], 0
    with torch.no_grad():
        for part in parts:
            place, weight = places[part.place], tensor_of(part.weight)
            done += weight.nbytes
            if part.scale is not None:
                scale = tensor_of(part.scale)
                done += scale.nbytes
                # codes are fewer bytes than what they mean, so they travel to the device first
                unpack = mxfp4 if part.form == "mxfp4" else fp8
                weight = unpack(weight.to(place.device), scale.to(place.device))
            elif part.place.endswith("A_log"):
                weight = heads_of(weight, len(place))
            if not copy_in(place, weight):
                odd.append(part.weight)
            if progress is not None:
                progress(done, total)
    if not odd:
        return ""
    return f"{len(odd)} of {len(parts)} tensors hold NaN or infinity, as {odd[0]}"


def copy_in(place: Tensor, weight: Tensor) -> bool:
    """Copy values, whatever their dtype and layout; whether all of them arrived as numbers.

    Most matrices of the model lie column by column and come row by row. torch copies such pairs
    value by value, unless the two are of one dtype and the target is one piece: so each band of
    rows is turned into a piece of its own, and that is copied.
    """
    if weight.device != place.device:
        weight = weight.to(place.device)
    overflows = torch.finfo(place.dtype).max < torch.finfo(weight.dtype).max
    if place.device.type != "cpu" or weight.ndim != 2 or place.stride(0) != 1:
        place.copy_(weight)
        return are_numbers(place if overflows else weight)
    height, numbers = max(1, BAND // (weight.shape[1] * weight.itemsize)), True
    for band, rows in zip(place.split(height), weight.split(height), strict=True):
        turned = torch.empty(rows.shape[::-1], dtype=rows.dtype).copy_(rows.mT)
        band.mT.copy_(turned)
        numbers &= are_numbers(band if overflows else turned)
    return numbers


def are_numbers(values: Tensor) -> bool:
    """Whether no value is NaN or infinite: NaN anywhere becomes both ends of the range."""
    return values.numel() == 0 or all(bool(end.isfinite()) for end in values.aminmax())


def heads_of(a_log: Tensor, heads: int) -> Tensor:
    """One rate a head. K3's file pads them with zeros, Kimi-Linear's has axes of one around."""
    return a_log.flatten()[:heads]


def refuse_padded_rates(
    places: Mapping[str, Tensor], parts: Sequence[Part], tensor_of: ByName
) -> None:
    """Zeros behind the rates of the heads mean nothing; other values would be dropped unseen."""
    faults = []
    for part in parts:
        if not part.place.endswith("A_log"):
            continue
        values, heads = tensor_of(part.weight).flatten(), len(places[part.place])
        if bool(values[heads:].any()):
            faults.append(f"{part.weight} holds {len(values)} values for {heads} heads")
    if faults:
        raise ValueError(f"{'; '.join(faults[:10])}, and those beyond are not zero.")
