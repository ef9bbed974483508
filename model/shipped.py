"""The weights that come with the program, and what a reader must know where there are none."""

from pathlib import Path

FOLDER = Path(__file__).parent / "weights"
RANDOM = "seeded random weights"


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
