"""Finished runs within a bound of bytes, the longest unused leaving first."""

import threading
from collections import OrderedDict
from typing import Generic, Protocol, TypeVar


class Sized(Protocol):
    @property
    def run_id(self) -> str: ...
    @property
    def bytes(self) -> int: ...


Run = TypeVar("Run", bound=Sized)


class Shelf(Generic[Run]):
    """Shared by all readers; safe from any thread."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self._runs: OrderedDict[str, tuple[Run, int]] = OrderedDict()
        self._lock = threading.Lock()

    @property
    def bytes(self) -> int:
        with self._lock:
            return sum(size for _, size in self._runs.values())

    def __len__(self) -> int:
        with self._lock:
            return len(self._runs)

    def put(self, run: Run, key: str = "") -> None:
        """Keep `run`; others leave until all fit. One that alone is too large is refused."""
        size = run.bytes
        if size > self.limit:
            raise ValueError(
                f"The run holds {size / 2**20:,.0f} MiB, the store {self.limit / 2**20:,.0f} MiB. "
                "Shorten the prompt or keep fewer taps."
            )
        with self._lock:
            self._runs[key or run.run_id] = (run, size)
            self._runs.move_to_end(key or run.run_id)
            while sum(held for _, held in self._runs.values()) > self.limit:
                self._runs.popitem(last=False)

    def get(self, key: str) -> Run | None:
        """By the id of the run, or by the key that it was put under."""
        with self._lock:
            found = self._runs.get(key)
            if found is None:
                return None
            self._runs.move_to_end(key)
            return found[0]
