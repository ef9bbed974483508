"""A run as Triton kernels leave it, made of one on torch, and the equations that it can answer."""

from dataclasses import replace

from model.identities.identity import Identity, NotHeldError, Place
from model.identities.registry import IDENTITIES
from model.in_kernel import taps_in_kernel
from model.trace import Trace


def is_inside(trace: Trace, name: str, step: int) -> bool:
    attribute = name.rpartition(".")[2]
    return attribute in taps_in_kernel(trace.taps[name].owner, trace.step_length(step))


def as_on_kernels(trace: Trace) -> Trace:
    """The same values, of which kernels would have kept some; parity tests hold both to agree."""
    held = tuple(
        {name: tensor for name, tensor in tensors.items() if not is_inside(trace, name, step)}
        for step, tensors in enumerate(trace.tensors)
    )
    return replace(trace, kernel_path="triton: as a test has it", tensors=held)


def places_with_a_result_outside_kernels(on_text: Trace) -> dict[str, int]:
    """Of each equation: where a run on torch answers it, and its left side is not in a kernel."""
    assert on_text.model is not None
    arrays: dict = {}
    places: dict[str, int] = {}
    for path, module in on_text.model.named_modules():
        for name, identity in IDENTITIES.items():
            if identity.owner != type(module).__name__:
                continue
            for step in range(on_text.steps):
                place = Place(on_text, path, step, on_text.model, arrays)
                if not _is_checked_inside(identity, place) and _answers(identity, place):
                    places[name] = places.get(name, 0) + 1
    return places


def _is_checked_inside(identity: Identity, place: Place) -> bool:
    """By the tap that it gives, or by all of its own that it relates."""
    checked = [identity.tap.rpartition(".")[2]] if identity.tap else identity.taps
    names = [place.full(tap) for tap in checked]
    return any(n in place.trace.taps and is_inside(place.trace, n, place.step) for n in names)


def _answers(identity: Identity, place: Place) -> bool:
    try:
        identity.compute(place)
    except NotHeldError:
        return False
    return True
