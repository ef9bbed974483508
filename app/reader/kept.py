"""Files that are made once on a machine and read afterwards: payloads and the font."""

import os
from collections.abc import Callable
from pathlib import Path


def folder() -> Path:
    """The application's cache, beside the pinned files of `annotations.pins`."""
    stated = os.environ.get("KIMISCOPE_CACHE")
    base = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return Path(stated) if stated else Path(base) / "kimiscope"


def made_once(group: str, name: str, make: Callable[[], bytes]) -> bytes:
    """The bytes of `name`, from the cache or made now; older names of the group are removed."""
    place = folder() / group
    path = place / name
    if path.is_file():
        return path.read_bytes()
    made = make()
    try:
        place.mkdir(parents=True, exist_ok=True)
        # another process may be making the same file
        part = place / f".{name}.{os.getpid()}"
        part.write_bytes(made)
        part.replace(path)
    except OSError:
        # a home that cannot be written costs time at the next start and nothing else
        return made
    for old in place.iterdir():
        if old != path and not old.name.startswith("."):
            old.unlink(missing_ok=True)
    return made
