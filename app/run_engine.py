"""The model behind the store: loaded on the worker thread, on its first job."""

import gc
import os
import threading
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any
from weakref import ReferenceType, ref

from app.run_checks import Asked, CheckRow, check_row, open_checks, pick
from app.run_request import RunRequest
from app.run_stored import StoredRun, open_stored
from app.run_ticket import Ticket
from app.sources import checkpoint_of, config_of, for_readers, source_of
from model.cost import parameters
from model.tokenizer import Tokenizer, tokenizer_for

EXAMPLE = Path(__file__).parent / "example" / "run.safetensors"
MOST_MODELS = 3
MOST_BYTES = 4 * 2**30
"""Of the weights of all models that are held together; a larger one is held alone."""
LARGEST_VALUE = 4
"""Bytes that a weight takes at most, in what `load` chooses by itself."""
WHOLE = "KimiLM"


class ModelEngine:
    """Loads, runs and checks. torch is imported here and only when a job needs it."""

    def __init__(self, example: Path = EXAMPLE) -> None:
        self.example_path = example
        self._models: dict[str, Any] = {}
        self._made: dict[str, list[ReferenceType[Any]]] = {}
        """Runs by the model that they hold."""
        self._loading = threading.Lock()

    def count(self, request: RunRequest) -> int:
        if request.ids is not None:
            return len(request.ids)
        tokenizer = tokenizer_of(request.source)
        return 0 if tokenizer is None else len(tokenizer.encode(request.prompt or "")) + 1

    def run(self, request: RunRequest, ticket: Ticket[Any], budget: int) -> Any:
        lm = self.model(request.source, ticket)
        from model.trace import run

        prompt = request.prompt if request.ids is None else list(request.ids)
        assert prompt is not None
        made = run(
            lm,
            prompt,
            request.new_tokens,
            temperature=request.temperature,
            seed=request.seed,
            progress=_told(ticket),
            budget=budget,
        )
        return self._noted(made)

    def warm(self, source: str, ticket: Ticket[Any]) -> None:
        # the hash of the weights names every run, and takes its time once
        _ = self.model(source, ticket).weights_hash

    def alone(self, run: Any, names: tuple[str, ...], ticket: Ticket[Any]) -> Any:
        lm = self.model(run.source, ticket)
        from model.trace import run as make

        made = make(
            lm,
            list(run.token_ids[: run.prompt_length]),
            run.new_tokens,
            keep=names,
            temperature=run.temperature,
            seed=run.seed,
            progress=_told(ticket),
        )
        return self._noted(made)

    def check(self, run: Any, asked: Asked) -> tuple[CheckRow, ...]:
        from model.identities.registry import IDENTITIES, check

        concerned = {name: item for name, item in IDENTITIES.items() if asked.concerns(item)}
        here = [name for name, item in concerned.items() if not _is_far(item, asked)]
        far = [name for name in concerned if name not in here]
        whole = self.complete(run)
        results = check(whole, whole.model, layer=asked.layer, names=here, at=asked.at)
        if far:
            results += check(whole, whole.model, names=far, at="")
        return tuple(check_row(result, IDENTITIES[result.name]) for result in results)

    def example(self) -> StoredRun | None:
        return open_stored(self.example_path) if self.example_path.is_file() else None

    def complete(self, run: Any) -> Any:
        """A run without its model made anew from its ids, with every tap; another as it is."""
        if run.model is not None:
            return run
        from model.trace import run as make

        lm = self.model(run.source, None)
        whole = make(
            lm,
            list(run.token_ids[: run.prompt_length]),
            run.new_tokens,
            temperature=run.temperature,
            seed=run.seed,
        )
        if whole.run_id != run.run_id:
            anew = "`make example` makes it" if run.is_stored else "Press Run to make it"
            raise ValueError(
                f"Run {run.run_id[:6]} was made with weights {run.weights_hash[:12]}, the model "
                f"here has {whole.weights_hash[:12]}. {anew} anew."
            )
        return self._noted(replace(whole, is_stored=run.is_stored))

    def stored_checks(self, run: Any, asked: Asked) -> tuple[CheckRow, ...] | None:
        stored = open_checks(self.example_path.with_name("proof.json"), run.run_id)
        return None if stored is None else pick(stored, asked)

    def model(self, source: str, ticket: Ticket[Any] | None) -> Any:
        """The model of this name, one load for all readers."""
        with self._loading:
            if source in self._models:
                # asked for last, let go of last
                self._models[source] = self._models.pop(source)
            else:
                if ticket is not None:
                    ticket.report(f"loading {source}", 0.0)
                self._make_room(LARGEST_VALUE * parameters(config_of(source)).total)
                self._models[source] = _loaded(source, ticket)
            return self._models[source]

    def _make_room(self, coming: int) -> None:
        """Let go of the models that were longest not asked for, until these bytes fit."""
        while self._models and (
            len(self._models) >= MOST_MODELS
            or sum(map(_bytes, self._models.values())) + coming > MOST_BYTES
        ):
            source = next(iter(self._models))
            del self._models[source]
            # a run outlives its model; what needs it is computed on the run made anew
            for made in self._made.pop(source, ()):
                if (run := made()) is not None:
                    run.model = None

    def _noted(self, run: Any) -> Any:
        """A run that holds its model must not hold it longer than the engine does."""
        others = [made for made in self._made.get(run.source, ()) if made() is not None]
        self._made[run.source] = [*others, ref(run)]
        return run


