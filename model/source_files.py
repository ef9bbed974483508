"""Where the bytes of a checkpoint come from: what any place must give, and a folder here."""

from collections.abc import Mapping
from pathlib import Path
from typing import Protocol


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
