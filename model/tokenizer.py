"""Text to token ids and back. What a reader types is text, never a control token."""

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import tokenizers
from tokenizers import decoders, models

from model.config import KimiConfig

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
_GLYPHS = {" ": "␣", "\n": "⏎", "\t": "⇥"}


@dataclass(frozen=True, slots=True)
class Token:
    """One token as the pages show it."""

    id: int
    text: str
    """What the token spells; empty where its bytes are not whole characters."""
    display: str
    """Never empty, never invisible: `␣`, `⏎`, `⇥`; `⟨0x0F⟩` for a byte that is no character by
    itself or has no picture."""
    special: bool


class Tokenizer:
    """A `tokenizers` model that covers every byte, behind calls that lose nothing."""

    def __init__(self, core: tokenizers.Tokenizer, specials: Sequence[str], bos: str) -> None:
        # typed control tokens are then split like any other text
        core.encode_special_tokens = True
        self._core = core
        vocabulary = core.get_vocab(with_added_tokens=True)
        if missing := [name for name in (*specials, bos) if name not in vocabulary]:
            raise ValueError(f"The tokenizer has no token {', '.join(map(repr, missing))}.")
        self.special_ids = frozenset(vocabulary[name] for name in specials)
        self.bos_id = vocabulary[bos]
        spell = _speller(json.loads(core.to_str()))
        self._bytes = {
            index: token.encode() if index in self.special_ids else spell(token)
            for token, index in vocabulary.items()
        }

    def __len__(self) -> int:
        return max(self._bytes) + 1

    def encode(self, text: str) -> list[int]:
        """Ids of `text`, without any control token."""
        for place, character in enumerate(text):
            if 0xD800 <= ord(character) <= 0xDFFF:
                raise ValueError(
                    f"Character {place} is U+{ord(character):04X}, half of a surrogate pair, "
                    "which no text encoding can hold. Remove it or type the whole character."
                )
        return self._core.encode(text, add_special_tokens=False).ids

    def decode(self, ids: Sequence[int]) -> str:
        """The text of `ids`; control tokens are spelled out, broken characters read `�`."""
        return b"".join(self._bytes.get(i, b"") for i in ids).decode(errors="replace")

    def describe(self, token_id: int) -> Token:
        """How to show one id. An id beyond the vocabulary is shown as its number."""
        if token_id not in self._bytes:
            return unnamed(token_id)
        raw = self._bytes[token_id]
        if token_id in self.special_ids:
            return Token(token_id, raw.decode(), raw.decode(), special=True)
        try:
            text = raw.decode()
        except UnicodeDecodeError:
            shown = "".join(f"⟨0x{byte:02X}⟩" for byte in raw)
            return Token(token_id, "", shown, special=False)
        return Token(token_id, text, "".join(map(_glyph, text)) or "⟨⟩", special=False)

    def save(self, path: Path) -> None:
        self._core.save(str(path))


def unnamed(token_id: int) -> Token:
    """An id that no tokenizer names."""
    return Token(token_id, "", f"⟨#{token_id}⟩", special=False)


def byte_tokenizer() -> Tokenizer:
    """One token a byte, and the control tokens."""
    names = [f"<0x{byte:02X}>" for byte in range(256)]
    vocabulary = {name: index for index, name in enumerate((*names, *SPECIALS))}
    # without merges a token of the vocabulary is reached by its bytes only
    core = tokenizers.Tokenizer(models.BPE(vocab=vocabulary, merges=[], byte_fallback=True))
    core.decoder = decoders.ByteFallback()
    return Tokenizer(core, SPECIALS, bos="<bos>")


def read_tokenizer(path: Path, config: KimiConfig) -> Tokenizer:
    """The tokenizer of a `tokenizer.json`; its specials are the flagged ones and the config's."""
    try:
        core = tokenizers.Tokenizer.from_file(str(path))
    # the library raises nothing more particular
    except Exception as error:
        raise ValueError(f"{str(path)!r} is no tokenizer that can be read: {error}.") from error
    flagged = {t.content for t in core.get_added_tokens_decoder().values() if t.special}
    named = (config.bos_token_id, config.eos_token_id, config.pad_token_id)
    flagged |= {name for i in named if i is not None and (name := core.id_to_token(i))}
    flagged |= {name for name in SPECIALS if core.token_to_id(name) is not None}
    bos = None if config.bos_token_id is None else core.id_to_token(config.bos_token_id)
    if bos is None:
        raise ValueError(
            f"{path} has no token with the config's bos_token_id {config.bos_token_id!r}."
        )
    return Tokenizer(core, sorted(flagged), bos)


def tokenizer_for(config: KimiConfig, folder: Path | None = None) -> Tokenizer | None:
    """The tokenizer beside a checkpoint; else the byte tokenizer, where it can be the right one.

    Random weights may read bytes wherever the ids fit. A checkpoint without a `tokenizer.json`
    must name its start token as the byte tokenizer does. None means: give lists of ids.
    """
    if folder is not None and (path := folder / "tokenizer.json").is_file():
        return read_tokenizer(path, config)
    tokenizer = byte_tokenizer()
    if folder is not None and config.bos_token_id != tokenizer.bos_id:
        return None
    return tokenizer if len(tokenizer) <= config.vocab_size else None


def _glyph(character: str) -> str:
    if character in _GLYPHS:
        return _GLYPHS[character]
    if character.isprintable():
        return character
    # fonts have no picture of a control character, only an empty box
    return f"⟨0x{ord(character):02X}⟩" if character.isascii() else f"⟨U+{ord(character):04X}⟩"


def _speller(layout: dict):
    """The function from a token's spelling in the file to its bytes."""
    if layout["model"].get("byte_fallback"):
        return _spell_fallback
    if '"ByteLevel"' in json.dumps(layout.get("decoder")):
        alphabet = _byte_alphabet()
        return lambda token: bytes(alphabet[c] for c in token if c in alphabet)
    raise ValueError("The tokenizer is neither byte-level nor byte-fallback; it cannot hold bytes.")


def _spell_fallback(token: str) -> bytes:
    if found := _BYTE_TOKEN.fullmatch(token):
        return bytes([int(found[1], 16)])
    return token.encode()


def _byte_alphabet() -> dict[str, int]:
    """The byte behind each letter of a byte-level vocabulary: itself where it prints."""
    shown = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    hidden = [byte for byte in range(256) if byte not in shown]
    return {chr(b): b for b in shown} | {chr(256 + n): b for n, b in enumerate(hidden)}


if __name__ == "__main__":
    byte_tokenizer().save(Path(__file__).parent / "weights" / "k3-mini" / "tokenizer.json")
