"""The weights that come with the program, and what a reader must know where there are none."""

import hashlib
from pathlib import Path

FOLDER = Path(__file__).parent / "weights"
RANDOM = "seeded random weights"
SUMS = "SHA256SUMS"
"""A line a file: its hash, two blanks, its name; what `sha256sum --check` reads."""


def folder_of(name: str) -> Path | None:
    """The folder of a preset's weights and tokenizer, if one is shipped."""
    folder = FOLDER / name
    return folder if folder.is_dir() else None


def has_weights(name: str) -> bool:
    folder = folder_of(name)
    return folder is not None and any(folder.glob("*.safetensors"))


def weights_note(name: str) -> str:
    """What `load(name)` will say of the weights; empty where they are trained ones."""
    return "" if has_weights(name) else RANDOM


def refuse_altered(folder: Path) -> None:
    """Raise where a shipped file is not the one that was measured, before any of it is used."""
    if not (folder / SUMS).is_file():
        raise ValueError(f"{str(folder)!r} has no {SUMS}; its files cannot be told from others.")
    faults = []
    for line in (folder / SUMS).read_text(encoding="utf-8").splitlines():
        wanted, name = line.split(maxsplit=1)
        path = folder / name
        if not path.is_file():
            faults.append(f"{name} is missing")
        elif (found := sha256(path)) != wanted:
            faults.append(f"{name} has the hash {found[:12]}…, not {wanted[:12]}…")
    if faults:
        raise ValueError(
            f"The shipped files of {folder.name!r} were changed: {'; '.join(faults)}. "
            "Restore them, or load a folder of your own by its path."
        )


def sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()
