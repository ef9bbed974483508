"""The questions that a reader can put to a checkpoint, and how each of them is answered."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from app.figures.mosaic import Mosaic, mosaic

if TYPE_CHECKING:
    from model.header import Entry
    from model.peek import TensorReport
    from model.source import Source as Checkpoint

What = Literal["contents", "tensors", "read", "decay", "residual", "router"]
ROWS = 40
"""Tensors on one page of a list."""
MOST_READ = 24
"""Tensors that are read at once."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Look:
    """One question to a checkpoint."""

    checkpoint: str
    """Key of a source that the operator named, or a Hub id."""
    what: What
    pattern: str = "*"
    page: int = 0


@dataclass(frozen=True, kw_only=True, slots=True)
class Contents:
    """The files of a checkpoint, as their list tells."""

    files: int
    """Files of weights."""
    nbytes: int
    """Of these files."""
    index: int
    """Bytes of the list of tensors, where one lies apart; else every file begins with its own."""
    remote: bool


@dataclass(frozen=True, kw_only=True, slots=True)
class Listing:
    """Some of the tensors that fit a pattern."""

    count: int
    rows: "tuple[Entry, ...]"
    first: int
    planned: int | None
    """Bytes to read all that fit, with their scales; None where they are too many."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Tensor:
    """What is told and shown of one tensor."""

    report: "TensorReport"
    picture: Mosaic


def _contents(checkpoint: "Checkpoint", look: Look) -> Contents:
    from model.shards import INDEX

    sizes = checkpoint.files.sizes
    weights = [size for name, size in sizes.items() if name.endswith(".safetensors")]
    return Contents(
        files=len(weights),
        nbytes=sum(weights),
        index=sizes.get(INDEX, 0),
        remote=checkpoint.revision is not None,
    )


def _listing(checkpoint: "Checkpoint", look: Look) -> Listing:
    from model.peek_plan import BOUND, plan
    from model.source_files import OverBoundError

    checkpoint.files.allow(BOUND)
    names = checkpoint.fitting(look.pattern)
    first = max(0, min(look.page, (len(names) - 1) // ROWS)) * ROWS
    rows = tuple(checkpoint.called(names[first : first + ROWS]))
    planned = None
    if len(names) <= MOST_READ:
        try:
            planned = plan(checkpoint, look.pattern).nbytes
        except OverBoundError:
            planned = None
    return Listing(count=len(names), rows=rows, first=first, planned=planned)


def _read(checkpoint: "Checkpoint", look: Look) -> tuple[Tensor, ...]:
    from model.peek import fetched, plan, report

    return tuple(
        Tensor(report=report(tensor), picture=mosaic(tensor.blocks(), tensor.shape))
        for tensor in fetched(plan(checkpoint, look.pattern))
    )


def _view(name: str) -> "Callable[[Checkpoint, Look], Any]":
    def make(checkpoint: "Checkpoint", look: Look) -> Any:
        from model.peek_views import VIEWS

        return VIEWS[name](checkpoint)

    return make


LOOKS: "dict[What, Callable[[Checkpoint, Look], Any]]" = {
    "contents": _contents,
    "tensors": _listing,
    "read": _read,
    "decay": _view("decay"),
    "residual": _view("residual"),
    "router": _view("router"),
}
