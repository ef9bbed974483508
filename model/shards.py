"""What a checkpoint says of itself: its configuration, and which file holds which tensor."""

import json
import re
from collections.abc import Iterable, Mapping
from pathlib import PurePosixPath
from typing import Any

from model.header import CheckpointError

CONFIG = "config.json"
INDEX = "model.safetensors.index.json"
_NUMBERED = re.compile(r"(?P<stem>.+)-(?P<number>\d{5})-of-(?P<count>\d{5,6})\.safetensors")
_PICKLES = (".bin", ".pt", ".pth", ".ckpt")
_NAMED = 5
"""Names of each kind that a sentence lists."""


def parse_config(text: bytes, where: str) -> dict[str, Any]:
    """The object that a `config.json` holds; `where` is what the errors call it."""
    config = _json(text, where)
    if not isinstance(config, dict):
        raise CheckpointError(f"{where!r} holds a {type(config).__name__}, and not a JSON object.")
    return config


def parse_index(text: bytes, where: str) -> dict[str, str]:
    """File by tensor of a `model.safetensors.index.json`, every file one beside the index."""
    table = _json(text, where)
    files = table.get("weight_map") if isinstance(table, dict) else None
    if not isinstance(files, dict) or not all(isinstance(file, str) for file in files.values()):
        raise CheckpointError(
            f"{where!r} has no weight_map from tensors to files, which is all that an index is."
        )
    odd = sorted(file for file in set(files.values()) if not _is_beside(file))
    if odd:
        raise CheckpointError(
            f"{where!r} names {listed(odd)}: weights are .safetensors files beside their index, "
            "and nothing else is opened."
        )
    return files


def shards_of(names: Iterable[str], index: Mapping[str, str] | None, where: str) -> list[str]:
    """The weight files among `names`: those of the index, or else every safetensors file."""
    names = set(names)
    if index is not None:
        wanted = sorted(set(index.values()))
        if absent := [name for name in wanted if name not in names]:
            raise CheckpointError(
                f"{where!r} lacks {len(absent)} of the {len(wanted)} files that its index lists, "
                f"as {listed(absent)}. Fetch the rest."
            )
        return wanted
    if found := sorted(name for name in names if _is_beside(name)):
        return found
    pickles = sorted(name for name in names if name.endswith(_PICKLES))
    remedy = (
        f" {pickles[0]!r} is a pickle, which may run code when it is read: convert it to "
        "safetensors."
        if pickles
        else ""
    )
    raise CheckpointError(f"{where!r} holds no .safetensors file.{remedy}")


def complete_series(names: Iterable[str]) -> list[str] | None:
    """The safetensors files where they are one series 1 to N of N, which needs no index to know."""
    files = sorted(name for name in names if name.endswith(".safetensors"))
    found = [_NUMBERED.fullmatch(name) for name in files]
    parts = [part for part in found if part is not None]
    if not parts or len(parts) < len(files):
        return None
    same = {(part["stem"], int(part["count"])) for part in parts}
    numbers = [int(part["number"]) for part in parts]
    return files if len(same) == 1 and numbers == [*range(1, same.pop()[1] + 1)] else None


def listed(names: list[str]) -> str:
    rest = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    return ", ".join(repr(name) for name in names[:_NAMED]) + rest


def _is_beside(name: str) -> bool:
    """Whether a name is that of a weight file in the same folder, on every system."""
    return (
        name.endswith(".safetensors")
        and name.isprintable()
        and not re.search(r"[\\/:]", name)
        and PurePosixPath(name).name == name
    )


def _json(text: bytes, where: str) -> Any:
    try:
        return json.loads(text.decode("utf-8"))
    except (ValueError, RecursionError) as error:
        raise CheckpointError(f"{where!r} is no JSON: {error}.") from error
