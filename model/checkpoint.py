"""A checkpoint, in a folder or on the Hub: its configuration, its files and what they hold."""

import os
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from io import BufferedReader
from pathlib import Path
from typing import Any, Self

from model.header import CheckpointError, Entry, read_header
from model.shards import CONFIG, INDEX, parse_config, parse_index, shards_of

ABOUT = (CONFIG, INDEX, "tokenizer.json", "tiktoken.model", "tokenizer_config.json")
"""Files that say what a checkpoint is, read before any of its weights. Its code never is."""
_WEIGHTS = "*.safetensors"

Wanted = Callable[[str], bool]
"""Whether a tensor of that name is to be read."""


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """A folder here, and the Hub's model that files still missing from it come from."""

    folder: Path
    repo: str | None = None

    @classmethod
    def of(cls, source: str, revision: str | None = None) -> Self:
        """Of a folder, or of a Hub id, of which only the small files are there by then."""
        folder = checkpoint_folder(source, ABOUT, revision)
        return cls(folder, None if Path(source).is_dir() else source)

    def weight_files(self, wanted: Wanted) -> tuple[list[str], set[str]]:
        """Files that hold wanted tensors, now in the folder, and every name that the index has.

        Without an index all files are named, and their headers say which tensors there are.
        """
        index = read_index(self.folder)
        shards = index and {name: file for name, file in index.items() if wanted(name)}
        if shards == {}:
            raise CheckpointError(f"{INDEX} of {str(self.folder)!r} lists nothing of this model.")
        if self.repo is not None:
            files = [_WEIGHTS] if shards is None else sorted(set(shards.values()))
            # the folder's name is the commit, so that all files are of one
            checkpoint_folder(self.repo, files, self.folder.name)
        names = [path.name for path in self.folder.iterdir() if path.is_file()]
        return shards_of(names, shards, str(self.folder)), set(index or ())


def checkpoint_folder(
    source: str, files: Iterable[str] = (*ABOUT, _WEIGHTS), revision: str | None = None
) -> Path:
    """The folder that `source` names, or the one to which its files come from the Hub."""
    if source and Path(source).is_dir():
        if revision is not None:
            raise ValueError(
                f"revision={revision!r} is for models of the Hub, and {source!r} is a folder here."
            )
        return Path(source)
    # its library takes longer to import than a configuration to read
    from model import hub

    return hub.fetch(hub.repo_of(source), files, revision)


def read_config(folder: Path) -> dict[str, Any]:
    path = folder / CONFIG
    if not path.is_file():
        raise CheckpointError(f"{str(folder)!r} holds no {CONFIG}, which says what model it is.")
    return parse_config(path.read_bytes(), str(path))


def read_index(folder: Path) -> dict[str, str] | None:
    """The shard of each tensor by the checkpoint's index; None where there is none."""
    path = folder / INDEX
    return parse_index(path.read_bytes(), str(path)) if path.is_file() else None


def read_entries(folder: Path, files: Iterable[str]) -> list[Entry]:
    """What the files hold, by their headers alone; a name stands twice where two files have it."""
    entries: list[Entry] = []
    for name in files:
        with (folder / name).open("rb") as file:

            def read(start: int, end: int, file: BufferedReader = file) -> bytes:
                file.seek(start)
                return file.read(end - start)

            entries += read_header(read, os.fstat(file.fileno()).st_size, name).values()
    return entries
