"""The corpus: pages of every task in a mixture, packed into rows of tokens, without end."""

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import NamedTuple

import torch
from torch import Tensor

from model.tokenizer_core import Tokenizer
from model.training.held_out import Split
from model.training.page import Page, Role
from model.training.tasks.arithmetic import adding, counting, days, remainder, sequences
from model.training.tasks.brackets import brackets
from model.training.tasks.copying import copying, repeating, reversing, spelling
from model.training.tasks.lookups import between, facts, listed
from model.training.tasks.programs import programs
from model.training.tasks.prose import prose
from model.training.tasks.rhymes import chain, refrain
from model.training.tasks.world import world

Task = Callable[[random.Random, Split, int], Page]

TASKS: dict[str, Task] = {
    "repeating": repeating,
    "facts": facts,
    "listed": listed,
    "between": between,
    "world": world,
    "copying": copying,
    "reversing": reversing,
    "spelling": spelling,
    "adding": adding,
    "remainder": remainder,
    "counting": counting,
    "days": days,
    "sequences": sequences,
    "programs": programs,
    "brackets": brackets,
    "chain": chain,
    "refrain": refrain,
    "prose": prose,
}
"""Each gives a page of about so many tokens at most, from a source of chance and a split."""

LOOK_UPS = ("facts", "facts", "listed", "between")

WEIGHT: dict[Role, float] = {"answer": 1.0, "text": 0.4, "noise": 0.1}
"""What a token counts in the loss, by its role: answers can be known, random values cannot."""

NEAR, FAR, FARTHEST = 64, 256, 512
"""Where the distances of look-ups are divided."""


class Answer(NamedTuple):
    """Tokens `start` to `stop` of a row, which must all be right."""

    row: int
    start: int
    stop: int
    task: str


@dataclass(slots=True)
class Batch:
    tokens: Tensor
    """`[batch, pos + 1]`: inputs and, one further, what follows them."""
    weights: Tensor
    """`[batch, pos]`: what each following token counts in the loss."""
    answers: list[Answer] = field(default_factory=list)


class Corpus:
    """Rows for one tokenizer. A row's tokens depend on seed, index and arguments alone."""

    def __init__(self, tokenizer: Tokenizer, bos: int, eos: int) -> None:
        self.tokenizer, self.bos, self.eos = tokenizer, bos, eos
        self.lengths = [
            0 if i in tokenizer.special_ids else len(tokenizer.describe(i).text)
            for i in range(len(tokenizer))
        ]

    def batch(
        self,
        seed: str,
        rows: int,
        pos: int,
        mixture: Mapping[str, float],
        look_ups: float = 0.0,
        split: Split = "train",
    ) -> Batch:
        """Packed pages, the last page of a row cut where the row ends.

        A share `look_ups` of the rows begins with a page of them, which has the whole row to fill.
        """
        tokens = torch.full((rows, pos + 1), self.eos)
        weights = torch.zeros(rows, pos)
        answers: list[Answer] = []
        for row in range(rows):
            rng = random.Random(f"{seed}/{row}")
            at = 0
            while at <= pos:
                if at == 0 and rng.random() < look_ups:
                    name = rng.choice(LOOK_UPS)
                else:
                    name = rng.choices(list(mixture), list(mixture.values()))[0]
                page = TASKS[name](rng, split, pos - at)
                ids, shares, found = self.encode(page)
                kept = min(len(ids), pos + 1 - at)
                tokens[row, at : at + kept] = torch.tensor(ids[:kept])
                # the first token of a row is given, not predicted
                first = max(at, 1)
                weights[row, first - 1 : at + kept - 1] = torch.tensor(shares[first - at : kept])
                answers += [
                    Answer(row, at + start, at + stop, task)
                    for start, stop, task in found
                    if at + stop <= pos + 1
                ]
                at += len(ids)
        return Batch(tokens, weights, answers)

    def bytes(self, tokens: Tensor) -> int:
        """Bytes that `tokens` spell; control tokens spell none."""
        return sum(self.lengths[token] for token in tokens.flatten().tolist())

    def encode(self, page: Page) -> tuple[list[int], list[float], list[tuple[int, int, str]]]:
        """Ids between start and end token, the weight of each, and where counted answers lie."""
        ids = self.tokenizer.encode(page.whole())
        starts = self.token_of_piece(page, ids)
        shares, found = [WEIGHT["text"]], []
        for piece, (start, stop) in zip(page.pieces, pairwise(starts), strict=True):
            shares += [WEIGHT[piece.role]] * (stop - start)
            if piece.task:
                since = None if piece.since is None else stop - starts[piece.since + 1]
                found.append((1 + start, 1 + stop, counted_as(piece.task, since)))
        shares.append(WEIGHT["text"])
        return [self.bos, *ids, self.eos], shares, found

    def token_of_piece(self, page: Page, ids: Sequence[int]) -> list[int]:
        """Index of the first token of each piece, and the number of tokens at the end."""
        ends, total = {0: 0}, 0
        for n, token in enumerate(ids, start=1):
            total += self.lengths[token]
            ends[total] = n
        starts, place = [0], 0
        for piece in page.pieces:
            place += len(piece.text)
            if place not in ends:
                raise ValueError(f"{piece.text!r} does not end where a token ends.")
            starts.append(ends[place])
        return starts


def counted_as(task: str, distance: int | None) -> str:
    """The task's name with the range of its distance, where a distance is what makes it hard."""
    if distance is None or task != "look-up":
        return task
    if distance <= NEAR:
        return "look-up 1-64"
    if distance <= FAR:
        return "look-up 65-256"
    return "look-up 257-512" if distance <= FARTHEST else "look-up 513-"
