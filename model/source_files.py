"""Where the bytes of a checkpoint come from: a folder, or a model on the Hub through its cache."""

import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Protocol

from model import hub
from model.hub_range import RemoteFile


class OverBoundError(ValueError):
    """More would be transferred than was allowed."""


class Readable(Protocol):
    """A file that is read in parts."""

    @property
    def size(self) -> int: ...
    def read(self, start: int, end: int) -> bytes: ...


class Files(Protocol):
    """The files of one checkpoint."""

    sizes: Mapping[str, int]
    """Bytes by name."""
    commit: str | None
    """Of a model on the Hub: forty hexadecimal digits."""

    @property
    def transferred(self) -> int:
        """Bytes that came over the network so far."""
        ...

    def allow(self, more: int) -> None:
        """Transfer up to `more` bytes from here on, and refuse what goes beyond before it goes."""
        ...

    def left(self, bound: int) -> int:
        """What is left of the bytes that were allowed, at most `bound`."""
        ...

    def whole(self, name: str) -> bytes: ...
    def parts(self, name: str) -> Readable: ...


class LocalFile:
    def __init__(self, path: Path) -> None:
        self._path = path
        self.size = path.stat().st_size

    def read(self, start: int, end: int) -> bytes:
        with self._path.open("rb") as file:
            file.seek(start)
            return file.read(end - start)


class FolderFiles:
    """Files that are here. A snapshot of the Hub's cache consists of links, which are followed."""

    transferred = 0

    def __init__(self, folder: Path, commit: str | None = None) -> None:
        self.commit = commit
        self._folder = folder
        files = [path for path in folder.iterdir() if path.is_file()]
        self.sizes: Mapping[str, int] = {path.name: path.stat().st_size for path in files}

    def allow(self, more: int) -> None:
        """Nothing is transferred."""

    def left(self, bound: int) -> int:
        return bound

    def whole(self, name: str) -> bytes:
        return (self._folder / name).read_bytes()

    def parts(self, name: str) -> Readable:
        return LocalFile(self._folder / name)


class HubFiles:
    """Files of a model at one commit: from the cache where it has them, else just what is read."""

    def __init__(self, listing: hub.Listing) -> None:
        self._listing = listing
        self.sizes = listing.sizes
        self.commit: str | None = listing.commit
        self.transferred = 0
        self._limit: int | None = None
        self._promised = 0
        self._lock = threading.Lock()
        self._opened: dict[str, Readable] = {}

    def allow(self, more: int) -> None:
        self._limit = self.transferred + more
        self._promised = self.transferred

    def left(self, bound: int) -> int:
        return bound if self._limit is None else min(bound, self._limit - self._promised)

    def promise(self, count: int, what: str) -> None:
        """Put bytes on the account before they are asked for."""
        with self._lock:
            if self._limit is not None and self._promised + count > self._limit:
                raise OverBoundError(
                    f"{what} of {self._listing.repo!r} would bring the transfer to "
                    f"{self._promised + count:,} bytes, above what is left of the bound, "
                    f"{self._limit:,}. Ask for less, or raise the bound."
                )
            self._promised += count

    def came(self, count: int) -> None:
        with self._lock:
            self.transferred += count

    def whole(self, name: str) -> bytes:
        repo, commit = self._listing.repo, self._listing.commit
        path = hub.cached(repo, name, commit)
        if path is None:
            self.promise(self.sizes[name], f"The file {name!r}")
            path = hub.download(repo, name, commit)
            self.came(self.sizes[name])
        return path.read_bytes()

    def parts(self, name: str) -> Readable:
        with self._lock:
            if name not in self._opened:
                self._opened[name] = self._open(name)
            return self._opened[name]

    def _open(self, name: str) -> Readable:
        repo, commit = self._listing.repo, self._listing.commit
        path = hub.cached(repo, name, commit)
        if path is not None:
            return LocalFile(path)
        return _OnAccount(RemoteFile(repo, name, commit, self.sizes[name], self.came), self)


class _OnAccount:
    """A remote file whose parts are promised to the account of its checkpoint."""

    def __init__(self, file: RemoteFile, account: HubFiles) -> None:
        self._file = file
        self._account = account
        self.size = file.size

    def read(self, start: int, end: int) -> bytes:
        self._account.promise(end - start, f"A part of {self._file.name!r}")
        return self._file.read(start, end)
