"""What a run was asked for, checked before anything is computed."""

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from operator import index

from model.cache import MLACache
from model.kimi import KimiLM
from model.tokenizer import Token, Tokenizer, unnamed


@dataclass(frozen=True, kw_only=True, slots=True)
class Request:
    """All that decides the values of a run, beside the weights."""

    prompt_ids: tuple[int, ...]
    new_tokens: int
    temperature: float
    seed: int
    mla: MLACache

    def run_id(self, weights_hash: str) -> str:
        """The same weights and request are the same run."""
        # greedy choice reads no seed
        seed = self.seed if self.temperature else 0
        asked = [self.prompt_ids, self.new_tokens, float(self.temperature), seed, self.mla]
        return hashlib.sha256(json.dumps([weights_hash, *asked]).encode()).hexdigest()[:12]


def request_of(
    lm: KimiLM,
    prompt: str | Sequence[int],
    new_tokens: int,
    temperature: float,
    seed: int,
    mla: MLACache,
    max_prompt: int,
) -> Request:
    if lm.embed_tokens.weight.is_meta:
        raise ValueError(f"{lm.source} has shapes and no weights here, so it cannot run.")
    ids = token_ids_of(lm, prompt)
    new_tokens, seed = _whole("new_tokens", new_tokens), _whole("seed", seed)
    if len(ids) > max_prompt:
        raise ValueError(
            f"The prompt is {len(ids):,} tokens long and {max_prompt:,} are allowed; "
            f"shorten it by {len(ids) - max_prompt:,} or raise max_prompt."
        )
    if new_tokens < 0:
        raise ValueError(f"new_tokens is {new_tokens!r}; it counts tokens to generate, 0 or more.")
    most = lm.config.max_position_embeddings
    if len(ids) + new_tokens > most:
        raise ValueError(
            f"{len(ids):,} prompt tokens and {new_tokens:,} new ones make "
            f"{len(ids) + new_tokens:,} positions; this model has {most:,}."
        )
    if not isinstance(temperature, int | float) or not 0.0 <= temperature < float("inf"):
        raise ValueError(f"temperature is {temperature!r}; it must be 0 (greedy) or above.")
    return Request(
        prompt_ids=tuple(ids), new_tokens=new_tokens, temperature=temperature, seed=seed, mla=mla
    )


def token_ids_of(lm: KimiLM, prompt: str | Sequence[int]) -> list[int]:
    """The ids that `run` would feed: text after one start token, or the ids given."""
    if not isinstance(prompt, str):
        prompt = _ids_given(prompt)
    if len(prompt) == 0:
        raise ValueError(
            "The prompt is empty; there is nothing to run. Type at least one character."
        )
    vocabulary = lm.config.vocab_size
    if isinstance(prompt, str):
        if lm.tokenizer is None:
            raise ValueError(
                f"{lm.source} has no tokenizer here; give a list of token ids instead."
            )
        ids = [lm.tokenizer.bos_id, *lm.tokenizer.encode(prompt)]
    else:
        ids = prompt
    if outside := [token_id for token_id in ids if not 0 <= token_id < vocabulary]:
        raise ValueError(
            f"Token id {outside[0]} is outside this vocabulary; ids run from 0 to {vocabulary - 1}."
        )
    return ids


def _ids_given(prompt: Sequence[int]) -> list[int]:
    try:
        return [index(token_id) for token_id in prompt]
    except TypeError as error:
        raise ValueError(
            f"The prompt is {prompt!r:.80}; it must be text, or a list of whole token ids."
        ) from error


def _whole(name: str, value: int) -> int:
    try:
        return index(value)
    except TypeError as error:
        raise ValueError(f"{name} is {value!r}; it must be a whole number.") from error


def tokens_of(tokenizer: Tokenizer | None, ids: Sequence[int]) -> tuple[Token, ...]:
    """One object a token, equal tokens too."""
    return tuple(map(unnamed if tokenizer is None else tokenizer.describe, ids))
