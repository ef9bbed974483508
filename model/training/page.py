"""One document of the corpus: its text in pieces, and which of them are answers to what."""

from typing import Literal, NamedTuple

Role = Literal["text", "noise", "answer"]


class Piece(NamedTuple):
    text: str
    role: Role
    task: str = ""
    """What an answer is counted under; empty where it is not counted."""
    since: int | None = None
    """Index of the piece that the answer must be read from."""


class Page:
    """Pieces in reading order. Each begins where a token begins: at a space, mark or line."""

    def __init__(self) -> None:
        self.pieces: list[Piece] = []

    def text(self, text: str) -> int:
        """What can be guessed in part, as words of a sentence can."""
        return self._add(Piece(text, "text"))

    def noise(self, text: str) -> int:
        """What cannot be guessed: random values."""
        return self._add(Piece(text, "noise"))

    def answer(self, text: str, task: str = "", since: int | None = None) -> int:
        """What follows from the text before it."""
        return self._add(Piece(text, "answer", task, since))

    def _add(self, piece: Piece) -> int:
        self.pieces.append(piece)
        return len(self.pieces) - 1

    def append(self, other: "Page", gap: str = "\n") -> None:
        """The other page, after `gap`."""
        self.text(gap)
        shift = len(self.pieces)
        for piece in other.pieces:
            since = None if piece.since is None else piece.since + shift
            self.pieces.append(piece._replace(since=since))

    def whole(self) -> str:
        return "".join(piece.text for piece in self.pieces)
