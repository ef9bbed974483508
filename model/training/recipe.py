"""How a model is trained: what it reads, in rows of which length, and how fast it learns."""

import math
from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Stage:
    """A stretch of the training in which rows are of one length."""

    tokens: int
    rows: int
    pos: int
    look_ups: float
    """Share of rows that begin with a look-up as long as it likes."""
    pages: Mapping[str, float]
    """How often a page of each task is drawn, against the others."""

    @property
    def steps(self) -> int:
        return -(-self.tokens // (self.rows * self.pos))


@dataclass(frozen=True, slots=True, kw_only=True)
class Recipe:
    stages: tuple[Stage, ...]
    peak: float = 2.5e-3
    """Learning rate after the warm-up."""
    last: float = 0.02
    """Share of the peak that is left at the end."""
    warm_up: int = 100
    betas: tuple[float, float] = (0.9, 0.95)
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
        return sum(stage.steps * stage.rows * stage.pos for stage in self.stages)

    def stage_at(self, step: int) -> Stage:
        for stage in self.stages:
            if step < stage.steps:
                return stage
            step -= stage.steps
        raise ValueError(f"The recipe has {self.steps} steps, and step {step} is beyond them.")

    def tokens_before(self, step: int) -> int:
        seen = 0
        for stage in self.stages:
            steps = min(step, stage.steps)
            seen += steps * stage.rows * stage.pos
            step -= steps
        return seen

    def rate(self, step: int) -> float:
        """Learning rate of a step: up in a line, then down in a cosine over tokens."""
        if step < self.warm_up:
            return self.peak * (step + 1) / self.warm_up
        begun = self.tokens_before(self.warm_up)
        through = (self.tokens_before(step) - begun) / max(1, self.tokens - begun)
        down = (1 + math.cos(math.pi * through)) / 2
        return self.peak * (self.last + (1 - self.last) * down)


SMALL_TASKS = {
    "copying": 1.4,
    "reversing": 1.2,
    "spelling": 0.4,
    "adding": 1.2,
    "remainder": 1.2,
    "counting": 1.2,
    "days": 0.9,
    "sequences": 0.7,
    "programs": 1.4,
    "brackets": 2.4,
    "chain": 0.3,
    "refrain": 0.3,
}

K3_MINI = Recipe(
    stages=(
        Stage(
            tokens=700_000,
            rows=8,
            pos=128,
            look_ups=0.3,
            pages={
                **{name: share * 0.25 for name, share in SMALL_TASKS.items()},
                **{"repeating": 1.5, "copying": 1, "listed": 1, "facts": 0.5},
                **{"world": 0.5, "prose": 0.3},
            },
        ),
        Stage(
            tokens=3_300_000,
            rows=6,
            pos=256,
            look_ups=0.35,
            pages={**SMALL_TASKS, "repeating": 0.3, "listed": 0.4, "facts": 0.4, "between": 0.2}
            | {"world": 1.8, "prose": 0.7},
        ),
        Stage(
            tokens=7_000_000,
            rows=3,
            pos=640,
            look_ups=0.45,
            pages={**SMALL_TASKS, "repeating": 0.1, "listed": 0.2, "facts": 0.2, "between": 0.1}
            | {"world": 1.8, "prose": 1.2},
        ),
    )
)
"""Short rows teach looking back, and long ones how far."""
