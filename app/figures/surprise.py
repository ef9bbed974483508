"""How little a model expected each token, and what it expects next."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True)
class Said:
    """One token with its surprise, −log p in nats; none for the first."""

    text: str
    surprise: float | None
    is_new: bool


def log_chances(logits: NDArray) -> NDArray[np.float64]:
    """Log-probabilities over the last axis."""
    wide = logits.astype(np.float64)
    shifted = wide - wide.max(-1, keepdims=True)
    return shifted - np.log(np.exp(shifted).sum(-1, keepdims=True))


def surprises(logits: NDArray, ids: NDArray) -> NDArray[np.float64]:
    """−log p of token i + 1 from the logits at token i, for each token but the first."""
    chances = log_chances(logits[: len(ids) - 1])
    return -np.take_along_axis(chances, np.asarray(ids)[1:, None], -1)[:, 0]


def most_likely(logits: NDArray, count: int = 5) -> list[tuple[int, float]]:
    """Ids and probabilities of the likeliest next tokens, the likeliest first."""
    chances = np.exp(log_chances(logits))
    return [(int(i), float(chances[i])) for i in np.argsort(-chances, kind="stable")[:count]]
