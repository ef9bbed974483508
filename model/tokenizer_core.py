"""What every tokenizer here can do, whichever library splits the text, and how a token is shown."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

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


class Splitter(Protocol):
    """A library's half of the work: text without surrogates to ids."""

    def plain(self, text: str) -> list[int]:
        """Ids of `text`, in which control tokens are text like any other."""
        ...

    def with_control(self, text: str) -> list[int]:
        """Ids of `text`, in which the spelling of a control token is that token."""
        ...


class Tokenizer:
    """Text to ids and back, and nothing lost on the way. What is typed is never a control token."""

    whole_words: tuple[str, ...] | None = None
    """Words that are a token each, if every other byte is one too; `None` where texts are merged.

    Words are what GPT-2's rule splits a text into: letters, digits or signs, with a blank before.
    """

    def __init__(
        self,
        splitter: Splitter,
        spelling: Mapping[int, bytes],
        special_ids: Collection[int],
        bos_id: int,
        vocab_size: int | None = None,
    ) -> None:
        self._splitter = splitter
        self._bytes = spelling
        self.special_ids = frozenset(special_ids)
        self.bos_id = bos_id
        self.vocab_size = vocab_size
        """Ids that the model has; `None` where no model is at hand."""
        self._of_byte = {
            raw[0]: i for i, raw in spelling.items() if len(raw) == 1 and i not in self.special_ids
        }

    def __len__(self) -> int:
        return max(self._bytes) + 1

    def encode(self, text: str, *, control: bool = False) -> list[int]:
        """Ids of `text`. With `control`, the spelling of a control token in it is that token."""
        refuse_half_characters(text)
        if control:
            return self._known(self._splitter.with_control(text))
        ids = self._splitter.plain(text)
        if not self.special_ids.isdisjoint(ids):
            ids = [part for i in ids for part in self._as_text(i)]
        if len(self._of_byte) < 256 and self.decode(ids) != text:
            raise ValueError(
                "The tokenizer has no token for some bytes of this text, and would drop them."
            )
        return self._known(ids)

    def _as_text(self, token_id: int) -> list[int]:
        """A control token whose spelling was typed, as the bytes that were typed."""
        if token_id not in self.special_ids:
            return [token_id]
        raw = self._bytes[token_id]
        if lacking := [byte for byte in raw if byte not in self._of_byte]:
            raise ValueError(
                f"The text spells the control token {raw.decode()!r}, and the tokenizer has no "
                f"token for its byte 0x{lacking[0]:02X} alone. Leave it out, or ask for control "
                "tokens."
            )
        return [self._of_byte[byte] for byte in raw]

    def _known(self, ids: list[int]) -> list[int]:
        if self.vocab_size is not None and ids and (most := max(ids)) >= self.vocab_size:
            raise ValueError(
                f"{self.describe(most).display!r} is token {most}, and the model's tokens are 0 to "
                f"{self.vocab_size - 1}: the tokenizer's vocabulary is larger than the model's."
            )
        return ids

    @property
    def vocabulary_note(self) -> str:
        """What a reader must know where the model lacks tokens of text that are here."""
        if self.vocab_size is None:
            return ""
        beyond = sum(i >= self.vocab_size and i not in self.special_ids for i in self._bytes)
        if not beyond:
            return ""
        return f"{beyond:,} tokens of its tokenizer are beyond the model's {self.vocab_size:,}"

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


def unnamed(token_id: int) -> Token:
    """An id that no tokenizer names."""
    return Token(token_id, "", f"⟨#{token_id}⟩", special=False)


def refuse_half_characters(text: str) -> None:
    for place, character in enumerate(text):
        if 0xD800 <= ord(character) <= 0xDFFF:
            raise ValueError(
                f"Character {place} is U+{ord(character):04X}, half of a surrogate pair, "
                "which no text encoding can hold. Remove it or type the whole character."
            )


def _glyph(character: str) -> str:
    if character in _GLYPHS:
        return _GLYPHS[character]
    if character.isprintable():
        return character
    # fonts have no picture of a control character, only an empty box
    return f"⟨0x{ord(character):02X}⟩" if character.isascii() else f"⟨U+{ord(character):04X}⟩"
