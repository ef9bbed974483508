"""What a file of a run says of itself, read and checked without torch."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

KEY = "kimiscope"
"""The entry in the header of the safetensors file."""
FORMAT = 2

PLAIN = (
    "run_id",
    "source",
    "weights_note",
    "weights_hash",
    "prompt_length",
    "token_ids",
    "new_tokens",
    "temperature",
    "seed",
    "mla",
    "dtype",
    "device",
    "kernel_path",
    "seconds",
    "step_seconds",
    "left_out",
    "notices",
)
"""Fields of a trace that JSON holds as they are."""
REBUILT = ("config", "tokens", "cache_by_step", "taps", "order")
"""What else the JSON holds, to be made into objects again."""


def about_run(path: Path, metadata: Mapping[str, str] | None) -> dict[str, Any]:
    """The JSON part of a run from a file's header; ValueError in words for anything else."""
    if not metadata or KEY not in metadata:
        raise ValueError(
            f"{str(path)!r} is a safetensors file, but not a stored run: its header has no "
            f"{KEY!r} entry. Open a file that Trace.save wrote."
        )
    try:
        about = json.loads(metadata[KEY])
        stated = about["format"]
    except (ValueError, LookupError, TypeError) as error:
        raise ValueError(
            f"The {KEY!r} entry in the header of {str(path)!r} is no description of a run; "
            "the file is damaged."
        ) from error
    if stated != FORMAT:
        raise ValueError(
            f"{str(path)!r} is a stored run of format {stated!r}, and this version reads format "
            f"{FORMAT}. Run the prompt again."
        )
    if absent := [name for name in (*PLAIN, *REBUILT) if name not in about]:
        raise ValueError(
            f"{str(path)!r} does not say {', '.join(absent)} of its run; the file is damaged."
        )
    return about


def keys_of(about: Mapping[str, Any], held: set[str], path: Path) -> list[list[str]]:
    """Keys of the tensors of each step; ValueError where the file lacks one."""
    wanted = [[f"{step}/{name}" for name in names] for step, names in enumerate(about["order"])]
    if missing := [key for keys in wanted for key in keys if key not in held]:
        raise ValueError(
            f"{str(path)!r} lacks {len(missing)} of its tensors, as {missing[0]!r}; "
            "the file is damaged."
        )
    return wanted
