"""The header of a safetensors file: which tensors it holds and where, checked before use."""

import json
import math
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

ITEM_BYTES: dict[str, int | Fraction] = {
    **dict.fromkeys(("BOOL", "U8", "I8"), 1),
    **dict.fromkeys(("F8_E4M3", "F8_E5M2", "F8_E8M0", "F8_E4M3FNUZ", "F8_E5M2FNUZ"), 1),
    **dict.fromkeys(("U16", "I16", "F16", "BF16"), 2),
    **dict.fromkeys(("U32", "I32", "F32"), 4),
    **dict.fromkeys(("U64", "I64", "F64", "C64"), 8),
    **dict.fromkeys(("F6_E2M3", "F6_E3M2"), Fraction(3, 4)),
    "F4": Fraction(1, 2),
}
"""Bytes of one value by the format's word for its type."""

FIRST_READ = 64 * 1024
"""Bytes asked for at first: a whole header in most files, and little where it is not."""
MAX_HEADER = 100_000_000
"""Bytes, the format's own limit."""
MAX_AXES = 64
MAX_AXIS = 2**63
_LENGTH_BYTES = 8
_FETCH_AGAIN = "Fetch the file again."

Read = Callable[[int, int], bytes]
"""The bytes from a start to before an end."""


class CheckpointError(ValueError):
    """A checkpoint that cannot be what it says it is."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One tensor of a checkpoint: what it is and where its bytes stand."""

    name: str
    dtype: str
    """A key of `ITEM_BYTES`."""
    shape: tuple[int, ...]
    start: int
    """From the start of its file."""
    end: int
    """Of the first byte after it."""
    file: str
    """Name within the checkpoint."""

    @property
    def nbytes(self) -> int:
        return self.end - self.start

    @property
    def values(self) -> int:
        return math.prod(self.shape)


def read_header(read: Read, size: int, file: str, wanted: Collection[str] = ()) -> dict[str, Entry]:
    """Every tensor of a safetensors file of `size` bytes, in the order of the header.

    One read where the header fits into `FIRST_READ` bytes, else two. `CheckpointError` where the
    header disagrees with itself or with the size. Where the first read holds all that is `wanted`,
    the rest of a longer header is left unread, and the tensors there are left out.
    """
    first, length = _first_read(read, size, file)
    end = _LENGTH_BYTES + length
    if end > len(first):
        table = _beginning(first[_LENGTH_BYTES:], wanted, file)
        if table is not None:
            return {name: _entry(name, about, end, size, file) for name, about in table.items()}
        first += _read(read, len(first), end, file)
    table = _table(first[_LENGTH_BYTES:end], file)
    _refuse_metadata(table.pop("__metadata__", {}), file)
    entries = {name: _entry(name, about, end, size, file) for name, about in table.items()}
    _refuse_gaps(entries.values(), end, size, file)
    return entries


def _beginning(text: bytes, wanted: Collection[str], file: str) -> dict[str, Any] | None:
    """What the beginning of a header says in full, if that is all that is wanted."""
    whole = text[: text.rfind(b"},") + 1]
    if not wanted or not whole:
        return None
    try:
        table = _table(whole + b"}", file)
    except CheckpointError:
        # cut where no tensor ends; the whole header says if anything is wrong
        return None
    table.pop("__metadata__", None)
    return table if all(name in table for name in wanted) else None


def _table(text: bytes, file: str) -> dict[str, Any]:
    try:
        return json.loads(text.decode("utf-8"), object_pairs_hook=_without_repeats)
    except UnicodeDecodeError as error:
        raise _fault(file, f"has a header that is no UTF-8 ({error.reason})") from error
    except RecursionError as error:
        raise _fault(file, "has a header nested too deeply to be one") from error
    except ValueError as error:
        raise _fault(file, f"has a header that is no JSON: {error}") from error


