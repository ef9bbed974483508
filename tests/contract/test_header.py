"""A header of a safetensors file is checked against itself and the file before it is believed."""

import json
import struct
from fractions import Fraction

import numpy as np
import pytest
from safetensors.numpy import save

from model.header import FIRST_READ, ITEM_BYTES, MAX_HEADER, CheckpointError, Entry, read_header


class File:
    """A file of bytes that remembers what was read of it."""

    def __init__(self, held: bytes) -> None:
        self.held = held
        self.reads: list[tuple[int, int]] = []

    def __call__(self, start: int, end: int) -> bytes:
        self.reads.append((start, end))
        return self.held[start:end]


def written(table, data=b"", length=None) -> bytes:
    text = table if isinstance(table, bytes) else json.dumps(table).encode()
    return struct.pack("<Q", len(text) if length is None else length) + text + data


def tensor(start, end, dtype="U8", shape=None):
    return {"dtype": dtype, "shape": shape or [end - start], "data_offsets": [start, end]}


def entries(held: bytes) -> dict[str, Entry]:
    return read_header(File(held), len(held), "a.safetensors")


def fault(held: bytes, size=None) -> str:
    with pytest.raises(CheckpointError) as caught:
        read_header(File(held), len(held) if size is None else size, "a.safetensors")
    sentence = str(caught.value)
    assert sentence.startswith("'a.safetensors' ")
    assert "\n" not in sentence
    assert len(sentence) < 400
    return sentence


def test_what_the_library_wrote_is_read_where_it_stands():
    tensors = {
        "b": np.arange(6, dtype=np.float32).reshape(2, 3),
        "a": np.arange(5, dtype=np.int64),
        "none": np.zeros((0, 7), dtype=np.float16),
    }
    held = save(tensors, metadata={"format": "np"})
    found = entries(held)
    assert found.keys() == tensors.keys()
    for name, array in tensors.items():
        entry = found[name]
        assert (entry.shape, entry.nbytes, entry.values) == (array.shape, array.nbytes, array.size)
        assert held[entry.start : entry.end] == array.tobytes()
        assert entry.file == "a.safetensors"


def test_a_short_header_takes_one_read_and_a_long_one_two():
    short = File(written({"x": tensor(0, FIRST_READ)}, bytes(FIRST_READ)))
    read_header(short, len(short.held), "s")
    assert short.reads == [(0, FIRST_READ)]
    table = {f"layers.{i}.weight": tensor(i, i + 1) for i in range(2000)}
    long = File(written(table, bytes(2000)))
    assert len(read_header(long, len(long.held), "s")) == 2000
    assert long.reads == [(0, FIRST_READ), (FIRST_READ, len(long.held) - 2000)]


@pytest.mark.parametrize("extra", [-1, 0, 1])
def test_a_header_that_just_fits_the_first_read_is_whole(extra):
    table = json.dumps({"x": tensor(0, 1)}).encode()
    padded = table + b" " * (FIRST_READ - 8 - len(table) + extra)
    file = File(written(padded, b"\7"))
    found = read_header(file, len(file.held), "s")["x"]
    assert (found.start, found.end) == (len(file.held) - 1, len(file.held))
    assert len(file.reads) == (2 if extra > 0 else 1)


@pytest.mark.parametrize("dtype", ITEM_BYTES)
def test_every_type_has_its_bytes(dtype):
    size = int(8 * ITEM_BYTES[dtype])
    held = written({"x": tensor(0, size, dtype, [2, 4])}, bytes(size))
    assert entries(held)["x"].nbytes == size
    assert "bytes, where" in fault(written({"x": tensor(0, 1 + size, dtype, [2, 4])}, bytes(99)))


def test_types_below_a_byte_are_counted_in_fractions():
    assert ITEM_BYTES["F4"] == Fraction(1, 2)
    assert entries(written({"x": tensor(0, 3, "F4", [2, 3])}, bytes(3)))["x"].values == 6
    assert "no whole bytes" in fault(written({"x": tensor(0, 1, "F4", [3])}, bytes(1)))


