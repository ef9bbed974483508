"""What a reader holds while a job waits and works: its place, its stage, its result."""

import threading
import time
from collections.abc import Callable
from typing import Any, Generic, Literal, TypeVar

Result = TypeVar("Result")
State = Literal["waiting", "working", "done", "failed", "stopped"]


class StoppedError(Exception):
    """Raised inside a job whose readers have all left."""


class Ticket(Generic[Result]):
    """One job, perhaps held by several readers who asked for the same."""

    def __init__(self, work: Callable[["Ticket[Result]"], Result], asked: str) -> None:
        self._work = work
        self.asked = asked
        """What was asked, as part of a sentence."""
        self.state: State = "waiting"
        self.stage = ""
        self.share = 0.0
        self.error = ""
        self.queued = time.monotonic()
        self.started: float | None = None
        self.place: Callable[[], int | None] = lambda: None
        """How many jobs are before this one; None once it works."""
        self._result: Result | None = None
        self._over = threading.Event()
        self._readers: set[str] = set()
        self._lock = threading.Lock()

    @classmethod
    def finished(cls, result: Result, asked: str) -> "Ticket[Result]":
        """A job that needs no work, because its result is at hand."""
        ticket = cls(lambda _: result, asked)
        ticket.work()
        return ticket

    @property
    def is_over(self) -> bool:
        return self._over.is_set()

    @property
    def seconds(self) -> float:
        """Since work began; 0 before."""
        return 0.0 if self.started is None else time.monotonic() - self.started

    def join(self, reader: str) -> None:
        with self._lock:
            self._readers.add(reader)

    def leave(self, reader: str) -> bool:
        """The reader wants it no more; True when nobody is left."""
        with self._lock:
            self._readers.discard(reader)
            return not self._readers

    def wait(self, seconds: float) -> bool:
        """Whether it is over within this time."""
        return self._over.wait(seconds)

    def result(self) -> Result:
        """The result of a job that is done; raises the sentence of one that is not."""
        if self.state != "done":
            raise LookupError(self.error or f"The job is {self.state}.")
        return self._result  # type: ignore[return-value]

    def report(self, stage: str, share: float) -> None:
        """Called by the job as it goes on. Raises `StoppedError` once nobody waits for it."""
        self.stage, self.share = stage, min(max(share, 0.0), 1.0)
        if self.state == "stopped":
            raise StoppedError

    def stop(self) -> None:
        """Give up; a job that works notices at its next report."""
        if not self.is_over:
            self.state = "stopped"
            if self.started is None:
                self._over.set()

    def work(self) -> None:
        """Do the job on the calling thread. Never raises: errors become sentences."""
        if self.state != "waiting":
            self._over.set()
            return
        self.state, self.started = "working", time.monotonic()
        try:
            self._result = self._work(self)
            self.state = "done"
        except StoppedError:
            self.state = "stopped"
        except (ValueError, LookupError) as error:
            self._fail(str(error.args[0]) if error.args else repr(error))
        except MemoryError:
            self._fail("The memory of this machine did not suffice. Shorten the prompt.")
        # a reader gets a sentence, the worker lives on
        except Exception as error:
            self._fail(f"The run broke off: {type(error).__name__}: {error}.")
        finally:
            self._over.set()

    def _fail(self, sentence: str) -> None:
        self.state, self.error = "failed", sentence


def describe(ticket: Ticket[Any]) -> str:
    """The stage in words."""
    return ticket.stage or ("waiting" if ticket.state == "waiting" else "starting")
