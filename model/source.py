"""A checkpoint opened for reading: its configuration, its tensors' places, and just their bytes."""

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import cached_property
from pathlib import Path
from typing import Any, TypeVar

from model.header import CheckpointError, Entry, read_header
from model.presets import PRESETS, RELEASED
from model.shards import (
    CONFIG,
    INDEX,
    complete_series,
    listed,
    parse_config,
    parse_index,
    shards_of,
)
from model.shipped import folder_of, has_weights
from model.source_files import Files, FolderFiles

Item = TypeVar("Item")
Result = TypeVar("Result")

READERS = 8
"""Parts that are asked for at a time."""


@dataclass(frozen=True, slots=True)
class Part:
    """Some bytes of a tensor, from its own beginning."""

    entry: Entry
    start: int
    end: int


def open_source(source: str, *, revision: str | None = None) -> "Source":
    """A preset with shipped weights, a folder, or a Hub id `org/name`; no weights are read yet.

    On the Hub the revision is resolved to a full commit, and every later read is of that commit.
    Where the Hub does not answer, what its cache holds is opened, and `notices` says so.
    """
    if source in PRESETS:
        return _opened_preset(source)
    if source and Path(source).is_dir():
        if revision is not None:
            raise ValueError(f"{source!r} is a folder, which has no revision {revision!r}.")
        return Source(source, FolderFiles(Path(source)))
    return open_hub(source, revision=revision)


def open_hub(source: str, *, revision: str | None = None, login: bool = True) -> "Source":
    """A Hub id, also where a folder of this machine is called so.

    Without `login` the Hub is asked as by somebody who is not signed in.
    """
    # its library takes longer to import than a folder to open
    from model import hub
    from model.hub_files import HubFiles

    repo = hub.repo_of(source)
    try:
        return Source(repo, HubFiles(hub.listing(repo, revision, login=login)))
    except hub.HubUnreachableError as away:
        try:
            folder = hub.fetch(repo, [CONFIG], revision)
        except hub.HubError:
            raise away from None
        notice = f"{away.args[0]} Read from the cache, which holds {folder.name}."
        return Source(repo, FolderFiles(folder, commit=folder.name), notices=(notice,))


def _opened_preset(name: str) -> "Source":
    folder = folder_of(name)
    if folder is None or not has_weights(name):
        released = name in RELEASED
        what = "a released configuration" if released else "a preset whose weights are random"
        raise LookupError(
            f"{name!r} is {what}: there is no checkpoint of it here. Name a folder with "
            "config.json and .safetensors files, or a Hub id org/name."
        )
    return Source(name, FolderFiles(folder))


