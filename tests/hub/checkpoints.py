"""Small checkpoints as files, as upstream lays them out."""

import json
from collections.abc import Mapping
from pathlib import Path

import numpy as np
from safetensors.numpy import save

INDEX = "model.safetensors.index.json"
Arrays = Mapping[str, np.ndarray]


def single(tensors: Arrays, config: Mapping | None = None) -> dict[str, bytes]:
    """Everything in one file."""
    return {"config.json": _json(config or {}), "model.safetensors": save(dict(tensors))}


def sharded(shards: list[Arrays], config: Mapping | None = None) -> dict[str, bytes]:
    """A numbered file for each, and an index over them."""
    names = [f"model-{i + 1:05}-of-{len(shards):05}.safetensors" for i in range(len(shards))]
    files = {name: save(dict(held)) for name, held in zip(names, shards, strict=True)}
    where = {tensor: name for name, held in zip(names, shards, strict=True) for tensor in held}
    index = {"metadata": {"total_size": 0}, "weight_map": where}
    return {"config.json": _json(config or {}), INDEX: _json(index), **files}


def indexed(where: Mapping[str, str]) -> bytes:
    return _json({"weight_map": where})


def written(files: Mapping[str, bytes], folder: Path) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    for name, held in files.items():
        (folder / name).write_bytes(held)
    return folder


def _json(table: Mapping) -> bytes:
    return json.dumps(table, indent=2).encode()
