"""Every run of this process: one worker runs the model, all readers share what it made."""

import threading
from collections import OrderedDict, deque
from collections.abc import Callable, Hashable
from functools import partial
from statistics import median
from typing import Any, Protocol

from app.run_checks import Asked
from app.run_queue import FairQueue
from app.run_request import RefusedError, RunRequest, check_request
from app.run_shelf import Shelf
from app.run_ticket import Ticket
from model.limits import RUN_BYTES

PROCESS_BYTES = 512 * 2**20
MOST_REMEMBERED = 4_096
"""Requests whose run id is remembered, so that asking again finds the run or makes it again."""
MOST_CHECKS = 2_048
MOST_TIMED = 16
"""Jobs of late, of whose times the median says how long a queue is."""
SOON = 2.0
"""Seconds from the first page of a stored run to the loading of its model."""


class Engine(Protocol):
    """What knows the model. All but `count` and `stored_checks` is called on the worker alone."""

    def count(self, request: RunRequest) -> int:
        """Tokens of the prompt; 0 where only the loaded model knows."""
        ...

    def run(self, request: RunRequest, ticket: Ticket[Any], budget: int) -> Any: ...

    def check(self, run: Any, asked: Asked) -> Any: ...

    def stored_checks(self, run: Any, asked: Asked) -> Any:
        """What was replayed when the run was stored; `None` where nothing was."""
        ...

    def example(self) -> Any:
        """The stored run, or None where none was made."""
        ...

    def warm(self, source: str, ticket: Ticket[Any]) -> Any:
        """Load the model."""
        ...

    def alone(self, run: Any, names: tuple[str, ...], ticket: Ticket[Any]) -> Any:
        """The same run again, recording these taps and nothing else."""
        ...

    def complete(self, run: Any) -> Any:
        """The same run with its model at hand, so that values can be re-computed."""
        ...


