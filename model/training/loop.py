"""The training loop: batches, steps, a log of what was learned, and a state to go on from."""

import json
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch

from model.config import KimiConfig
from model.memory import keep_freed_pages
from model.training.balance import balance
from model.training.corpus import Corpus
from model.training.gradient import bfloat16_products, half
from model.training.helper import Helper
from model.training.measure import Tally, evaluate
from model.training.pools import Pools
from model.training.recipe import Recipe
from model.training.start import model_to_train
from model.training.vocabulary import word_tokenizer
from model.training.weights_in_row import Optimizer, Row

STATE, LOG = "state.pt", "log.jsonl"
LOOK_EVERY = 200
"""Steps between two evaluations on held-out pages."""
TELL_EVERY = 25
SAVE_EVERY = 240.0
"""Seconds between two saved states."""


class Training:
    """A model on its way. `folder` holds the state and the log.

    Two `processes` share the work of each step, and make the same weights as one.
    """

    def __init__(
        self, config: KimiConfig, recipe: Recipe, seed: int, folder: Path, processes: int = 1
    ) -> None:
        self.config, self.recipe, self.seed, self.folder = config, recipe, seed, folder
        self.tokenizer = word_tokenizer()
        if len(self.tokenizer) != config.vocab_size:
            raise ValueError(
                f"The corpus has {len(self.tokenizer)} tokens, and the configuration's vocab_size "
                f"is {config.vocab_size}; set it to the former."
            )
        assert config.eos_token_id is not None
        corpus = self.corpus = Corpus(self.tokenizer, self.tokenizer.bos_id, config.eos_token_id)
        keep_freed_pages()
        self.lm = model_to_train(config, seed)
        self.row = Row(self.lm)
        self.step, self.seconds = 0, 0.0
        self.tally = Tally()
        self.pools = Pools(corpus, recipe, seed)
        self.processes = processes
        self.helper: Helper | None = None
        """The second process, while one runs."""
        self.optimizer = Optimizer(self.row, recipe)

    def one_step(self) -> float:
        """The loss of the step."""
        if self.helper is not None:
            self.helper.begin(self.step)
        batches = self.pools.at(self.step)
        first = half(self.lm, batches, 0)
        if self.helper is None:
            second = half(self.lm, batches, 1)
        else:
            second, seconds = self.helper.finish()
            self.seconds += seconds
        rate = self.recipe.rate(self.step)
        if not self.optimizer.step(first.gradient + second.gradient, rate):
            raise ValueError(f"Step {self.step}: the gradient is not finite; nothing was changed.")
        self.row.write()
        balance(self.lm, first.scores + second.scores, self.recipe.balance)
        self.row.read()
        for part in (first, second):
            self.tally.merge(part.tally)
        self.step += 1
        return first.loss + second.loss

    def run(self, steps: int | None = None, tell: Callable[[str], None] = print) -> None:
        """Up to `steps` further steps, to the recipe's end by default; saves at the end."""
        last = self.recipe.steps if steps is None else min(self.recipe.steps, self.step + steps)
        saved = time.monotonic()
        with self.helped(), bfloat16_products():
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

    @contextmanager
    def helped(self) -> Iterator[None]:
        """With a second process, where two are wanted."""
        if self.processes > 1:
            self.helper = Helper(self.row, self.config, self.pools)
        try:
            yield
        finally:
            if self.helper is not None:
                self.helper.close()
                self.helper = None

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
            "optimizer": self.optimizer.adam.state_dict(),
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
        self.row.read()
        self.optimizer.adam.load_state_dict(state["optimizer"])
        self.step, self.seconds = state["step"], state["seconds"]
