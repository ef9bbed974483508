"""Tokenizers of released checkpoints: byte pairs by rank in `tiktoken.model`, cut as Kimi does."""

import base64
import binascii
import json
import re
from collections.abc import Iterator
from pathlib import Path

import tiktoken

from model.config import KimiConfig
from model.tokenizer_core import Tokenizer

RANKS, NAMES = "tiktoken.model", "tokenizer_config.json"
"""Files: the rank of each run of bytes, and what the control tokens behind them are called."""

_CUT_RUN, _CUT_TEXT = 25_000, 400_000
"""Characters after which upstream cuts a run without (or of) blanks, and any text: its ids are
those of the pieces, and the library's search would run out of stack on longer ones."""
_RUN = re.compile(r"\s+|\S+")


def split_pattern() -> str:
    """Where Kimi cuts a text before it pairs bytes: what may stand in one token.

    In the order tried: a run of Chinese characters; a word, with one sign or blank before it and
    an English ending behind it, cut before a capital that follows small letters; up to three
    digits; signs, with a blank before and line ends behind; line ends; blanks, of which the last
    is left to the word that follows.
    """
    ending = "(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
    large = r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}--\p{Han}]"
    small = r"[\p{Ll}\p{Lm}\p{Lo}\p{M}--\p{Han}]"
    before = r"[^\r\n\p{L}\p{N}]?"
    words = (f"{before}{large}*{small}+{ending}", f"{before}{large}+{small}*{ending}")
    signs = r" ?[^\s\p{L}\p{N}]+[\r\n]*"
    blanks = (r"\s*[\r\n]+", r"\s+(?!\S)", r"\s+")
    return "|".join((r"\p{Han}+", *words, r"\p{N}{1,3}", signs, *blanks))


def read_tiktoken(folder: Path, config: KimiConfig) -> Tokenizer:
    """The tokenizer of a folder with `tiktoken.model`; nothing of the folder is executed.

    Ids behind the ranks are control tokens, named by `tokenizer_config.json` or, up to the
    model's vocabulary, by their number.
    """
    ranks = _read_ranks(folder / RANKS)
    control = _read_names(folder / NAMES)
    spelling = {rank: token for token, rank in ranks.items()}
    if among := sorted(control.keys() & spelling.keys()):
        raise ValueError(
            f"{str(folder / NAMES)!r} calls {among[0]} the control token {control[among[0]]!r}, "
            f"and {RANKS} has text there: the two files do not belong together."
        )
    unlisted = set(range(max(spelling) + 1, config.vocab_size)) - control.keys()
    control |= {i: f"<|reserved_token_{i}|>" for i in unlisted}
    spelling |= {i: name.encode() for i, name in control.items()}
    if (bos := config.bos_token_id) is None or bos not in spelling:
        raise ValueError(f"{str(folder / RANKS)!r} has no token with the bos_token_id {bos!r}.")
    splitter = _TiktokenSplitter(ranks, {name: i for i, name in control.items()})
    return Tokenizer(splitter, spelling, control, bos, config.vocab_size)


class _TiktokenSplitter:
    def __init__(self, ranks: dict[bytes, int], control: dict[str, int]) -> None:
        self.core = tiktoken.Encoding(
            "kimi", pat_str=split_pattern(), mergeable_ranks=ranks, special_tokens=control
        )

    def plain(self, text: str) -> list[int]:
        return [i for piece in pieces(text) for i in self.core.encode_ordinary(piece)]

    def with_control(self, text: str) -> list[int]:
        ids: list[int] = []
        for piece in pieces(text):
            ids += self.core.encode(piece, allowed_special="all")
        return ids


def pieces(text: str) -> Iterator[str]:
    """The text in parts that are tokenized apart; all of it but where it is very long."""
    for start in range(0, len(text), _CUT_TEXT):
        part, done = text[start : start + _CUT_TEXT], 0
        for run in _RUN.finditer(part):
            for cut in range(run.start() + _CUT_RUN, run.end(), _CUT_RUN):
                yield part[done:cut]
                done = cut
        yield part[done:]


def _read_ranks(path: Path) -> dict[bytes, int]:
    """Bytes to rank; a line holds the bytes in base64, a blank and the rank."""
    ranks: dict[bytes, int] = {}
    lines = path.read_bytes().splitlines()
    for number, line in enumerate(lines, start=1):
        try:
            token, rank = line.split()
            ranks[base64.b64decode(token, validate=True)] = int(rank)
        except (ValueError, binascii.Error) as error:
            raise ValueError(
                f"Line {number} of {str(path)!r} is {line[:40]!r}, and not bytes in base64, a "
                "blank and a rank. Fetch the file again."
            ) from error
    if len(set(ranks.values())) < len(lines) or min(ranks.values(), default=0) < 0:
        raise ValueError(f"{str(path)!r} gives a rank or its bytes twice, or a negative rank.")
    if lacking := [byte for byte in range(256) if bytes([byte]) not in ranks]:
        raise ValueError(
            f"{str(path)!r} has no token for {len(lacking)} of the 256 bytes, as "
            f"0x{lacking[0]:02X}: it is cut short or of another format. Fetch the file again."
        )
    return ranks


def _read_names(path: Path) -> dict[int, str]:
    """Control tokens by id; none where the file or its table is not there."""
    if not path.is_file():
        return {}
    try:
        table = json.loads(path.read_text(encoding="utf-8")).get("added_tokens_decoder", {})
        names = {int(i): str(token["content"]) for i, token in table.items()}
    except (ValueError, AttributeError, KeyError, TypeError) as error:
        raise ValueError(
            f"{str(path)!r} names its control tokens in no form that can be read: {error}."
        ) from error
    if "" in names.values() or len(set(names.values())) < len(names):
        raise ValueError(f"{str(path)!r} gives two control tokens one name, or one of them none.")
    return names
