"""What a trained model can do: held-out answers, bits a byte, load of experts, mechanisms."""

from collections.abc import Iterator, Mapping
from itertools import chain
from typing import Any

import torch
from torch import Tensor

from model.attn_res import AttnResidual
from model.block import KimiDecoderLayer
from model.capture import Tap, capture
from model.kimi import KimiLM
from model.training.balance import gates
from model.training.corpus import Batch, Corpus
from model.training.measure import Tally
from model.training.recipe import K3_MINI

STEP = 5120
"""Held-out tokens that are drawn at once, and read in a few batches."""
LOOK_UPS = {"facts": 2, "listed": 1, "between": 1}
"""Shares of the pages on which parts are switched off."""


def corpus_of(lm: KimiLM) -> Corpus:
    """The corpus in the tokens of a model."""
    tokenizer, eos = lm.tokenizer, lm.config.eos_token_id
    if tokenizer is None or eos is None:
        raise ValueError(f"{lm.source} has no tokenizer or no end token, and reads no pages.")
    return Corpus(tokenizer, tokenizer.bos_id, eos)


def report(lm: KimiLM, seed: int, tokens: int, mechanisms: bool = True) -> dict[str, Any]:
    """Everything that is measured on about `tokens` of held-out pages drawn from `seed`."""
    corpus = corpus_of(lm)
    tally, loads = answers(lm, corpus, seed, tokens)
    by_task = tally.by_task()
    about: dict[str, Any] = {
        "seed": seed,
        "tokens": tally.tokens,
        "accuracy": {task: found["accuracy"] for task, found in by_task.items()},
        "asked": {task: found["asked"] for task, found in by_task.items()},
        "bits_per_byte": tally.bits / tally.bytes,
        "expert_load": loads,
    }
    if mechanisms:
        about["mechanisms"] = lost_look_ups(lm, corpus, seed)
    return about


def batches(corpus: Corpus, seed: str, tokens: int, shares: Mapping[str, float]) -> Iterator[Batch]:
    """Held-out pages, one a row, of the lengths of the last stage of training."""
    number = -(-tokens // STEP)
    drawn = corpus.batches(seed, number, STEP, K3_MINI.stages[-1].pos, shares, "held-out")
    return chain.from_iterable(drawn)


def answers(
    lm: KimiLM, corpus: Corpus, seed: int, tokens: int
) -> tuple[Tally, dict[str, list[float]]]:
    """What is right on held-out pages, and each expert's load against its fair share, by layer."""
    tally = Tally()
    routers = gates(lm)
    counts = {name: torch.zeros(lm.config.num_experts) for name in routers}
    names = [f"{name}.chosen" for name in routers]
    for batch in batches(corpus, f"eval/{seed}", tokens, K3_MINI.stages[-1].pages):
        with torch.no_grad(), capture(names, model=lm) as recording:
            logits = lm(batch.tokens[:, :-1])
        tally.add(batch, logits)
        tally.bytes += corpus.bytes(batch.tokens[:, 1:])
        for name, gate in routers.items():
            chosen = recording.tensors[gate.chosen][batch.real].flatten()
            counts[name] += torch.bincount(chosen, minlength=lm.config.num_experts)
    loads = {
        name.removesuffix(".block_sparse_moe.gate"): [
            round(float(x), 3) for x in count * len(count) / count.sum().clamp(min=1)
        ]
        for name, count in counts.items()
    }
    return tally, loads


def lost_look_ups(lm: KimiLM, corpus: Corpus, seed: int, tokens: int = STEP) -> dict[str, Any]:
    """Of the look-ups that the whole model gets right, the share lost without one of its parts.

    A mixer is switched off by adding nothing, and a read over depth by reading only the running
    sum, as a plain residual would.
    """
    read = list(batches(corpus, f"mechanisms/{seed}", tokens, LOOK_UPS))
    whole = [look_ups_right(batch, forward(lm, batch, None)) for batch in read]
    found: dict[str, Any] = {}
    for name, kind, tap in parts(lm):
        lost, asked = {}, {}
        for batch, before in zip(read, whole, strict=True):
            after = look_ups_right(batch, forward(lm, batch, (kind, tap)))
            for answer in (a for a, right in before.items() if right):
                asked[answer[3]] = asked.get(answer[3], 0) + 1
                lost[answer[3]] = lost.get(answer[3], 0) + (not after[answer])
        share = {task: round(lost[task] / number, 4) for task, number in sorted(asked.items())}
        total = sum(lost.values()) / max(1, sum(asked.values()))
        found[name] = {"kind": kind, "lost": round(total, 4), "by_distance": share}
    return found


def parts(lm: KimiLM) -> Iterator[tuple[str, str, Tap]]:
    """Each part that can be switched off: its name, its kind and the tap where that is done."""
    for i, layer in enumerate(lm.layers):
        assert isinstance(layer, KimiDecoderLayer)
        yield f"layers.{i}.self_attn", lm.config.mixers[i], layer.self_attn.out
    for name, module in lm.named_modules():
        # layer 0 has nothing behind it to read before its own mixer
        if isinstance(module, AttnResidual) and name != "layers.0.self_attention_res":
            yield name, "attention residual", module.weights


def forward(lm: KimiLM, batch: Batch, off: tuple[str, Tap] | None) -> Tensor:
    """Logits, with one part switched off where asked."""
    if off is None:
        with torch.no_grad():
            return lm(batch.tokens[:, :-1])
    kind, switched = off

    def edit(tap: Tap, tensor: Tensor) -> Tensor:
        if tap is not switched:
            return tensor
        without = torch.zeros_like(tensor)
        if kind == "attention residual":
            without[..., -1] = 1.0
        return without

    with torch.no_grad(), capture([], model=lm, edit=edit):
        return lm(batch.tokens[:, :-1])


def look_ups_right(batch: Batch, logits: Tensor) -> dict[tuple[int, int, int, str], bool]:
    right = (logits.argmax(-1) == batch.tokens[:, 1:]).tolist()
    return {
        answer: all(right[answer.row][answer.start - 1 : answer.stop - 1])
        for answer in batch.answers
        if answer.task.startswith("look-up")
    }


def loops(text: str, words: int = 4, most: int = 2) -> list[str]:
    """Runs of `words` words that come more than `most` times."""
    parts_ = text.split()
    runs = [" ".join(parts_[i : i + words]) for i in range(len(parts_) - words + 1)]
    return sorted({run for run in runs if runs.count(run) > most})
