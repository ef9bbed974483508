"""Files of a model on the Hub: from the cache where it has them, else just what is read of them."""

import threading

from model import hub
from model.hub_range import RemoteFile
from model.source_files import LocalFile, OverBoundError, Readable


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
            path = hub.download(repo, name, commit, login=self._listing.login)
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
        remote = RemoteFile(
            repo, name, commit, self.sizes[name], self.came, login=self._listing.login
        )
        return _OnAccount(remote, self)


class _OnAccount:
    """A remote file whose parts are promised to the account of its checkpoint."""

    def __init__(self, file: RemoteFile, account: HubFiles) -> None:
        self._file = file
        self._account = account
        self.size = file.size

    def read(self, start: int, end: int) -> bytes:
        self._account.promise(end - start, f"A part of {self._file.name!r}")
        return self._file.read(start, end)
