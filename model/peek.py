"""Single tensors of a checkpoint, read where they stand: their values in numbers, no file whole."""

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from model.header import Entry
from model.number_formats import FP8_BLOCK, Numbers, fp8, halves, mxfp4, numbers
from model.peek_plan import BOUND, PACKED, Piece, Plan, plan
from model.peek_statistics import Statistics, singular_values, statistics, why_no_singular_values
from model.source import Source

__all__ = ["BOUND", "Plan", "StoredTensor", "TensorReport", "peek", "plan", "read"]

FEW = 64
"""Values up to which all are given."""
BLOCK = 1 << 21
"""Bytes that are decoded at a time, a multiple of every type's."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TensorReport:
    """What one look at a tensor tells."""

    name: str
    dtype: str
    """As stored, in safetensors' word."""
    stored_shape: tuple[int, ...]
    shape: tuple[int, ...]
    """Of the values read: packed codes are twice as many as their bytes, rows may be fewer."""
    rows: tuple[int, int] | None
    nbytes: int
    """Read for it, its scales' bytes too."""
    form: str
    """`plain`; `mxfp4` or `fp8` where the values are codes times scales."""
    values: Statistics
    codes: tuple[int, ...]
    """How often each code stands there, of 16 or 256; empty for `plain`."""
    scales: Statistics | None
    few: tuple[float, ...]
    """All values where they are at most `FEW`."""
    singular_values: tuple[float, ...]
    no_singular_values: str
    """Why there are none, in words."""


def peek(
    source: Source, pattern: str, *, rows: tuple[int, int] | None = None, bound: int = BOUND
) -> list[TensorReport]:
    """The tensors whose name fits, after a plan within `bound` bytes."""
    return read(plan(source, pattern, rows=rows, bound=bound))


def read(asked: Plan) -> list[TensorReport]:
    """What is told of every tensor of a plan."""
    return [report(tensor) for tensor in fetched(asked)]


def fetched(asked: Plan) -> "list[StoredTensor]":
    """Carry out a plan: its bytes are read now, and nothing else."""
    parts = [part for piece in asked.pieces for part in piece.parts]
    came = iter(asked.source.read_parts(parts))
    return [StoredTensor(piece, [next(came) for _ in piece.parts]) for piece in asked.pieces]


def decoded(piece: Piece, raw: list[bytes]) -> Numbers:
    """The values of a piece, in its shape."""
    return StoredTensor(piece, raw).decoded()


class StoredTensor:
    """The bytes of one piece, decoded a block at a time."""

    def __init__(self, piece: Piece, raw: list[bytes]) -> None:
        self.piece = piece
        self._entry: Entry = piece.entry
        self._raw = raw
        self.stored = piece.shape
        self.form = "plain"
        self.shape = piece.shape
        if piece.scale is None:
            return
        self._first_row = piece.rows[0] if piece.rows else 0
        scale_shape = (-1, piece.scale.shape[1])
        if piece.entry.name.endswith(PACKED):
            self.form, self.shape = "mxfp4", (self.stored[0], 2 * self.stored[1])
            self._exponents = np.frombuffer(raw[1], dtype=np.uint8).reshape(scale_shape)
            self.scales = numbers(raw[1], "F8_E8M0")
        else:
            self.form = "fp8"
            self.scales = numbers(raw[1], "F32")
            self._factors = self.scales.reshape(scale_shape)

    @property
    def _bytes(self) -> NDArray[np.uint8]:
        return np.frombuffer(self._raw[0], dtype=np.uint8).reshape(self.stored)

    def decoded(self) -> Numbers:
        """All values, in the tensor's shape."""
        return np.concatenate([*self.blocks()] or [np.empty(0)]).reshape(self.shape)

    def blocks(self) -> Iterable[Numbers]:
        """All values in order, flat."""
        if self.form == "plain":
            return self._plain()
        return self._mxfp4() if self.form == "mxfp4" else self._fp8()

    def _plain(self) -> Iterable[Numbers]:
        raw = self._raw[0]
        for at in range(0, len(raw), BLOCK):
            yield numbers(raw[at : at + BLOCK], self._entry.dtype)

    def _mxfp4(self) -> Iterable[Numbers]:
        step = max(1, BLOCK // max(1, self.stored[1]))
        for row in range(0, self.stored[0], step):
            part = slice(row, row + step)
            yield mxfp4(self._bytes[part], self._exponents[part]).ravel()

    def _fp8(self) -> Iterable[Numbers]:
        """A band of blocks at a time; the first one may begin inside its blocks."""
        skipped = self._first_row % FP8_BLOCK
        for i, factors in enumerate(self._factors):
            begin = max(0, i * FP8_BLOCK - skipped)
            band = self._bytes[begin : (i + 1) * FP8_BLOCK - skipped]
            yield fp8(band, factors[None, :]).ravel()

    def codes(self) -> tuple[int, ...]:
        if self.form == "plain":
            return ()
        stored = np.frombuffer(self._raw[0], dtype=np.uint8)
        if self.form == "mxfp4":
            by_byte = np.bincount(stored, minlength=256)
            both = halves(np.arange(256, dtype=np.uint8)[:, None])
            counts = np.zeros(16, dtype=np.int64)
            np.add.at(counts, both, by_byte[:, None])
            return tuple(counts.tolist())
        return tuple(np.bincount(stored, minlength=256).tolist())


def report(tensor: StoredTensor) -> TensorReport:
    """What is told of one tensor."""
    piece = tensor.piece
    spread = statistics(tensor.blocks)
    why = why_no_singular_values(
        tensor.shape, spread.finite == spread.count, whole=piece.rows is None
    )
    singular = () if why else tuple(singular_values(tensor.decoded()).tolist())
    few = tensor.decoded().ravel().tolist() if spread.count <= FEW else ()
    return TensorReport(
        name=piece.entry.name,
        dtype=piece.entry.dtype,
        stored_shape=piece.entry.shape,
        shape=tensor.shape,
        rows=piece.rows,
        nbytes=piece.nbytes,
        form=tensor.form,
        values=spread,
        codes=tensor.codes(),
        scales=None if piece.scale is None else statistics(lambda: [tensor.scales]),
        few=tuple(few),
        singular_values=singular,
        no_singular_values=why,
    )