def test_a_file_without_tensors_is_empty():
    assert entries(written({})) == {}
    assert entries(written({"__metadata__": {"format": "pt"}})) == {}


@pytest.mark.parametrize("kept", [0, 1, 7, 8, 9])
def test_a_stub_of_a_file_is_refused(kept):
    assert "too few for" in fault(written({"x": tensor(0, 4)}, bytes(4))[:kept])


def test_a_file_cut_in_its_header_or_its_data_is_refused():
    held = written({"x": tensor(0, 40)}, bytes(40))
    assert "claims a header of" in fault(held[:20])
    assert "is cut off: it is" in fault(held[:-1])
    assert "goes on for 1 bytes" in fault(held + b"\0")


def test_a_reader_that_gives_less_than_the_size_promised_is_refused():
    held = written({"x": tensor(0, 40)}, bytes(40))
    assert "gave 20 bytes where" in fault(held[:20], size=len(held))


@pytest.mark.parametrize(
    "held",
    [
        b"PK\x03\x04" + bytes(60),
        b"\x80\x02}q\x00" + bytes(60),
        b"version https://git-lfs.github.com/spec/v1\n" + bytes(60),
        b"<!DOCTYPE html><html><body>",
        bytes(64),
        struct.pack("<Q", 1) + b"{" + bytes(60),
    ],
    ids=["zip", "pickle", "lfs pointer", "page", "zeros", "one byte"],
)
def test_another_kind_of_file_is_refused(held):
    assert "is no safetensors file" in fault(held)


@pytest.mark.parametrize("length", [200, MAX_HEADER + 1, 2**63, 2**64 - 1])
def test_a_header_longer_than_the_file_or_the_limit_is_refused_before_it_is_read(length):
    file = File(written({"x": tensor(0, 4)}, bytes(4), length))
    with pytest.raises(CheckpointError, match="claims a header of"):
        read_header(file, len(file.held), "s")
    assert file.reads == [(0, len(file.held))]


