"""Which facts, pairs and sequences training never sees: decided by a hash, once for all time."""

import random
from collections.abc import Callable, Sequence
from hashlib import blake2b
from typing import Literal, TypeVar

Split = Literal["train", "held-out"]
T = TypeVar("T")

SHARE = 10
"""One of so many is held out."""

TRIES = 2000


def is_held_out(*parts: object) -> bool:
    digest = blake2b("\x1f".join(map(str, parts)).encode(), digest_size=8).digest()
    return int.from_bytes(digest, "big") % SHARE == 0


def draw(rng: random.Random, split: Split, make: Callable[[], T], held: Callable[[T], bool]) -> T:
    """What `make` gives, drawn again until it belongs to `split`."""
    for _ in range(TRIES):
        made = make()
        if held(made) == (split == "held-out"):
            return made
    raise ValueError(f"In {TRIES} draws none was for the split {split!r}; widen what is drawn.")


def partner(
    rng: random.Random, split: Split, role: str, key: str, values: Sequence[str], share: float = 0.6
) -> tuple[str, bool]:
    """A value for `key` in its `role`, and whether the pair is held out.

    Training gets seen pairs only. Evaluation gets held-out ones in `share` of the draws, if the
    key has any among `values`: a world of held-out pairs alone would tell values from keys.
    """
    held = [value for value in values if is_held_out(role, key, value)]
    if split == "held-out" and held and rng.random() < share:
        return rng.choice(held), True
    seen = [value for value in values if value not in held]
    if not seen:
        raise ValueError(f"Every value of {key!r} as {role!r} is held out: {list(values)}.")
    return rng.choice(seen), False