def _first_read(read: Read, size: int, file: str) -> tuple[bytes, int]:
    """The beginning of a file and the length of its header, which the file has room for."""
    if size < _LENGTH_BYTES + 2:
        raise _fault(file, f"has {size} bytes, too few for a safetensors header")
    first = _read(read, 0, min(size, FIRST_READ), file)
    length = int.from_bytes(first[:_LENGTH_BYTES], "little")
    if first[_LENGTH_BYTES : _LENGTH_BYTES + 1] != b"{" or length < 2:
        raise CheckpointError(
            f"{file!r} is no safetensors file: it begins with {first[:9]!r}, where eight bytes of "
            "a header's length and '{' belong. Only safetensors is read here."
        )
    if length > MAX_HEADER:
        raise _fault(file, f"claims a header of {length:,} bytes; the format allows {MAX_HEADER:,}")
    if _LENGTH_BYTES + length > size:
        raise _fault(file, f"claims a header of {length:,} bytes and is {size:,} long")
    return first, length


def _read(read: Read, start: int, end: int, file: str) -> bytes:
    got = read(start, end)
    if len(got) != end - start:
        raise _fault(file, f"gave {len(got):,} bytes where {end - start:,} from {start:,} on stand")
    return got


def _without_repeats(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    table = dict(pairs)
    if len(table) != len(pairs):
        seen: set[str] = set()
        twice = next(key for key, _ in pairs if key in seen or seen.add(key))
        raise ValueError(f"the key {twice!r} stands in it twice")
    return table


def _refuse_metadata(metadata: object, file: str) -> None:
    if not isinstance(metadata, dict) or not all(isinstance(v, str) for v in metadata.values()):
        raise _fault(file, "has a __metadata__ that is no table of texts")


def _entry(name: str, about: object, data_start: int, size: int, file: str) -> Entry:
    where = f"tensor {name!r}"
    if not name.isprintable():
        raise _fault(file, f"names a {where}, with characters that cannot be shown")
    if not isinstance(about, dict) or about.keys() != {"dtype", "shape", "data_offsets"}:
        raise _fault(file, f"describes {where} by other than dtype, shape and data_offsets")
    dtype, shape, offsets = about["dtype"], about["shape"], about["data_offsets"]
    if not isinstance(dtype, str) or dtype not in ITEM_BYTES:
        known = ", ".join(ITEM_BYTES)
        raise CheckpointError(
            f"{file!r} gives {where} the dtype {str(dtype)[:40]!r}; the known are {known}."
        )
    if not _are_sizes(shape) or len(shape) > MAX_AXES:
        raise _fault(file, f"gives {where} a shape that no tensor has: {str(shape)[:80]}")
    if not _are_sizes(offsets) or len(offsets) != 2 or offsets[0] > offsets[1]:
        raise _fault(file, f"gives {where} the offsets {str(offsets)[:80]}, which are no range")
    start, end = offsets
    if data_start + end > size:
        raise CheckpointError(
            f"{file!r} is cut off: it is {size:,} bytes long, and {where} ends at "
            f"{data_start + end:,}. {_FETCH_AGAIN}"
        )
    if (needed := math.prod(shape) * ITEM_BYTES[dtype]) != end - start:
        raise _fault(
            file,
            f"gives {where}, {dtype} {shape}, {end - start:,} bytes, where {_bytes(needed)} belong",
        )
    return Entry(
        name=name,
        dtype=dtype,
        shape=tuple(shape),
        start=data_start + start,
        end=data_start + end,
        file=file,
    )


def _are_sizes(sizes: object) -> bool:
    return isinstance(sizes, list) and all(type(n) is int and 0 <= n < MAX_AXIS for n in sizes)


def _bytes(count: int | Fraction) -> str:
    return f"{int(count):,}" if count == int(count) else f"{float(count):,} (no whole bytes)"


def _refuse_gaps(entries: Iterable[Entry], data_start: int, size: int, file: str) -> None:
    """Tensors must fill the file after its header, one after another, as the format says."""
    at, before = data_start, "the header"
    for entry in sorted(entries, key=lambda entry: (entry.start, entry.end)):
        if entry.start < at:
            raise _fault(file, f"lets tensor {entry.name!r} overlap with {before}")
        if entry.start > at:
            raise _fault(file, f"leaves {entry.start - at:,} bytes after {before} to no tensor")
        at, before = entry.end, f"tensor {entry.name!r}"
    if at < size:
        raise _fault(file, f"goes on for {size - at:,} bytes after {before}")


def _fault(file: str, what: str) -> CheckpointError:
    return CheckpointError(f"{file!r} {what}. {_FETCH_AGAIN}")
