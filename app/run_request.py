"""What a reader asks to run, and the sentences for what cannot be run."""

import hashlib
from dataclasses import astuple, dataclass, replace

from app.sources import BUILT_IN
from model.limits import MAX_PROMPT

EXAMPLE_SOURCE = BUILT_IN[0]
"""The model of the stored example."""
EXAMPLE_PROMPT = "Copy: fox owl hen goat bee. Again:"
MOST_NEW_TOKENS = 256


class RefusedError(ValueError):
    """A request that is answered with a sentence and never queued."""


@dataclass(frozen=True, kw_only=True)
class RunRequest:
    """A prompt as text or as token ids, and how to go on from it."""

    source: str = EXAMPLE_SOURCE
    prompt: str | None = None
    ids: tuple[int, ...] | None = None
    new_tokens: int = 0
    temperature: float = 0.0
    seed: int = 0

    def __post_init__(self) -> None:
        if (self.prompt is None) == (self.ids is None):
            raise ValueError("A run needs a prompt as text or as ids, one of the two.")

    @property
    def key(self) -> str:
        """Equal for equal requests, known before the model is. A greedy run draws by no seed."""
        drawn = self if self.temperature else replace(self, seed=0)
        return hashlib.sha256(repr(astuple(drawn)).encode("utf-8", "backslashreplace")).hexdigest()


def check_request(request: RunRequest, num_tokens: int) -> None:
    """Raise `RefusedError` in words: empty, too long, or too many tokens to go on with."""
    is_empty = not request.ids if request.prompt is None else not request.prompt
    if is_empty:
        raise RefusedError(
            "The prompt is empty, so there is nothing to run. Type at least one letter."
        )
    if num_tokens > MAX_PROMPT:
        raise RefusedError(
            f"The prompt has {num_tokens:,} tokens; a run takes up to {MAX_PROMPT:,}. "
            f"Leave out {num_tokens - MAX_PROMPT:,}."
        )
    if not 0 <= request.new_tokens <= MOST_NEW_TOKENS:
        raise RefusedError(
            f"Asked for {request.new_tokens:,} new tokens; a run makes 0 to {MOST_NEW_TOKENS}."
        )
