"""The corpus: pages of every task in a mixture, a row of tokens each, without end."""

import math
import random
from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate, pairwise
from typing import NamedTuple

import torch
from torch import Tensor

from model.kda_chunk import CHUNK
from model.tokenizer_core import Tokenizer
from model.training.held_out import Split
from model.training.page import Page, Role
from model.training.tasks.arithmetic import (
    adding,
    counting,
    days,
    remainder,
    sequences,
    taking,
)
from model.training.tasks.brackets import brackets
from model.training.tasks.copying import copying, repeating, reversing, spelling
from model.training.tasks.lookups import between, facts, listed
from model.training.tasks.programs import programs
from model.training.tasks.prose import prose
from model.training.tasks.rhymes import chain, refrain
from model.training.tasks.world import handing, world

Task = Callable[[random.Random, Split, int], Page]

TASKS: dict[str, Task] = {
    "repeating": repeating,
    "facts": facts,
    "listed": listed,
    "between": between,
    "world": world,
    "handing": handing,
    "copying": copying,
    "reversing": reversing,
    "spelling": spelling,
    "adding": adding,
    "remainder": remainder,
    "taking": taking,
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

WEIGHT: dict[Role, float] = {"answer": 1.0, "text": 0.2, "noise": 0.05}
"""What a token counts in the loss, by its role: answers can be known, random values cannot."""

NEAR, FAR, FARTHEST = 64, 256, 512
"""Where the distances of look-ups are divided."""


PARTS = 4
"""Batches of a step."""


class Answer(NamedTuple):
    """Tokens `start` to `stop` of a row, which must all be right."""

    row: int
    start: int
    stop: int
    task: str


class Encoded(NamedTuple):
    """A page in tokens."""

    ids: list[int]
    shares: list[float]
    """What each of them counts in the loss."""
    answers: list[tuple[int, int, str]]
    """Start, stop and task of each counted answer."""


@dataclass(slots=True)
class Batch:
    tokens: Tensor
    """`[batch, pos + 1]`: inputs and, one further, what follows them."""
    weights: Tensor
    """`[batch, pos]`: what each following token counts in the loss; nothing beyond a page's end."""
    answers: list[Answer] = field(default_factory=list)

    @property
    def real(self) -> Tensor:
        """`[batch, pos]`: whether a token of the page follows."""
        return self.weights > 0


class Corpus:
    """Pages for one tokenizer. Their tokens depend on seed and arguments alone."""

    def __init__(self, tokenizer: Tokenizer, bos: int, eos: int) -> None:
        self.tokenizer, self.bos, self.eos = tokenizer, bos, eos
        self.lengths = [
            0 if i in tokenizer.special_ids else len(tokenizer.describe(i).text)
            for i in range(len(tokenizer))
        ]

    def batches(
        self,
        seed: str,
        number: int,
        tokens: int,
        pos: int,
        shares: Mapping[str, float],
        split: Split = "train",
    ) -> list[tuple[Batch, ...]]:
        """`number` times about `tokens`, with one page a row, so that none sees another.

        A task gets its share of the tokens; its pages have up to `pos` tokens. Each time there are
        `PARTS` batches, from one of short pages to one of long ones.
        """
        pages = sorted(self.pages(seed, number * tokens, pos, shares, split), key=area)
        cuts = even_cuts([area(page) for page in pages], number * PARTS)
        made = [self.batch(pages[start:stop], pos) for start, stop in pairwise(cuts)]
        lengths = [made[n * number : (n + 1) * number] for n in range(PARTS)]
        for n, part in enumerate(lengths):
            random.Random(f"{seed}/order/{n}").shuffle(part)
        return list(zip(*lengths, strict=True))

    def pages(
        self, seed: str, tokens: int, pos: int, shares: Mapping[str, float], split: Split
    ) -> Iterator[Encoded]:
        total = math.fsum(shares.values())
        for name, share in shares.items():
            rng, left = random.Random(f"{seed}/{name}"), tokens * share / total
            while left > 0:
                page = self.encode(TASKS[name](rng, split, pos))
                left -= min(len(page.ids) - 1, pos)
                yield page

    def batch(self, pages: Sequence[Encoded], pos: int) -> Batch:
        """Pages side by side, each cut after `pos` tokens and what follows, and filled up."""
        width = min(pos, max(len(page.ids) for page in pages) - 1)
        made = Batch(torch.full((len(pages), width + 1), self.eos), torch.zeros(len(pages), width))
        for row, (ids, shares, answers) in enumerate(pages):
            kept = min(len(ids), width + 1)
            made.tokens[row, :kept] = torch.tensor(ids[:kept])
            # the first token of a row is given, not predicted
            made.weights[row, : kept - 1] = torch.tensor(shares[1:kept])
            made.answers += [
                Answer(row, start, stop, task) for start, stop, task in answers if stop <= width + 1
            ]
        return made

    def bytes(self, tokens: Tensor) -> int:
        """Bytes that `tokens` spell; control tokens spell none."""
        return sum(self.lengths[token] for token in tokens.flatten().tolist())

    def encode(self, page: Page) -> Encoded:
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
        return Encoded([self.bos, *ids, self.eos], shares, found)

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


def area(page: Encoded) -> int:
    """Tokens that a page fills, in chunks of the recurrence."""
    return -(-(len(page.ids) - 1) // CHUNK) * CHUNK


def even_cuts(sizes: Sequence[int], parts: int) -> list[int]:
    """Where to cut things of such sizes into `parts` of about one size, none of them empty.

    A cut stands before the thing with which its share would be full.
    """
    if len(sizes) < parts:
        raise ValueError(f"{len(sizes)} pages cannot fill {parts} batches; ask for more tokens.")
    ends, cuts = list(accumulate(sizes)), [0]
    for n in range(1, parts):
        even = bisect_left(ends, ends[-1] * n / parts)
        cuts.append(min(max(even, cuts[-1] + 1), len(sizes) - parts + n))
    return [*cuts, len(sizes)]


def counted_as(task: str, distance: int | None) -> str:
    """The task's name with the range of its distance, where a distance is what makes it hard."""
    if distance is None or task != "look-up":
        return task
    if distance <= NEAR:
        return "look-up 1-64"
    if distance <= FAR:
        return "look-up 65-256"
    return "look-up 257-512" if distance <= FARTHEST else "look-up 513-"
