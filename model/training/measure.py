"""What a model gets right: answers counted whole, by task, on held-out pages or others."""

import math
from dataclasses import dataclass, field

import torch
import torch.nn.functional as F
from torch import Tensor

from model.kimi import KimiLM
from model.training.corpus import Batch, Corpus
from model.training.recipe import K3_MINI

TOKENS = 2560
"""Of a batch."""


@dataclass
class Tally:
    """Answers right and asked, and their loss, by task."""

    right: dict[str, int] = field(default_factory=dict)
    asked: dict[str, int] = field(default_factory=dict)
    loss: dict[str, float] = field(default_factory=dict)
    """Nats, summed over answers of each one's mean over its tokens."""
    tokens: int = 0
    bits: float = 0.0
    """Of all tokens read."""
    bytes: int = 0

    def add(self, batch: Batch, logits: Tensor) -> None:
        """An answer is right where each of its tokens is the most likely one.

        That is what writing it greedily would give, since the first wrong token decides.
        """
        target = batch.tokens[:, 1:]
        right = (logits.argmax(-1) == target).tolist()
        each = F.cross_entropy(logits.flatten(0, 1), target.flatten(), reduction="none")
        loss = each.view(target.shape).tolist()
        for row, start, stop, task in batch.answers:
            span = slice(start - 1, stop - 1)
            self.asked[task] = self.asked.get(task, 0) + 1
            self.right[task] = self.right.get(task, 0) + all(right[row][span])
            mean = math.fsum(loss[row][span]) / (stop - start)
            self.loss[task] = self.loss.get(task, 0.0) + mean
        self.tokens += int(batch.real.sum())
        self.bits += float((each * batch.real.flatten()).sum()) / math.log(2)

    def merge(self, other: "Tally") -> None:
        for task in other.asked:
            self.asked[task] = self.asked.get(task, 0) + other.asked[task]
            self.right[task] = self.right.get(task, 0) + other.right[task]
            self.loss[task] = self.loss.get(task, 0.0) + other.loss[task]
        self.tokens += other.tokens
        self.bits += other.bits
        self.bytes += other.bytes

    def by_task(self) -> dict[str, dict[str, float | int]]:
        return {
            task: {
                "accuracy": round(self.right[task] / asked, 4),
                "asked": asked,
                "loss": round(self.loss[task] / asked, 4),
            }
            for task, asked in sorted(self.asked.items())
        }


def evaluate(lm: KimiLM, corpus: Corpus, seed: str, batches: int) -> Tally:
    """Held-out pages, in the mixture of the recipe's last stage."""
    tally, last = Tally(), K3_MINI.stages[-1]
    with torch.no_grad():
        for parts in corpus.batches(
            f"held-out/{seed}", batches, TOKENS, last.pos, last.pages, "held-out"
        ):
            for batch in parts:
                tally.add(batch, lm(batch.tokens[:, :-1]))
    return tally
