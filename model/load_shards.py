"""Tensors of a checkpoint as they lie in its files, mapped into memory."""

from pathlib import Path
from types import TracebackType
from typing import Any, Self

import safetensors
from torch import Tensor

from model.header import CheckpointError, Entry


class Shards:
    """Tensors of a folder's files, mapped into memory: one file at a time, and no copy of it.

    A tensor is good as long as it is held. What was read of a file counts as this process's
    memory until the next file is opened.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._name, self._file = "", None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._name, self._file = "", None

    def tensor(self, entry: Entry) -> Tensor:
        """Of the file that was read last, or of another, which is then the last."""
        if entry.file != self._name:
            self._name, self._file = entry.file, _mapped(self.folder / entry.file)
        assert self._file is not None
        return self._file.get_tensor(entry.name)


def _mapped(path: Path) -> Any:
    try:
        return safetensors.safe_open(path, framework="pt")
    except safetensors.SafetensorError as error:
        raise CheckpointError(f"{str(path)!r} cannot be read: {error}. Fetch it again.") from error
