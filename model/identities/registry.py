"""All equations by name, and the replay that compares each with the tensors of a run."""

from collections.abc import Collection, Iterator
from dataclasses import dataclass, replace
from time import perf_counter
from types import ModuleType

import numpy as np

from model.identities import kda, mla, moe, residual, run
from model.identities.identity import Identity, NotHeldError, Place, relative_error
from model.kimi import KimiLM
from model.trace_data import Trace


def _of(module: ModuleType) -> dict[str, Identity]:
    return {item.name: item for item in vars(module).values() if isinstance(item, Identity)}


IDENTITIES: dict[str, Identity] = {
    name: item for module in (residual, kda, mla, moe, run) for name, item in _of(module).items()
}


@dataclass(frozen=True, slots=True)
class Result:
    """How far the tensors of a run are from one equation, at its worst place."""

    name: str
    title: str
    tap: str | None
    layer: int | None
    """The layer that was asked for; None for all."""
    step: int
    """Of the worst place."""
    error: float
    tolerance: float
    seconds: float
    passed: bool
    detail: str
    worst_layer: int | None
    place: str
    """Module path of the worst place; empty for the model itself."""
    places: int
    """Instances times steps that were compared."""


def check(
    trace: Trace,
    lm: KimiLM,
    layer: int | None = None,
    names: Collection[str] | None = None,
    at: str | None = None,
) -> list[Result]:
    """Re-compute every equation that this run can answer; `at` is a path inside a layer.

    An equation gives no result where the tensor that it checks was not captured, or where what it
    reads was neither captured nor can be re-computed.
    """
    if names is not None and (unknown := sorted(set(names) - IDENTITIES.keys())):
        raise LookupError(f"No identity is called {unknown[0]!r}; IDENTITIES lists them.")
    if trace.weights_hash != lm.weights_hash:
        raise ValueError(
            f"Run {trace.run_id} was made with weights {trace.weights_hash[:12]}, and this model "
            f"has {lm.weights_hash[:12]}; run the prompt again."
        )
    if trace.model is None:
        # these are its weights, and some inputs are re-computed from weights
        trace = replace(trace, model=lm)
    arrays: dict = {}
    results = []
    # walked once: a module's path is looked for by every equation of its class
    paths: dict[str, list[str]] = {}
    for path, module in lm.named_modules():
        paths.setdefault(type(module).__name__, []).append(path)
    for name, identity in IDENTITIES.items():
        if names is None or name in names:
            owned = paths.get(identity.owner, [])
            places = _places(owned, trace, lm, layer, at, arrays)
            if (result := _worst(identity, places, trace.dtype, layer)) is not None:
                results.append(result)
    return results


def _places(
    paths: list[str], trace: Trace, lm: KimiLM, layer: int | None, at: str | None, arrays: dict
) -> Iterator[Place]:
    for path in paths:
        for step in range(trace.steps):
            place = Place(trace, path, step, lm, arrays)
            inside = path if place.layer is None else path.split(".", 2)[2:]
            if layer is not None and place.layer != layer:
                continue
            if at is None or inside in (at, [at]):
                yield place


def _worst(
    identity: Identity, places: Iterator[Place], dtype: str, layer: int | None
) -> Result | None:
    tolerance = identity.bound(dtype)
    started = perf_counter()
    worst: tuple[float, Place, str] | None = None
    compared = 0
    for place in places:
        try:
            # what is not a number is found by comparing
            with np.errstate(invalid="ignore", over="ignore"):
                tensor, equation = identity.compute(place)
        except NotHeldError:
            continue
        compared += 1
        error = relative_error(tensor, equation)
        if worst is None or not error <= worst[0]:
            worst = (error, place, _detail(tensor, equation, error))
        if np.isnan(error):
            break
    if worst is None:
        return None
    error, place, detail = worst
    return Result(
        name=identity.name,
        title=identity.title,
        tap=identity.tap,
        layer=layer,
        step=place.step,
        error=error,
        tolerance=tolerance,
        seconds=perf_counter() - started,
        passed=error <= tolerance,
        detail=detail,
        worst_layer=place.layer,
        place=place.path,
        places=compared,
    )


def _detail(tensor: np.ndarray, equation: np.ndarray, error: float) -> str:
    if tensor.shape != equation.shape:
        return f"the tensor is {list(tensor.shape)}, the equation gives {list(equation.shape)}"
    if np.isnan(error):
        return f"{np.isnan(tensor).sum()} of {tensor.size} values of the tensor are NaN"
    return ""
