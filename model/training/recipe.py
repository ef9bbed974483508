"""How a model is trained: what it reads, in rows of which length, and how fast it learns."""

import math
from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Stage:
    """A stretch of the training in which pages are of one length at most."""

    tokens: int
    batch: int
    """Tokens of a step, about."""
    pos: int
    pages: Mapping[str, float]
    """Share of each task in the tokens, against the others."""

    @property
    def steps(self) -> int:
        return -(-self.tokens // self.batch)


@dataclass(frozen=True, slots=True, kw_only=True)
class Recipe:
    stages: tuple[Stage, ...]
    peak: float = 1.5e-3
    """Learning rate after the warm-up."""
    last: float = 0.02
    """Share of the peak that is left at the end of the cosine."""
    cosine: int | None = None
    """Tokens at which the cosine would end; by default the recipe ends there too."""
    descent: int = 0
    """Tokens at the end over which the rate goes down to nothing besides, in a line."""
    warm_up: int = 100
    betas: tuple[float, float] = (0.9, 0.98)
    weight_decay: float = 0.1
    """Of matrices; vectors keep their size."""
    clip: float = 1.0
    balance: float = 0.1
    """Share of the way that a router's bias moves to the balanced one in a step."""

    @property
    def steps(self) -> int:
        return sum(stage.steps for stage in self.stages)

    @property
    def tokens(self) -> int:
        return sum(stage.steps * stage.batch for stage in self.stages)

    def stage_at(self, step: int) -> tuple[Stage, int]:
        """The stage that a step belongs to, and the steps that the stage has taken before it."""
        left = step
        for stage in self.stages:
            if left < stage.steps:
                return stage, left
            left -= stage.steps
        raise ValueError(f"The recipe has {self.steps} steps, and step {step} is beyond them.")

    def tokens_before(self, step: int) -> int:
        seen = 0
        for stage in self.stages:
            steps = min(step, stage.steps)
            seen += steps * stage.batch
            step -= steps
        return seen

    def rate(self, step: int) -> float:
        """Learning rate of a step: up in a line, then down in a cosine over tokens, then out."""
        if step < self.warm_up:
            return self.peak * (step + 1) / self.warm_up
        begun = self.tokens_before(self.warm_up)
        end = self.tokens if self.cosine is None else self.cosine
        seen = self.tokens_before(step)
        through = (seen - begun) / max(1, end - begun)
        down = (1 + math.cos(math.pi * through)) / 2
        rate = self.peak * (self.last + (1 - self.last) * down)
        return rate * min(1.0, (self.tokens - seen) / self.descent) if self.descent else rate


SMALL_TASKS = {
    "copying": 3,
    "reversing": 3,
    "spelling": 1,
    "adding": 3,
    "remainder": 4,
    "counting": 8,
    "days": 3,
    "sequences": 2,
    "programs": 6,
    "brackets": 8,
    "chain": 1,
    "refrain": 1,
}

K3_MINI = Recipe(
    stages=(
        Stage(
            tokens=1_000_000,
            batch=1536,
            pos=128,
            pages={name: share * 0.4 for name, share in SMALL_TASKS.items()}
            | {"copying": 5, "repeating": 20, "listed": 12, "facts": 18, "world": 16, "handing": 12}
            | {"prose": 5},
        ),
        Stage(
            tokens=1_936_000,
            batch=1536,
            pos=256,
            pages=SMALL_TASKS
            | {"repeating": 3, "listed": 8, "facts": 17, "between": 5, "world": 18, "handing": 16}
            | {"prose": 6},
        ),
        Stage(
            tokens=6_900_000,
            batch=2048,
            pos=640,
            pages=SMALL_TASKS
            | {"taking": 4, "counting": 13, "brackets": 11, "listed": 5, "facts": 13, "between": 10}
            | {"world": 15, "handing": 34, "prose": 6},
        ),
        Stage(
            tokens=1_300_000,
            batch=2048,
            pos=640,
            pages=SMALL_TASKS
            | {"taking": 2, "counting": 16, "brackets": 14, "listed": 5, "facts": 13, "between": 9}
            | {"world": 12, "handing": 11, "prose": 26},
        ),
    ),
    cosine=13_004_288,
    descent=2_400_000,
)
"""Short pages teach looking back, long ones how far and among how many; then what was left."""