def test_a_huge_claim_is_refused_although_the_size_would_allow_it():
    held = written({"x": tensor(0, 4)}, bytes(FIRST_READ), MAX_HEADER + 1)
    with pytest.raises(CheckpointError, match="the format allows"):
        read_header(File(held), 10**12, "s")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (b"{\xff\xfe}", "no UTF-8"),
        (b"{nonsense}", "no JSON"),
        (b'{"x": 1', "no JSON"),
        (b'{"x":' + b"[" * 100_000, "nested too deeply"),
        (b'{"x":' + b"9" * 5000 + b"}", "no JSON"),
        (b'{"x": {}, "x": {}}', "the key 'x' stands in it twice"),
        (b'{"x":{"dtype":"U8","dtype":"U8","shape":[],"data_offsets":[0,1]}}', "'dtype' stands"),
        (b'{"__metadata__": {"a": 1}}', "__metadata__"),
        (b'{"__metadata__": []}', "__metadata__"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_header_that_is_no_table_is_refused(text, words):
    assert words in fault(written(text))


@pytest.mark.parametrize(
    ("about", "words"),
    [
        (5, "by other than"),
        ({"dtype": "U8", "shape": [1]}, "by other than"),
        ({**tensor(0, 1), "more": 1}, "by other than"),
        (tensor(0, 4, "Q4"), "dtype 'Q4'"),
        ({**tensor(0, 4), "dtype": ["U8"]}, "dtype"),
        ({**tensor(0, 4), "shape": "4"}, "shape that no tensor has"),
        ({**tensor(0, 4), "shape": [-4]}, "shape that no tensor has"),
        ({**tensor(0, 4), "shape": [4.0]}, "shape that no tensor has"),
        ({**tensor(0, 1), "shape": [True]}, "shape that no tensor has"),
        ({**tensor(0, 4), "shape": [2**63]}, "shape that no tensor has"),
        ({**tensor(0, 1), "shape": [1] * 65}, "shape that no tensor has"),
        ({**tensor(0, 4), "shape": [2**62, 2**62]}, "bytes, where"),
        ({**tensor(0, 4), "shape": [5]}, "4 bytes, where 5 belong"),
        ({**tensor(0, 4), "data_offsets": [0]}, "no range"),
        ({**tensor(0, 4), "data_offsets": [4, 0]}, "no range"),
        ({**tensor(0, 4), "data_offsets": [-4, 0]}, "no range"),
        ({**tensor(0, 4), "data_offsets": [0, 2**64]}, "no range"),
        ({**tensor(0, 4), "data_offsets": {"0": 4}}, "no range"),
    ],
)
def test_a_tensor_that_cannot_be_is_refused(about, words):
    assert words in fault(written({"x": about}, bytes(4)))


@pytest.mark.parametrize("name", ["\x1b[31mred", "a\nb", "\ud800", "a\u202eb"])
def test_a_name_that_cannot_be_shown_is_refused(name):
    assert "characters that cannot be shown" in fault(written({name: tensor(0, 4)}, bytes(4)))


def test_tensors_must_fill_the_file_without_overlap_or_gap():
    assert "overlap with tensor 'x'" in fault(
        written({"x": tensor(0, 4), "y": tensor(3, 8)}, bytes(8))
    )
    assert "overlap with tensor" in fault(written({"x": tensor(0, 4), "y": tensor(0, 4)}, bytes(4)))
    assert "leaves 2 bytes after tensor 'x'" in fault(
        written({"y": tensor(6, 8), "x": tensor(0, 4)}, bytes(8))
    )
    assert "leaves 1 bytes after the header" in fault(written({"x": tensor(1, 4)}, bytes(4)))
    assert "is cut off" in fault(written({"x": tensor(0, 10**15)}, bytes(4)))


def test_tensors_without_values_may_stand_between_others():
    table = {"x": tensor(0, 4), "none": tensor(4, 4, "F32", [0, 3]), "y": tensor(4, 8)}
    assert [entry.nbytes for entry in entries(written(table, bytes(8))).values()] == [4, 0, 4]


def long_file():
    """A header of more than one read, with tensors of one byte."""
    table = {f"layers.{i}.weight": tensor(i, i + 1) for i in range(2000)}
    return File(written({"__metadata__": {"format": "pt"}, **table}, bytes(2000)))


def test_a_long_header_is_read_only_as_far_as_what_is_wanted():
    file = long_file()
    found = read_header(file, len(file.held), "s", ["layers.0.weight", "layers.500.weight"])
    assert file.reads == [(0, FIRST_READ)]
    whole = read_header(long_file(), len(file.held), "s")
    assert found.items() <= whole.items()
    assert len(found) < len(whole)


@pytest.mark.parametrize("wanted", ["layers.1999.weight", "nothing"])
def test_a_long_header_is_read_whole_where_its_beginning_lacks_what_is_wanted(wanted):
    file = long_file()
    assert len(read_header(file, len(file.held), "s", [wanted])) == 2000
    assert len(file.reads) == 2


def test_a_name_that_looks_like_the_end_of_a_tensor_misleads_nobody():
    table = {"x": tensor(0, 1), "a},b" + "c" * FIRST_READ: tensor(1, 2)}
    file = File(written(table, bytes(2)))
    assert read_header(file, len(file.held), "s", ["x"]).keys() == table.keys()


def test_the_beginning_of_a_long_header_is_checked_too():
    table = {"x": tensor(0, 10**15)} | {f"layers.{i}.weight": tensor(i, i + 1) for i in range(2000)}
    file = File(written(table, bytes(2000)))
    with pytest.raises(CheckpointError, match="tensor 'x' ends at"):
        read_header(file, len(file.held), "s", ["x"])