def _bytes(lm: Any) -> int:
    return sum(parameter.nbytes for parameter in lm.parameters())


def _loaded(source: str, ticket: Ticket[Any] | None) -> Any:
    import torch

    from model.load import load

    torch.set_num_threads(threads())
    asked = source_of(source)
    try:
        lm = load(
            asked.where,
            layers=None if asked.layers is None else range(asked.layers),
            progress=_told_of_loading(source, ticket),
        )
    except (LookupError, ValueError, OSError) as error:
        words = str(error.args[0] if error.args else error)
        raise ValueError(for_readers(words, asked)) from error
    lm.source = source
    # torch brings half a million objects that stay: no collection need look at them
    gc.collect()
    gc.freeze()
    return lm


def _told_of_loading(source: str, ticket: Ticket[Any] | None) -> Callable[[int, int], None] | None:
    """Tells the ticket how many bytes of a checkpoint were read."""
    if ticket is None:
        return None

    def tell(done: int, total: int) -> None:
        words = f"loading {source}, {done / 1e6:,.0f} of {total / 1e6:,.0f} MB"
        ticket.report(words, done / max(total, 1))

    return tell


def threads() -> int:
    """Half of the cores: pages are served by the other half.

    OpenMP's threads wait for one another by spinning, so that on a core which is busy with
    something else a layer takes many times as long.
    """
    return max(1, (os.cpu_count() or 1) // 2)


def _is_far(identity: Any, asked: Asked) -> bool:
    """An equation of the whole model on the page of a layer."""
    return asked.layer is not None and identity.name in asked.also and identity.owner == WHOLE


@cache
def tokenizer_of(source: str) -> Tokenizer | None:
    """The tokenizer of a source, without loading the model; None where only that one knows."""
    try:
        where = checkpoint_of(source)
        if where is None and source_of(source).kind != "built in":
            return None
        return tokenizer_for(config_of(source), where)
    except (LookupError, ValueError):
        # said by the run that needs it
        return None


def _told(ticket: Ticket[Any]) -> Callable[[str, float, int], None]:
    """Tells the ticket how far a run is; raises in it once nobody waits."""
    return lambda stage, step, steps: ticket.report(_stage(stage, step, steps), step / steps)


def _stage(stage: str, step: float, steps: int) -> str:
    return f"decode {step} of {steps - 1}" if stage == "decode" else stage
