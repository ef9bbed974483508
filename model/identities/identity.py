"""What an identity is: one equation, re-computed in float64 beside the tensor it explains.

What stands under check is always a captured tensor (`Place.captured`). What an equation reads may
have stayed inside a kernel: then it is computed again from what went in (`Place.__call__`), and the
comparison still says how far the kernel's own output is. A tensor that was itself computed again
gets no row, since the equation would only be compared with another writing of itself.
"""

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from model.config import KimiConfig
from model.kimi import KimiLM
from model.trace_data import Trace
from model.trace_recompute import is_at_hand

Pair = tuple[np.ndarray, np.ndarray]
"""The tensor of the run, and what the equation gives."""

WIDE = 1e-2
"""Bound for traces in bfloat16 or float16: about the spacing of bfloat16."""


class NotHeldError(LookupError):
    """What an equation checks was not captured at this step, or what it reads is not at hand."""


@dataclass(frozen=True, kw_only=True)
class Identity:
    """One equation and where it applies."""

    name: str
    title: str
    owner: str
    """The class at whose instances the equation holds."""
    tap: str | None
    """`Class.attribute` that the equation gives; None where it relates several."""
    taps: tuple[str, ...]
    """All it reads; relative to the owner, `^.` for its parent, a leading `/` for the model."""
    compute: Callable[["Place"], Pair]
    tolerance: float = 1e-5
    wide: float = WIDE
    """Bound where the model rounds to 16 bits; larger for chains of several rounded steps."""

    def bound(self, dtype: str) -> float:
        return self.wide if dtype in ("bfloat16", "float16") else self.tolerance


@dataclass
class Place:
    """One instance of a class at one step of a trace."""

    trace: Trace
    path: str
    step: int
    root: KimiLM
    arrays: dict = field(repr=False)
    """Float64 copies, shared by all places of one check."""

    @property
    def config(self) -> KimiConfig:
        return self.trace.config

    @property
    def layer(self) -> int | None:
        """The 0-based layer, None above the layers."""
        parts = self.path.split(".")
        return int(parts[1]) if parts[0] == "layers" else None

    def full(self, name: str) -> str:
        """The whole name behind a relative one."""
        if name.startswith("/"):
            return name[1:]
        base = self.path
        while name.startswith("^."):
            name, base = name[2:], base.rpartition(".")[0]
        return f"{base}.{name}" if base else name

    def holds(self, name: str, step: int | None = None) -> bool:
        return self.trace.is_captured(self.full(name), self.step if step is None else step)

    def captured(self, name: str, step: int | None = None) -> np.ndarray:
        """The tensor under check: as the call gives it, and never one that was re-computed."""
        if not self.holds(name, step):
            raise NotHeldError(f"{self.full(name)} at step {self.step if step is None else step}")
        return self(name, step)

    def __call__(self, name: str, step: int | None = None) -> np.ndarray:
        """A tensor of this step (or another) in float64, re-computed where it was not held."""
        step = self.step if step is None else step
        full = self.full(name)
        if (full, step) not in self.arrays:
            if not is_at_hand(self.trace, full, step):
                raise NotHeldError(f"{full} at step {step}")
            array = self._array(full, step)
            wide = array if array.dtype.kind in "iu" else array.astype(np.float64)
            self.arrays[full, step] = wide
        return self.arrays[full, step]

    def _array(self, full: str, step: int) -> np.ndarray:
        try:
            return self.trace.array(full, step=step)
        except ValueError as too_large:
            raise NotHeldError(
                f"to re-compute {full} takes more than one answer may"
            ) from too_large

    def before(self, name: str) -> np.ndarray | None:
        """The same tensor one step earlier; None at the first."""
        return self(name, self.step - 1) if self.step else None

    def until(self, name: str, axis: int = 1) -> np.ndarray:
        """The tensor of all steps so far, joined along its positions."""
        return np.concatenate([self(name, step) for step in range(self.step + 1)], axis)

    def parameter(self, name: str) -> np.ndarray:
        """A parameter or buffer in float64, named as the taps are."""
        full = self.full(name)
        if full not in self.arrays:
            owner, _, attribute = full.rpartition(".")
            tensor = getattr(self.root.get_submodule(owner), attribute)
            self.arrays[full] = tensor.detach().cpu().double().numpy()
        return self.arrays[full]

    def has_parameter(self, name: str) -> bool:
        owner, _, attribute = self.full(name).rpartition(".")
        try:
            return getattr(self.root.get_submodule(owner), attribute, None) is not None
        except AttributeError:
            return False

    def linear(self, x: np.ndarray, name: str) -> np.ndarray:
        """`x` times the transposed weight `name`."""
        return x @ self.parameter(name).T

    def heads(self, x: np.ndarray, num_heads: int) -> np.ndarray:
        """The last axis as heads of equal width, head slow."""
        return x.reshape(*x.shape[:-1], num_heads, -1)


def identity(
    tap: str, title: str, reads: str
) -> Callable[[Callable[[Place], np.ndarray]], Identity]:
    """Declare a function that gives what `tap` must hold, from what it `reads`."""
    owner, attribute = tap.split(".")

    def declare(equation: Callable[[Place], np.ndarray]) -> Identity:
        return Identity(
            name=equation.__name__,
            title=title,
            owner=owner,
            tap=tap,
            taps=(*reads.split(), attribute),
            compute=lambda place: (place.captured(attribute), equation(place)),
        )

    return declare


def relation(
    owner: str,
    title: str,
    reads: str,
    *,
    tap: str | None = None,
    tolerance: float = 1e-5,
    wide: float = WIDE,
) -> Callable[[Callable[[Place], Pair]], Identity]:
    """Declare a function that gives two arrays which must agree: what is, and what should be.

    It takes what is from `place.captured`.
    """

    def declare(pair: Callable[[Place], Pair]) -> Identity:
        return Identity(
            name=pair.__name__,
            title=title,
            owner=owner,
            tap=tap,
            taps=tuple(reads.split()),
            compute=pair,
            tolerance=tolerance,
            wide=wide,
        )

    return declare


def sigmoid(x: np.ndarray) -> np.ndarray:
    with np.errstate(over="ignore"):
        return 1.0 / (1.0 + np.exp(-x))


def softmax(x: np.ndarray) -> np.ndarray:
    """Over the last axis; minus infinity weighs nothing."""
    powers = np.exp(x - x.max(-1, keepdims=True))
    return powers / powers.sum(-1, keepdims=True)


def relative_error(tensor: np.ndarray, equation: np.ndarray) -> float:
    """max|a − b| / max|b|; infinite where the shapes differ, NaN where a value is NaN."""
    if tensor.shape != equation.shape:
        return float("inf")
    if not tensor.size:
        return 0.0
    same = tensor == equation
    with np.errstate(invalid="ignore"):
        gap = np.where(same, 0.0, np.abs(tensor - equation)).max()
    finite = np.abs(equation[np.isfinite(equation)])
    scale = finite.max() if finite.size else 0.0
    return float(gap / scale) if scale else float(gap)
