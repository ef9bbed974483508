"""Our side of the benches: the same weights, and what is timed."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from model.capture import capture
from model.kimi import KimiLM
from model.load import build, load_weights
from tests.bench.measure import seconds


def load_ours(config: dict[str, Any], weights: dict[str, Tensor]) -> KimiLM:
    lm = build(config)
    load_weights(lm, weights)
    return lm


def prefill(lm: KimiLM, length: int, *, record: bool) -> Callable[[], float]:
    tokens = torch.arange(length)[None]

    def run() -> None:
        with torch.inference_mode():
            if record:
                with capture():
                    lm(tokens)
            else:
                lm(tokens)

    return lambda: seconds(run)


def decode(lm: KimiLM, length: int, steps: int, *, record: bool) -> Callable[[], float]:
    """Seconds of `steps` single positions behind a prompt, which is not timed."""

    def run_steps(cache: object) -> None:
        for step in range(steps):
            if record:
                with capture():
                    lm(torch.tensor([[step]]), cache=cache)
            else:
                lm(torch.tensor([[step]]), cache=cache)

    def run() -> float:
        with torch.inference_mode():
            cache = lm.new_cache()
            lm(torch.arange(length)[None], cache=cache)
            return seconds(lambda: run_steps(cache))

    return run
