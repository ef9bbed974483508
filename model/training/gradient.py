"""The gradient of a step in two halves, which two processes can work out at the same time.

Who works makes no difference to the bits: the halves are always summed apart, and then added.
"""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import chain
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from model.capture import capture
from model.kimi import KimiLM
from model.training.balance import gates, real_scores
from model.training.corpus import Batch
from model.training.measure import Tally

HALVES = ((0, 3), (1, 2))
"""Which of a step's batches belong to each: the shortest with the longest, and those between."""


KEEP_THEIR_SIZE = ("embed_tokens.weight", "conv1d.weight", "_res.proj.weight")
"""Of more than one axis, and yet not matrices whose scale a norm takes away."""


class Half(NamedTuple):
    loss: float
    """This half's share of the step's."""
    scores: list[dict[str, Tensor]]
    """Of each batch, the router scores of its tokens, for balancing."""
    tally: Tally
    gradient: Tensor
    """Of all trained parameters, one after another: those that shrink, then the others."""


@contextmanager
def bfloat16_products() -> Iterator[None]:
    """Matrix products of float32 may round their inputs to bfloat16.

    That is how torch is told to ask oneDNN at all. On a processor where it then keeps float32, as
    on the one that trained the shipped weights, it is more than twice as fast as what it replaces.
    """
    settings: Any = torch.backends.mkldnn.matmul  # pyright: ignore[reportAttributeAccessIssue]
    before = settings.fp32_precision
    settings.fp32_precision = "bf16"
    try:
        yield
    finally:
        settings.fp32_precision = before


def half(lm: KimiLM, batches: Sequence[Batch], which: int) -> Half:
    """One of the `HALVES` of a step that reads `batches`."""
    names = [f"{name}.scores" for name in gates(lm)]
    whole = sum(float(batch.weights.sum()) for batch in batches)
    total, scores, tally = 0.0, [], Tally()
    lm.zero_grad()
    for batch in (batches[n] for n in HALVES[which]):
        with capture(names, model=lm) as recording:
            logits = lm(batch.tokens[:, :-1])
        loss = weighted_loss(logits, batch) / whole
        loss.backward()
        total += loss.item()
        tally.add(batch, logits.detach())
        scores.append(real_scores(lm, recording, batch.real))
    return Half(total, scores, tally, flat([gradient_of(p) for p in chain(*trained(lm))]))


def weighted_loss(logits: Tensor, batch: Batch) -> Tensor:
    """Sum of cross-entropies, each token counted by its weight, in nats."""
    each = F.cross_entropy(logits.flatten(0, 1), batch.tokens[:, 1:].flatten(), reduction="none")
    return (each * batch.weights.flatten()).sum()


def trained(lm: KimiLM) -> tuple[list[torch.nn.Parameter], list[torch.nn.Parameter]]:
    """Matrices, which weight decay shrinks, and what keeps its size; all but routers' biases."""
    named = [(name, p) for name, p in lm.named_parameters() if p.requires_grad]
    shrunk = [p for name, p in named if p.ndim >= 2 and not name.endswith(KEEP_THEIR_SIZE)]
    kept = [p for name, p in named if p.ndim < 2 or name.endswith(KEEP_THEIR_SIZE)]
    return shrunk, kept


def gradient_of(parameter: torch.nn.Parameter) -> Tensor:
    return torch.zeros_like(parameter) if parameter.grad is None else parameter.grad


def flat(tensors: Iterable[Tensor]) -> Tensor:
    """All their elements in one row, each tensor's in the order of its axes."""
    return torch.cat([tensor.detach().reshape(-1) for tensor in tensors])


def spread(values: Tensor, over: Sequence[Tensor]) -> list[Tensor]:
    """`flat` undone: `values` in the shapes of `over`."""
    parts = values.split([tensor.numel() for tensor in over])
    return [part.view(tensor.shape) for part, tensor in zip(parts, over, strict=True)]
