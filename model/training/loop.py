"""The training loop: batches, steps, a log of what was learned, and a state to go on from."""

import json
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from model.capture import capture
from model.config import KimiConfig
from model.kimi import KimiLM
from model.memory import keep_freed_pages
from model.training.balance import balance, gates
from model.training.corpus import Batch, Corpus
from model.training.measure import Tally, evaluate
from model.training.recipe import Recipe
from model.training.start import model_to_train
from model.training.vocabulary import word_tokenizer

STATE, LOG = "state.pt", "log.jsonl"
LOOK_EVERY = 200
"""Steps between two evaluations on held-out pages."""
TELL_EVERY = 25
SAVE_EVERY = 240.0
"""Seconds between two saved states."""


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


class Training:
    """A model on its way. `folder` holds the state and the log."""

    def __init__(self, config: KimiConfig, recipe: Recipe, seed: int, folder: Path) -> None:
        self.config, self.recipe, self.seed, self.folder = config, recipe, seed, folder
        self.tokenizer = word_tokenizer()
        if len(self.tokenizer) != config.vocab_size:
            raise ValueError(
                f"The corpus has {len(self.tokenizer)} tokens, and the configuration's vocab_size "
                f"is {config.vocab_size}; set it to the former."
            )
        assert config.eos_token_id is not None
        self.corpus = Corpus(self.tokenizer, self.tokenizer.bos_id, config.eos_token_id)
        keep_freed_pages()
        self.lm = model_to_train(config, seed)
        self.optimizer = optimizer_for(self.lm, recipe)
        self.scores = [f"{name}.scores" for name in gates(self.lm)]
        self.step, self.seconds = 0, 0.0
        self.tally = Tally()

    def batch(self, step: int) -> Batch:
        stage = self.recipe.stage_at(step)
        return self.corpus.batch(
            f"train/{self.seed}/{step}", stage.rows, stage.pos, stage.pages, stage.look_ups
        )

    def one_step(self) -> float:
        """The loss of the step."""
        batch = self.batch(self.step)
        for group in self.optimizer.param_groups:
            group["lr"] = self.recipe.rate(self.step)
        with capture(self.scores, model=self.lm) as recording:
            logits = self.lm(batch.tokens[:, :-1])
        loss = weighted_loss(logits, batch)
        loss.backward()
        norm = torch.nn.utils.clip_grad_norm_(self.trained(), self.recipe.clip)
        if not bool(norm.isfinite()):
            raise ValueError(f"Step {self.step}: the gradient is not finite; nothing was changed.")
        self.optimizer.step()
        self.optimizer.zero_grad()
        balance(self.lm, recording, self.recipe.balance)
        self.tally.add(batch, logits.detach())
        self.step += 1
        return loss.item()

    def trained(self) -> list[torch.nn.Parameter]:
        return [parameter for parameter in self.lm.parameters() if parameter.requires_grad]

    def run(self, steps: int | None = None, tell: Callable[[str], None] = print) -> None:
        """Up to `steps` further steps, to the recipe's end by default; saves at the end."""
        last = self.recipe.steps if steps is None else min(self.recipe.steps, self.step + steps)
        saved = time.monotonic()
        with bfloat16_products():
            while self.step < last:
                begun = time.process_time()
                loss = self.one_step()
                self.seconds += time.process_time() - begun
                if self.step % TELL_EVERY == 0:
                    self.note(loss, tell)
                if time.monotonic() - saved > SAVE_EVERY:
                    self.save()
                    saved = time.monotonic()
        self.save()

    def note(self, loss: float, tell: Callable[[str], None]) -> None:
        """One line of the log, for the eye and for the curves."""
        line: dict[str, Any] = {
            "step": self.step,
            "tokens": self.recipe.tokens_before(self.step),
            "seconds": round(self.seconds, 1),
            "rate": self.recipe.rate(self.step - 1),
            "loss": round(loss, 4),
            "training": self.tally.by_task(),
        }
        self.tally = Tally()
        if self.step % LOOK_EVERY == 0 or self.step == self.recipe.steps:
            line["held_out"] = evaluate(
                self.lm, self.corpus, f"look/{self.step}", batches=4
            ).by_task()
        with (self.folder / LOG).open("a", encoding="utf-8") as log:
            log.write(json.dumps(line) + "\n")
        shown = line.get("held_out", {})
        tell(
            f"{self.step:6} {line['tokens']:>10,} {self.seconds:7.0f} s  loss {loss:.3f}  "
            + "  ".join(f"{task} {found['accuracy']:.2f}" for task, found in shown.items())
        )

    def save(self) -> None:
        """The state, so that a stop at any moment leaves the last one whole."""
        self.folder.mkdir(parents=True, exist_ok=True)
        state = {
            "step": self.step,
            "seconds": self.seconds,
            "seed": self.seed,
            "recipe": repr(self.recipe),
            "model": self.lm.state_dict(),
            "optimizer": self.optimizer.state_dict(),
        }
        new = self.folder / f"{STATE}.new"
        torch.save(state, new)
        new.replace(self.folder / STATE)

    def resume(self) -> None:
        """Go on from the saved state, if it is one of this recipe and seed."""
        state = torch.load(self.folder / STATE, weights_only=True)
        if (state["seed"], state["recipe"]) != (self.seed, repr(self.recipe)):
            raise ValueError(
                f"{str(self.folder / STATE)!r} is of another recipe or seed ({state['seed']}, "
                f"here {self.seed}); choose another folder, or train with what it was begun with."
            )
        self.lm.load_state_dict(state["model"])
        self.optimizer.load_state_dict(state["optimizer"])
        self.step, self.seconds = state["step"], state["seconds"]


def weighted_loss(logits: Tensor, batch: Batch) -> Tensor:
    """Mean cross-entropy, each token counted by its weight, in nats."""
    each = F.cross_entropy(logits.flatten(0, 1), batch.tokens[:, 1:].flatten(), reduction="none")
    weights = batch.weights.flatten()
    return (each * weights).sum() / weights.sum()


def optimizer_for(lm: KimiLM, recipe: Recipe) -> torch.optim.AdamW:
    """AdamW, which shrinks matrices and leaves vectors, embeddings and depth queries their size."""
    trained = [(name, p) for name, p in lm.named_parameters() if p.requires_grad]
    shrunk = [p for name, p in trained if p.ndim >= 2 and shrinks(name)]
    kept = [p for name, p in trained if p.ndim < 2 or not shrinks(name)]
    return torch.optim.AdamW(
        [
            {"params": shrunk, "weight_decay": recipe.weight_decay},
            {"params": kept, "weight_decay": 0.0},
        ],
        lr=recipe.peak,
        betas=recipe.betas,
        fused=True,
    )


def shrinks(name: str) -> bool:
    return not name.endswith(("embed_tokens.weight", "conv1d.weight", "_res.proj.weight"))
