"""A run on disk: tensors in safetensors, everything else as JSON in the header."""

import json
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from model.trace_format import FORMAT, KEY, PLAIN, about_run, keys_of

if TYPE_CHECKING:
    from model.trace_data import Trace


def refuse_target(path: Path) -> None:
    """Say in words why no run can be written there."""
    if path.is_dir():
        raise IsADirectoryError(f"{str(path)!r} is a folder; name a file to save the run in.")
    if not path.parent.is_dir():
        raise FileNotFoundError(f"There is no folder {str(path.parent)!r} to save {path.name} in.")


def write_trace(trace: "Trace", path: Path) -> None:
    refuse_target(path)
    about = {name: getattr(trace, name) for name in PLAIN}
    about |= {
        "format": FORMAT,
        "config": trace.config.to_hf(),
        "tokens": [asdict(token) for token in trace.tokens],
        "cache_by_step": [asdict(figures) for figures in trace.cache_by_step],
        "taps": {name: asdict(facts) for name, facts in trace.taps.items()},
        "order": [list(step) for step in trace.tensors],
    }
    # taps may share storage or be views; a file holds each for itself
    tensors = {
        f"{step}/{name}": tensor.detach().cpu().contiguous().clone()
        for step, recorded in enumerate(trace.tensors)
        for name, tensor in recorded.items()
    }
    save_file(tensors, path, metadata={KEY: json.dumps(about)})


def read_trace(path: Path) -> tuple[dict[str, Any], list[dict[str, Tensor]]]:
    """The JSON part and, a step each, the tensors; anything else is answered in words."""
    if not path.is_file():
        raise FileNotFoundError(f"There is no file {str(path)!r} to open as a run.")
    try:
        with safe_open(path, framework="pt") as file:
            about = about_run(path, file.metadata())
            wanted = keys_of(about, set(file.keys()), path)
            steps = [
                {key.partition("/")[2]: file.get_tensor(key) for key in keys} for keys in wanted
            ]
    except SafetensorError as error:
        raise ValueError(
            f"{str(path)!r} is not a stored run: it is no safetensors file ({error}). "
            "Open a file that Trace.save wrote."
        ) from error
    return about, steps