class Source:
    """One checkpoint, at one commit. What is known of its headers is kept."""

    def __init__(self, name: str, files: Files, notices: tuple[str, ...] = ()) -> None:
        self.name = name
        self.files = files
        self.notices = notices
        """What a reader must know of where it was read."""
        self._known: dict[str, dict[str, Entry]] = {}
        """Tensors by file."""
        self._whole: set[str] = set()
        """Files whose tensors are all known."""

    @property
    def revision(self) -> str | None:
        """The full commit; None for a folder."""
        return self.files.commit

    @property
    def transferred(self) -> int:
        """Bytes of files that came over the network so far, of lists and headers too."""
        return self.files.transferred

    @cached_property
    def config(self) -> dict[str, Any]:
        if CONFIG not in self.files.sizes:
            raise CheckpointError(f"{self.name!r} holds no {CONFIG}, which says what model it is.")
        return parse_config(self.files.whole(CONFIG), f"{CONFIG} of {self.name}")

    @cached_property
    def index(self) -> Mapping[str, str] | None:
        """File by tensor, where the checkpoint has an index."""
        if INDEX not in self.files.sizes:
            return None
        return parse_index(self.files.whole(INDEX), f"{INDEX} of {self.name}")

    @cached_property
    def shards(self) -> tuple[str, ...]:
        """The files that hold the weights."""
        series = complete_series(self.files.sizes)
        # the index of the largest checkpoint weighs sixty megabytes
        if series is not None and self.files.commit is not None:
            return tuple(series)
        return tuple(shards_of(self.files.sizes, self.index, self.name))

    @cached_property
    def entries(self) -> Mapping[str, Entry]:
        """Every tensor by name, from the header of every shard."""
        entries: dict[str, Entry] = {}
        for found in _side_by_side(self._header, self.shards):
            if twice := sorted(found.keys() & entries.keys()):
                files = found[twice[0]].file, entries[twice[0]].file
                raise CheckpointError(
                    f"{self.name!r} holds {listed(twice)} twice, in {files[0]!r} and {files[1]!r}. "
                    "Leave one of the files."
                )
            entries |= found
        return entries

    @property
    def names(self) -> Collection[str]:
        """Of every tensor: from the index where there is one, else from the headers."""
        return self.entries.keys() if self.index is None else self.index.keys()

    def fitting(self, pattern: str) -> list[str]:
        """The tensors whose whole name fits, as in `*.layers.3.*.A_log`, in order; LookupError
        where there is none.
        """
        if found := sorted(name for name in self.names if fnmatchcase(name, pattern)):
            return found
        raise LookupError(
            f"{self.name!r} has {len(self.names):,} tensors, and the name of none fits {pattern!r}."
            " `*` stands for any characters, as in '*.A_log'."
        )

    def called(self, names: Iterable[str]) -> list[Entry]:
        """The tensors of exactly these names, which the checkpoint must have.

        With an index only the headers of the shards that hold them are read, and a long header
        only as far as needed.
        """
        names = list(names)
        if self.index is None:
            found: Mapping[str, Entry] = self.entries
        else:
            by_file: dict[str, list[str]] = defaultdict(list)
            for name in names:
                by_file[self._file_of(name)].append(name)
            headers = _side_by_side(lambda item: self._header(*item), by_file.items())
            found = {name: entry for header in headers for name, entry in header.items()}
        if absent := [name for name in names if name not in found]:
            raise CheckpointError(
                f"{self.name!r} lacks {listed(absent)}, which its index promises."
                if self.index is not None
                else f"{self.name!r} has no tensor {listed(absent)}."
            )
        return [found[name] for name in names]

    def read(self, entry: Entry, start: int | None = None, end: int | None = None) -> bytes:
        """A tensor's bytes, or those from `start` to before `end` of them."""
        start, end = start or 0, entry.nbytes if end is None else end
        return self.read_parts([Part(entry, start, end)])[0]

    def read_parts(self, parts: Sequence[Part]) -> list[bytes]:
        """The bytes of every part in order; neighbours in a file come in one request."""
        for part in parts:
            if not 0 <= part.start <= part.end <= part.entry.nbytes:
                raise ValueError(
                    f"{part.entry.name!r} has no bytes {part.start:,} to {part.end:,}; it has "
                    f"{part.entry.nbytes:,}."
                )
        got: dict[Part, bytes] = {}
        for found in _side_by_side(self._run, _runs(parts)):
            got |= found
        return [got[part] for part in parts]

    def _run(self, run: Sequence[Part]) -> dict[Part, bytes]:
        """Parts that follow one another in one file."""
        first, last = run[0], run[-1]
        begin, end = first.entry.start + first.start, last.entry.start + last.end
        held = self.files.parts(first.entry.file).read(begin, end)
        if len(held) != end - begin:
            raise CheckpointError(
                f"{first.entry.file!r} of {self.name!r} is cut off: {len(held):,} of the bytes "
                f"{begin:,} to {end:,} are there. Fetch the file again."
            )
        found, at = {}, 0
        for part in run:
            found[part] = held[at : at + part.end - part.start]
            at += part.end - part.start
        return found

    def _file_of(self, name: str) -> str:
        assert self.index is not None
        if name not in self.index:
            raise CheckpointError(f"{self.name!r} has no tensor {name!r} in its index.")
        file = self.index[name]
        if file not in self.files.sizes:
            raise CheckpointError(
                f"{self.name!r} lacks the file {file!r}, in which its index puts {name!r}."
            )
        return file

    def _header(self, file: str, wanted: Sequence[str] = ()) -> Mapping[str, Entry]:
        """All tensors of a file, or (for some wanted ones) at least these that it has."""
        known = self._known.get(file, {})
        if file in self._whole or (wanted and all(name in known for name in wanted)):
            return known
        part = self.files.parts(file)
        self._known[file] = {**known, **read_header(part.read, part.size, file, wanted)}
        if not wanted:
            self._whole.add(file)
        return self._known[file]


def _runs(parts: Sequence[Part]) -> list[list[Part]]:
    """Different parts gathered where one ends as the next begins."""
    runs: list[list[Part]] = []
    order = sorted(set(parts), key=lambda part: (part.entry.file, part.entry.start + part.start))
    for part in order:
        last = runs[-1][-1] if runs else None
        follows = (
            last is not None
            and last.entry.file == part.entry.file
            and last.entry.start + last.end == part.entry.start + part.start
        )
        if follows:
            runs[-1].append(part)
        else:
            runs.append([part])
    return runs


def _side_by_side(work: Callable[[Item], Result], items: Iterable[Item]) -> list[Result]:
    """`map` with a few threads, as most of the time is spent waiting for an answer."""
    waiting = list(items)
    if len(waiting) < 2:
        return [work(item) for item in waiting]
    with ThreadPoolExecutor(min(READERS, len(waiting))) as pool:
        return list(pool.map(work, waiting))
