"""Reading a forward pass: taps in the model, and a recording that belongs to one caller."""

from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any

from torch import Tensor, nn

from model.dims import DIMS

Names = dict["Tap", str]


@dataclass
class Recording:
    """What taps saw between entering and leaving `capture`, in the order in which they fired."""

    wanted: Callable[["Tap"], bool] | None = None
    keep: Callable[["Tap", Tensor], Tensor | None] | None = None
    edit: Callable[["Tap", Tensor], Tensor] | None = None
    tensors: dict["Tap", Tensor] = field(default_factory=dict)

    def see(self, tap: "Tap", tensor: Tensor) -> Tensor:
        if self.edit is not None:
            tensor = self.edit(tap, tensor)
        if self.wanted is None or self.wanted(tap):
            kept = tensor if self.keep is None else self.keep(tap, tensor)
            if kept is not None:
                self.tensors[tap] = kept.detach() if kept.requires_grad else kept
        return tensor

    def named(self, names: Names) -> dict[str, Tensor]:
        """The recorded tensors by full name; `names` comes from `tap_names`."""
        return {names[tap]: tensor for tap, tensor in self.tensors.items() if tap in names}


# a context variable, so that readers who share one model never see each other's tensors
_recording: ContextVar[Recording | None] = ContextVar("recording", default=None)


class Quick(nn.Module):
    """A module that a decoded token passes many times: only with hooks does it look for them."""

    def __call__(self, *args: Any) -> Any:
        if self._forward_hooks or self._forward_pre_hooks:
            return super().__call__(*args)
        return self.forward(*args)


class Tap(nn.Module):
    """Marks one tensor of a forward pass and returns it unchanged.

    A tap holds no parameters, so state dicts do not mention it. Its name is the attribute that
    holds it, and its dims are declared here and nowhere else.
    """

    def __init__(self, dims: str) -> None:
        super().__init__()
        self.dims = tuple(dims.split())
        if unknown := [dim for dim in self.dims if dim not in DIMS]:
            raise ValueError(f"Tap({dims!r}): unknown dims {unknown}. Add them to model/dims.py.")

    def __call__(self, tensor: Tensor) -> Tensor:
        if self._forward_hooks or self._forward_pre_hooks:
            return super().__call__(tensor)
        recording = _recording.get()
        return tensor if recording is None else recording.see(self, tensor)

    def forward(self, tensor: Tensor) -> Tensor:
        recording = _recording.get()
        return tensor if recording is None else recording.see(self, tensor)


def tap_names(model: nn.Module) -> Names:
    """Full name of every tap: module path and attribute."""
    return {module: name for name, module in model.named_modules() if isinstance(module, Tap)}


@contextmanager
def capture(
    names: Collection[str] | None = None,
    *,
    model: nn.Module | None = None,
    keep: Callable[[Tap, Tensor], Tensor | None] | None = None,
    edit: Callable[[Tap, Tensor], Tensor] | None = None,
) -> Iterator[Recording]:
    """Record taps in this context: all of them, or the full `names` of `model`.

    `keep` may hold a part of a tensor, or with `None` nothing of it. A tap that stays inside a
    fused kernel is not seen. `edit` returns what the forward pass goes on with, which is what is
    recorded; it needs `model`, and a ValueError says so where that runs on kernels, inside which
    nothing could be edited.
    """
    if edit is not None:
        _check_that_all_taps_fire(model)
    token = _recording.set(Recording(_wanted(names, model), keep, edit))
    try:
        recording = _recording.get()
        assert recording is not None
        yield recording
    finally:
        _recording.reset(token)


def _check_that_all_taps_fire(model: nn.Module | None) -> None:
    if model is None:
        raise ValueError("capture(edit=) needs model=, since not every model fires all its taps.")
    if getattr(model, "kernels", "torch") != "torch":
        raise ValueError(
            "capture(edit=) would miss the taps inside the model's Triton kernels; load the model "
            'with kernels="torch".'
        )


def _wanted(names: Collection[str] | None, model: nn.Module | None) -> Callable[[Tap], bool] | None:
    if names is None:
        return None
    if model is None:
        raise ValueError("capture(names) needs model=, since a tap does not know its own path.")
    known = {name: tap for tap, name in tap_names(model).items()}
    if unknown := sorted(set(names) - known.keys()):
        raise LookupError(f"The model has no taps {unknown[:10]}; tap_names(model) lists them.")
    chosen = {known[name] for name in names}
    return chosen.__contains__
