"""A checkpoint, in a folder or on the Hub: its configuration and its tensors, or why not."""

import difflib
import json
import re
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from model.presets import PRESETS

if TYPE_CHECKING:
    from torch import Tensor

_HUB_ID = re.compile(r"\w[\w.-]*/\w[\w.-]*")
_READ = ["*.json", "*.safetensors"]
"""Files of a repository that are fetched; code and pickles are not."""
_PICKLES = ("*.bin", "*.pt", "*.pth")
_INDEX = "model.safetensors.index.json"


def checkpoint_folder(source: str, files: Iterable[str] = _READ) -> Path:
    """The folder that `source` names, or the one to which its files come from the Hub."""
    if source and Path(source).is_dir():
        return Path(source)
    if not _HUB_ID.fullmatch(source):
        near = difflib.get_close_matches(source, PRESETS, n=1)
        hint = f" Did you mean {near[0]!r}?" if near else ""
        raise LookupError(
            f"{source!r} is no preset ({', '.join(PRESETS)}), no folder and no Hub id "
            f"org/name.{hint}"
        )
    from huggingface_hub import snapshot_download

    # the base of its HTTP library's errors, whichever library this version uses
    from huggingface_hub.errors import HTTPError  # pyright: ignore[reportPrivateImportUsage]

    try:
        return Path(snapshot_download(source, allow_patterns=list(files)))
    except (HTTPError, OSError, ValueError) as error:
        words = str(error).strip().splitlines()
        raise LookupError(
            f"{source!r} is no folder here, and the Hub did not give it: "
            f"{words[0] if words else type(error).__name__}. Check name and network, or name a "
            "folder with config.json and .safetensors files."
        ) from error


def read_config(folder: Path) -> dict[str, Any]:
    path = folder / "config.json"
    if not path.is_file():
        raise ValueError(f"{str(folder)!r} holds no config.json, which says what model it is.")
    try:
        config = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise ValueError(f"{str(path)!r} is no JSON: {error}.") from error
    if not isinstance(config, dict):
        raise ValueError(f"{str(path)!r} holds a {type(config).__name__}, and not a JSON object.")
    return config


def read_tensors(folder: Path) -> dict[str, "Tensor"]:
    """Every tensor of the folder's safetensors files, each under one name and from one file."""
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    tensors: dict[str, Tensor] = {}
    for file in _weight_files(folder):
        try:
            held = load_file(file)
        except SafetensorError as error:
            raise ValueError(
                f"{str(file)!r} is cut short or no safetensors file ({error}). Fetch it again."
            ) from error
        if twice := sorted(held.keys() & tensors.keys()):
            raise ValueError(
                f"{str(file)!r} holds {len(twice)} tensors that another file holds too, as "
                f"{twice[0]!r}; leave one of the files."
            )
        tensors |= held
    return tensors


def _weight_files(folder: Path) -> list[Path]:
    """What the index lists, or else every safetensors file."""
    if (index := folder / _INDEX).is_file():
        listed = sorted(set(json.loads(index.read_text(encoding="utf-8"))["weight_map"].values()))
        if absent := [name for name in listed if not (folder / name).is_file()]:
            raise ValueError(
                f"{str(folder)!r} lacks {len(absent)} of the {len(listed)} files that {_INDEX} "
                f"lists, as {absent[0]!r}. Fetch the rest."
            )
        return [folder / name for name in listed]
    if files := sorted(folder.glob("*.safetensors")):
        return files
    pickles = sorted(path.name for glob in _PICKLES for path in folder.glob(glob))
    remedy = (
        f" {pickles[0]!r} is a pickle, which may run code when it is read: convert it to "
        "safetensors."
        if pickles
        else ""
    )
    raise ValueError(f"{str(folder)!r} holds no .safetensors file.{remedy}")
