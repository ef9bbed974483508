"""Tokenizers of the library `tokenizers`: a checkpoint's `tokenizer.json`, and our own of bytes."""

import json
import re
from collections.abc import Callable, Collection
from functools import cached_property
from pathlib import Path
from typing import Any

import tokenizers
from tokenizers import decoders, models

from model.config import KimiConfig
from model.tokenizer_core import Tokenizer

SPECIALS = (
    "<bos>",
    "<eos>",
    "<pad>",
    "<|open|>",
    "<|sep|>",
    "<|close|>",
    "<|end_of_msg|>",
)
"""Control tokens of the byte tokenizer; their ids follow the 256 bytes in this order."""

_BYTE_TOKEN = re.compile(r"<0x([0-9A-F]{2})>")
_SPACE_MARK = "▁"
"""What stands for a space in vocabularies that fall back to bytes."""


class JsonTokenizer(Tokenizer):
    """A tokenizer that can be saved again."""

    def __init__(
        self,
        layout: dict[str, Any],
        bos: str,
        also: Collection[str] = (),
        vocab_size: int | None = None,
    ) -> None:
        """From the layout of a `tokenizer.json`; `also` names control tokens it does not add."""
        added = {token["content"] for token in layout["added_tokens"]}
        # an added token is matched in any text; blanks alone may be, since they are nothing else
        control = {name for name in added if name.strip()} | set(also)
        splitter = _JsonSplitter(layout, control)
        vocabulary = splitter.core.get_vocab(with_added_tokens=True)
        if missing := sorted(name for name in (*control, bos) if name not in vocabulary):
            raise ValueError(f"The tokenizer has no token {', '.join(map(repr, missing))}.")
        spell, as_it_stands = _speller(layout), added | control
        spelling = {
            i: name.encode() if name in as_it_stands else spell(name)
            for name, i in vocabulary.items()
        }
        special_ids = {vocabulary[name] for name in control}
        super().__init__(splitter, spelling, special_ids, vocabulary[bos], vocab_size)
        self._core = splitter.core
        self.whole_words = self._whole_words(layout)

    def _whole_words(self, layout: dict[str, Any]) -> tuple[str, ...] | None:
        model, pieces = layout["model"], layout["pre_tokenizer"] or {}
        if model["merges"] or layout["normalizer"] or layout["added_tokens"]:
            return None
        if not pieces and model.get("byte_fallback"):
            return ()
        if pieces.get("type") != "ByteLevel" or not model.get("ignore_merges"):
            return None
        if pieces["add_prefix_space"] or not pieces["use_regex"]:
            return None
        named = {i: name.decode() for i, name in self._bytes.items() if len(name) > 1}
        return tuple(name for i, name in named.items() if i not in self.special_ids)

    def save(self, path: Path) -> None:
        self._core.save(str(path))


class _JsonSplitter:
    def __init__(self, layout: dict[str, Any], control: Collection[str]) -> None:
        self.layout = json.dumps(_flagged(layout, control))
        self.control = sorted(control)
        self.core = tokenizers.Tokenizer.from_str(self.layout)
        # typed control tokens are then split like any other text
        self.core.encode_special_tokens = True

    @cached_property
    def core_with_control(self) -> tokenizers.Tokenizer:
        """Apart, since the library keeps the setting in the tokenizer that all readers share."""
        core = tokenizers.Tokenizer.from_str(self.layout)
        core.add_special_tokens(self.control)
        return core

    def plain(self, text: str) -> list[int]:
        return self.core.encode(text, add_special_tokens=False).ids

    def with_control(self, text: str) -> list[int]:
        return self.core_with_control.encode(text, add_special_tokens=False).ids


def byte_tokenizer() -> JsonTokenizer:
    """One token a byte, and the control tokens."""
    names = [f"<0x{byte:02X}>" for byte in range(256)]
    vocabulary = {name: index for index, name in enumerate((*names, *SPECIALS))}
    # without merges a token of the vocabulary is reached by its bytes only
    core = tokenizers.Tokenizer(models.BPE(vocab=vocabulary, merges=[], byte_fallback=True))
    core.decoder = decoders.ByteFallback()
    return JsonTokenizer(json.loads(core.to_str()), bos="<bos>", also=SPECIALS)


def read_tokenizer(path: Path, config: KimiConfig) -> JsonTokenizer:
    """The tokenizer of a `tokenizer.json`.

    Its control tokens are the added ones, those that the config names, and ours.
    """
    try:
        core = tokenizers.Tokenizer.from_str(path.read_text(encoding="utf-8"))
        layout = json.loads(core.to_str())
    # the library raises nothing more particular
    except Exception as error:
        raise ValueError(f"{str(path)!r} is no tokenizer that can be read: {error}.") from error
    # a file may say that long texts are cut or short ones filled up, which loses what was typed
    layout |= {"truncation": None, "padding": None}
    ids = (config.bos_token_id, config.eos_token_id, config.pad_token_id)
    named = {name for i in ids if i is not None and (name := core.id_to_token(i)) is not None}
    ours = {name for name in SPECIALS if core.token_to_id(name) is not None}
    bos = None if config.bos_token_id is None else core.id_to_token(config.bos_token_id)
    if bos is None:
        raise ValueError(
            f"{str(path)!r} has no token with the config's bos_token_id {config.bos_token_id!r}."
        )
    return JsonTokenizer(layout, bos, named | ours, vocab_size=config.vocab_size)


def _flagged(layout: dict[str, Any], control: Collection[str]) -> dict[str, Any]:
    """The layout with every control token among its added ones marked as such."""
    added = [
        token | {"special": token["special"] or token["content"] in control}
        for token in layout["added_tokens"]
    ]
    return layout | {"added_tokens": added}


def _speller(layout: dict[str, Any]) -> Callable[[str], bytes]:
    """The function from a token's spelling in the file to its bytes."""
    decoder = json.dumps(layout.get("decoder"), ensure_ascii=False)
    if layout["model"].get("byte_fallback"):
        return lambda token: _spell_fallback(token, marked=_SPACE_MARK in decoder)
    if '"ByteLevel"' in decoder:
        alphabet = _byte_alphabet()
        return lambda token: bytes(alphabet[c] for c in token if c in alphabet)
    raise ValueError("The tokenizer is neither byte-level nor byte-fallback; it cannot hold bytes.")


def _spell_fallback(token: str, marked: bool) -> bytes:
    if found := _BYTE_TOKEN.fullmatch(token):
        return bytes([int(found[1], 16)])
    return (token.replace(_SPACE_MARK, " ") if marked else token).encode()


def _byte_alphabet() -> dict[str, int]:
    """The byte behind each letter of a byte-level vocabulary: itself where it prints."""
    shown = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    hidden = [byte for byte in range(256) if byte not in shown]
    return {chr(b): b for b in shown} | {chr(256 + n): b for n, b in enumerate(hidden)}
