"""Whose turn it is: readers take turns, each one's own requests stay in order."""

import threading
from collections import OrderedDict, deque
from collections.abc import Iterator
from typing import Generic, TypeVar

Job = TypeVar("Job")


class FairQueue(Generic[Job]):
    """One waiting line per reader, served in rounds, so that nobody waits behind a crowd of one."""

    def __init__(self) -> None:
        self._lines: OrderedDict[str, deque[Job]] = OrderedDict()
        self._changed = threading.Condition()

    def put(self, job: Job, reader: str) -> None:
        with self._changed:
            self._lines.setdefault(reader, deque()).append(job)
            self._changed.notify()

    def take(self) -> Job:
        """The next job; waits for one."""
        with self._changed:
            while not self._lines:
                self._changed.wait()
            reader, line = next(iter(self._lines.items()))
            job = line.popleft()
            # served, so behind all others
            del self._lines[reader]
            if line:
                self._lines[reader] = line
            return job

    def remove(self, job: Job) -> bool:
        """Take a job out of its line; False if it was not waiting."""
        with self._changed:
            for reader, line in self._lines.items():
                if job in line:
                    line.remove(job)
                    if not line:
                        del self._lines[reader]
                    return True
        return False

    def ahead(self, job: Job) -> int | None:
        """How many jobs are served before this one; None if it does not wait."""
        with self._changed:
            return next((place for place, other in enumerate(self._order()) if other is job), None)

    def __len__(self) -> int:
        with self._changed:
            return sum(map(len, self._lines.values()))

    def _order(self) -> Iterator[Job]:
        lines = [list(line) for line in self._lines.values()]
        for turn in range(max(map(len, lines), default=0)):
            yield from (line[turn] for line in lines if turn < len(line))
