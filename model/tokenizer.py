"""Text to token ids and back: the tokenizer that a model reads with."""

from pathlib import Path

from model.config import KimiConfig
from model.tokenizer_core import Token, Tokenizer, unnamed
from model.tokenizer_json import SPECIALS, byte_tokenizer, read_tokenizer

__all__ = [
    "FILES",
    "SPECIALS",
    "Token",
    "Tokenizer",
    "byte_tokenizer",
    "read_tokenizer",
    "tokenizer_for",
    "unnamed",
]

FILES = ("tokenizer.json", "tiktoken.model", "tokenizer_config.json")
"""What is read of a checkpoint, where it is there. Its Python files never are."""


def tokenizer_for(config: KimiConfig, folder: Path | None = None) -> Tokenizer | None:
    """The tokenizer beside a checkpoint; else the byte tokenizer, where it can be the right one.

    Random weights may read bytes wherever the ids fit. A checkpoint without a tokenizer must name
    its start token as the byte tokenizer does. None means: give lists of ids.
    """
    if folder is not None and (path := folder / FILES[0]).is_file():
        return read_tokenizer(path, config)
    if folder is not None and (folder / FILES[1]).is_file():
        # only released checkpoints need the library
        from model.tokenizer_tiktoken import read_tiktoken

        return read_tiktoken(folder, config)
    tokenizer = byte_tokenizer()
    if folder is not None and config.bos_token_id != tokenizer.bos_id:
        return None
    return tokenizer if len(tokenizer) <= config.vocab_size else None
