"""What a look at some tensors would read, settled before a byte of them is read."""

from collections.abc import Sequence
from dataclasses import dataclass

from model.header import ITEM_BYTES, Entry
from model.limits import LOOK_BYTES
from model.number_formats import FP8_BLOCK, MXFP4_GROUP, require_read
from model.source import Part, Source
from model.source_files import OverBoundError

BOUND = LOOK_BYTES
PACKED, PACKED_SCALE = ".weight_packed", ".weight_scale"
FP8_WEIGHT, FP8_SCALE = ".weight", ".weight_scale_inv"


@dataclass(frozen=True, slots=True, kw_only=True)
class Piece:
    """A tensor, or rows of it, with the scales that its codes need."""

    entry: Entry
    rows: tuple[int, int] | None
    """Along the first axis, from the first to before the second; None for all."""
    parts: tuple[Part, ...]
    """The tensor's bytes, then those of its scales."""
    scale: Entry | None = None

    @property
    def nbytes(self) -> int:
        return sum(part.end - part.start for part in self.parts)

    @property
    def shape(self) -> tuple[int, ...]:
        """As stored, of what is read."""
        if self.rows is None:
            return self.entry.shape
        return (self.rows[1] - self.rows[0], *self.entry.shape[1:])


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """All of it, within the bound."""

    source: Source
    pieces: tuple[Piece, ...]
    bound: int

    @property
    def nbytes(self) -> int:
        return sum(piece.nbytes for piece in self.pieces)


def plan(
    source: Source, pattern: str, *, rows: tuple[int, int] | None = None, bound: int = BOUND
) -> Plan:
    """The tensors that fit a pattern, each with its scales, where all of it is within `bound`.

    Lists and headers that come over the network for this are within it too. `OverBoundError`
    before more would come; LookupError where no name fits.
    """
    source.files.allow(bound)
    names = source.fitting(pattern)
    scales = {name: scale for name in names if (scale := _scale_name(source, name))}
    # a scale is shown with its weight
    names = [name for name in names if name not in scales.values()]
    found = dict(zip(names, source.called(names), strict=True))
    wanted = [scales[name] for name in names if name in scales]
    held = dict(zip(wanted, source.called(wanted), strict=True))
    pieces = [
        piece_of(entry, held.get(scales.get(name, "")), rows) for name, entry in found.items()
    ]
    return within(source, pieces, bound)


def within(source: Source, pieces: Sequence[Piece], bound: int) -> Plan:
    """The plan to read these; `OverBoundError` where they are more than is left."""
    asked = Plan(source=source, pieces=tuple(pieces), bound=bound)
    left = source.files.left(bound)
    if asked.nbytes > left:
        spent = f", of which {bound - left:,} went to lists and headers" if left < bound else ""
        raise OverBoundError(
            f"{_that(asked)} {asked.nbytes:,} bytes, and the bound is {bound:,}{spent}. "
            f"{_remedy(asked, left)}"
        )
    return asked


def _that(asked: Plan) -> str:
    first, count = repr(asked.pieces[0].entry.name), len(asked.pieces)
    return f"{first} holds" if count == 1 else f"{count:,} tensors, as {first}, hold"


def _remedy(asked: Plan, left: int) -> str:
    largest = max(asked.pieces, key=lambda piece: piece.nbytes)
    rows = largest.shape[0] if len(largest.shape) > 1 else 0
    if len(asked.pieces) == 1 and (fit := left * rows // largest.nbytes):
        start = largest.rows[0] if largest.rows else 0
        return f"About {fit:,} rows fit, as --rows {start}:{start + fit}; or raise --bound."
    return "Ask for fewer, or raise --bound."


def _scale_name(source: Source, name: str) -> str | None:
    """Of the tensor that a packed weight needs, where the checkpoint has it."""
    for weight, scale in ((PACKED, PACKED_SCALE), (FP8_WEIGHT, FP8_SCALE)):
        partner = name.removesuffix(weight) + scale
        if name.endswith(weight) and partner in source.names:
            return partner
    return None


def piece_of(entry: Entry, scale: Entry | None, rows: tuple[int, int] | None) -> Piece:
    """One tensor or rows of it; ValueError where it has no such rows, or they end inside a byte."""
    require_read(entry)
    if scale is not None and not _scales(scale, entry):
        scale = None
    parts = [_part(entry, rows)]
    if scale is not None:
        blocks = rows
        if rows is not None and entry.name.endswith(FP8_WEIGHT):
            blocks = rows[0] // FP8_BLOCK, -(-rows[1] // FP8_BLOCK)
        parts.append(_part(scale, blocks))
    return Piece(entry=entry, rows=rows, parts=tuple(parts), scale=scale)


def _scales(scale: Entry, weight: Entry) -> bool:
    """Whether the two fit together as one of the two packed forms."""
    if len(weight.shape) != 2 or len(scale.shape) != 2:
        return False
    rows, columns = weight.shape
    if weight.name.endswith(PACKED):
        return (
            weight.dtype == scale.dtype == "U8"
            and scale.shape[0] == rows
            and scale.shape[1] * MXFP4_GROUP == columns * 2
        )
    blocks = tuple(-(-side // FP8_BLOCK) for side in weight.shape)
    return weight.dtype == "F8_E4M3" and scale.dtype == "F32" and scale.shape == blocks


def _part(entry: Entry, rows: tuple[int, int] | None) -> Part:
    if rows is None:
        return Part(entry, 0, entry.nbytes)
    start, end = rows
    if not entry.shape or not 0 <= start < end <= entry.shape[0]:
        raise ValueError(
            f"{entry.name!r} has the shape {[*entry.shape]}, and no rows {start}:{end}."
        )
    row = ITEM_BYTES[entry.dtype] * entry.values / entry.shape[0]
    if row != int(row):
        raise ValueError(f"{entry.name!r} has rows of {float(row)} bytes; read it whole.")
    return Part(entry, start * int(row), end * int(row))