class RunStore:
    """Submit, find, check. Safe from any thread."""

    def __init__(self, engine: Engine, *, limit: int = PROCESS_BYTES) -> None:
        self.engine = engine
        self.shelf: Shelf[Any] = Shelf(limit)
        self._queue: FairQueue[Ticket[Any]] = FairQueue()
        self._lock = threading.RLock()
        self._open: dict[object, Ticket[Any]] = {}
        self._known: OrderedDict[str, str] = OrderedDict()
        self._checks: OrderedDict[object, Any] = OrderedDict()
        self._worker: threading.Thread | None = None
        self._example: Any = None
        self._soon: set[str] = set()
        self._took: deque[float] = deque(maxlen=MOST_TIMED)
        self.example_fault = ""
        """Why the stored run could not be opened."""

    def submit(self, request: RunRequest, reader: str = "") -> Ticket[Any]:
        """A ticket for the run; the same request shares one ticket, a finished one is at hand.

        Raises `RefusedError` with a sentence where the request cannot be run.
        """
        try:
            count = self.engine.count(request)
        except ValueError as fault:
            # a text that the tokenizer cannot hold, or a token that the model lacks
            raise RefusedError(str(fault)) from fault
        check_request(request, count)
        asked = f"a run of {request.source} with {request.new_tokens:,} new tokens"
        with self._lock:
            known = self._known.get(request.key)
            if known is not None and (run := self.shelf.get(known)) is not None:
                return Ticket.finished(run, asked)
            work = partial(self._run, request)
            return self._enqueue(request.key, Ticket(work, asked), reader)

    def find(self, run_id: str) -> Any | None:
        """A finished run that is still held; the stored example always is."""
        example = self.example()
        if example is not None and example.run_id.startswith(run_id):
            return self.shelf.get(example.run_id) or example
        return self.shelf.get(run_id)

    def example(self) -> Any | None:
        """The stored run that a first visitor sees."""
        with self._lock:
            if self._example is None and not self.example_fault:
                try:
                    self._example = self.engine.example()
                except ValueError as error:
                    self.example_fault = str(error)
            return self._example

    def known(self, request: RunRequest) -> Any | None:
        """The finished run of an equal request, if it is held."""
        with self._lock:
            run_id = self._known.get(request.key)
        return None if run_id is None else self.shelf.get(run_id)

    def checked(self, run: Any, asked: Asked, reader: str = "") -> Ticket[Any]:
        """A ticket for the equations of a page on this run, replayed once."""
        key = ("check", run.run_id, asked)
        words = f"the equations of run {run.run_id[:6]}"
        with self._lock:
            if key in self._checks:
                self._checks.move_to_end(key)
                return Ticket.finished(self._checks[key], words)
        if (stored := self.engine.stored_checks(run, asked)) is not None:
            return Ticket.finished(self._keep(key, stored), words)
        with self._lock:
            return self._enqueue(key, Ticket(partial(self._check, key, run), words), reader)

    def is_checked(self, run: Any, asked: Asked) -> bool:
        """Whether the equations of this page were replayed on this run already."""
        with self._lock:
            return ("check", run.run_id, asked) in self._checks

    def learned(
        self, key: Hashable, words: str, work: Callable[[Ticket[Any]], Any], reader: str = ""
    ) -> Ticket[Any]:
        """A ticket for anything else that the worker finds out once: `key` says what."""
        with self._lock:
            if key in self._checks:
                self._checks.move_to_end(key)
                return Ticket.finished(self._checks[key], words)
            return self._enqueue(key, Ticket(partial(self._learn, key, work), words), reader)

    def completed(self, run: Any, reader: str = "") -> Ticket[Any]:
        """A ticket for the same run with its model, for values that are re-computed."""
        key = ("complete", run.run_id)
        asked = f"values of run {run.run_id[:6]} that are re-computed"
        with self._lock:
            return self._enqueue(key, Ticket(partial(self._complete, run), asked), reader)

    def alone(self, run: Any, names: tuple[str, ...], reader: str = "") -> Ticket[Any]:
        """A ticket for taps that the budget left out: the same run, recording only them."""
        key = f"{run.run_id} {' '.join(names)}"
        asked = f"{len(names)} taps of run {run.run_id[:6]}"
        with self._lock:
            if (made := self.shelf.get(key)) is not None:
                return Ticket.finished(made, asked)
            return self._enqueue(key, Ticket(partial(self._alone, key, run, names), asked), reader)

    def warm(self, source: str) -> None:
        """Load a model that is about to be asked for; a fault is said by the run that needs it."""
        with self._lock:
            ticket = Ticket(partial(self.engine.warm, source), f"the model {source}")
            self._enqueue(("warm", source), ticket, "")

    def complete_soon(self, run: Any, seconds: float = SOON) -> None:
        """Once a stored run was shown, have its model before the next page needs it.

        Not at once: the first page is painted meanwhile, and torch takes a second of the machine.
        """
        with self._lock:
            if not run.is_stored or run.model is not None or run.run_id in self._soon:
                return
            self._soon.add(run.run_id)
        timer = threading.Timer(seconds, self.completed, (run,))
        timer.daemon = True
        timer.start()

    def leave(self, ticket: Ticket[Any], reader: str) -> None:
        """A reader gives up; the job stops when it was the last one."""
        with self._lock:
            if not ticket.leave(reader) or ticket.is_over:
                return
            self._queue.remove(ticket)
            ticket.stop()
            for key in [key for key, held in self._open.items() if held is ticket]:
                del self._open[key]

    @property
    def waiting(self) -> int:
        return len(self._queue)

    @property
    def seconds_each(self) -> float | None:
        """Median of what the last jobs took; `None` before any is through."""
        with self._lock:
            return median(self._took) if self._took else None

    def _enqueue(self, key: object, ticket: Ticket[Any], reader: str) -> Ticket[Any]:
        if (shared := self._open.get(key)) is not None and not shared.is_over:
            shared.join(reader)
            return shared
        ticket.place = partial(self._queue.ahead, ticket)
        ticket.join(reader)
        self._open[key] = ticket
        self._queue.put(ticket, reader)
        if self._worker is None or not self._worker.is_alive():
            self._worker = threading.Thread(target=self._serve, name="model", daemon=True)
            self._worker.start()
        return ticket

    def _serve(self) -> None:
        while True:
            ticket = self._queue.take()
            ticket.work()
            with self._lock:
                self._took.append(ticket.seconds)
                self._open = {k: t for k, t in self._open.items() if not t.is_over}

    def _run(self, request: RunRequest, ticket: Ticket[Any]) -> Any:
        run = self.engine.run(request, ticket, RUN_BYTES)
        self.shelf.put(run)
        with self._lock:
            self._known[request.key] = run.run_id
            self._known.move_to_end(request.key)
            while len(self._known) > MOST_REMEMBERED:
                self._known.popitem(last=False)
        return run

    def _alone(self, key: str, run: Any, names: tuple[str, ...], ticket: Ticket[Any]) -> Any:
        made = self.engine.alone(run, names, ticket)
        self.shelf.put(made, key)
        return made

    def _check(self, key: tuple[Any, ...], run: Any, ticket: Ticket[Any]) -> Any:
        ticket.report("replaying the equations", 0.0)
        return self._keep(key, self.engine.check(run, key[2]))

    def _learn(self, key: Hashable, work: Callable[[Ticket[Any]], Any], ticket: Ticket[Any]) -> Any:
        return self._keep(key, work(ticket))

    def _keep(self, key: Hashable, results: Any) -> Any:
        with self._lock:
            self._checks[key] = results
            while len(self._checks) > MOST_CHECKS:
                self._checks.popitem(last=False)
        return results

    def _complete(self, run: Any, ticket: Ticket[Any]) -> Any:
        ticket.report("loading the model", 0.0)
        whole = self.engine.complete(run)
        self.shelf.put(whole)
        return whole


_shared: RunStore | None = None
_shared_lock = threading.Lock()


def shared_store() -> RunStore:
    """The one store of this process."""
    global _shared
    with _shared_lock:
        if _shared is None:
            # here, so that a store with another engine needs no model code
            from app.run_engine import ModelEngine

            _shared = RunStore(ModelEngine())
        return _shared
