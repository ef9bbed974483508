"""Looks into checkpoints, made on threads of their own and kept for all readers."""

import math
import re
import threading
import time
from collections import OrderedDict, deque
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from app.looks import LOOKS, Look
from app.sources import Source, for_readers, sources

if TYPE_CHECKING:
    from model.source import Source as Checkpoint

READERS = 4
"""Looks that are made at a time, each into another checkpoint; others wait."""
MOST_WAITING = 32
"""Looks that wait; one more is told to come back."""
MOST_OPEN = 8
"""Checkpoints whose lists and headers are kept."""
MOST_LOOKS = 64
FAULT_FOR = 20.0
"""Seconds in which a look that failed is not made again."""
_HUB_ID = re.compile(r"\w[\w.-]*/\w[\w.-]*")


@dataclass(frozen=True, kw_only=True, slots=True)
class Seen:
    """What a look found."""

    value: Any
    revision: str | None
    transferred: int
    """Bytes that came over the network for this look."""
    notices: tuple[str, ...]


class Microscope:
    """Safe from any thread. Nothing here blocks a reader who does not wait for it."""

    def __init__(self) -> None:
        self._pool = ThreadPoolExecutor(READERS, thread_name_prefix="microscope")
        self._lock = threading.Lock()
        self._open: OrderedDict[str, Checkpoint] = OrderedDict()
        self._lines: dict[str, deque[tuple[Look, Future[Seen]]]] = {}
        self._looks: OrderedDict[Look, Future[Seen]] = OrderedDict()
        self._failed: dict[Look, float] = {}

    def ask(self, look: Look) -> Future[Seen]:
        """The look, at hand or in line. Its error is a ValueError with a sentence.

        It is `running()` from its turn on.
        """
        with self._lock:
            known = self._looks.get(look)
            believed_until = self._failed.get(look, math.inf)
            if known is not None and time.monotonic() < believed_until:
                self._looks.move_to_end(look)
                return known
            self._failed.pop(look, None)
            if sum(not made.done() for made in self._looks.values()) >= MOST_WAITING + READERS:
                return _refused(f"{MOST_WAITING} other looks wait already. Try again in a minute.")
            made = self._looks[look] = self._in_line(look)
            while len(self._looks) > MOST_LOOKS:
                self._failed.pop(self._looks.popitem(last=False)[0], None)
            return made

    def has(self, look: Look) -> bool:
        """Whether a look was made, or begun."""
        with self._lock:
            return look in self._looks

    def transferred(self, checkpoint: str) -> int:
        """Bytes that came over the network so far for everything of this checkpoint."""
        with self._lock:
            held = self._open.get(checkpoint)
        return held.transferred if held else 0

    def _in_line(self, look: Look) -> "Future[Seen]":
        """The look behind the others into its checkpoint. The caller holds the lock."""
        made: Future[Seen] = Future()
        line = self._lines.setdefault(look.checkpoint, deque())
        line.append((look, made))
        if len(line) == 1:
            self._pool.submit(self._take_turn, look.checkpoint)
        return made

    def _take_turn(self, checkpoint: str) -> None:
        """Make the first look in line; so a slow checkpoint holds one thread of the pool."""
        with self._lock:
            look, made = self._lines[checkpoint][0]
        try:
            if made.set_running_or_notify_cancel():
                made.set_result(self._make(look))
        # whatever it is, readers wait for it
        except Exception as error:
            made.set_exception(error)
        finally:
            self._call_next(checkpoint)

    def _call_next(self, checkpoint: str) -> None:
        with self._lock:
            line = self._lines[checkpoint]
            line.popleft()
            if line:
                self._pool.submit(self._take_turn, checkpoint)
            else:
                del self._lines[checkpoint]

    def _make(self, look: Look) -> Seen:
        try:
            checkpoint = self._opened(look.checkpoint)
            before = checkpoint.transferred
            value = LOOKS[look.what](checkpoint, look)
            return Seen(
                value=value,
                revision=checkpoint.revision,
                transferred=checkpoint.transferred - before,
                notices=checkpoint.notices,
            )
        # a visitor gets a sentence whatever a checkpoint holds
        except Exception as error:
            with self._lock:
                self._failed[look] = time.monotonic() + FAULT_FOR
            raise ValueError(_words(look.checkpoint, error)) from error

    def _opened(self, name: str) -> "Checkpoint":
        with self._lock:
            if (held := self._open.get(name)) is not None:
                self._open.move_to_end(name)
                return held
        opened = opened_for_all(name)
        with self._lock:
            self._open[name] = opened
            while len(self._open) > MOST_OPEN:
                self._open.popitem(last=False)
        return opened


def _refused(sentence: str) -> "Future[Seen]":
    refused: Future[Seen] = Future()
    refused.set_exception(ValueError(sentence))
    return refused


def _words(name: str, error: Exception) -> str:
    """What went wrong, without places of this machine."""
    said = str(error.args[0] if error.args else error)
    if not isinstance(error, LookupError | ValueError | OSError):
        said = f"The look broke off: {type(error).__name__}: {said}."
    return for_readers(said, sources().get(name))


def offered() -> tuple[str, ...]:
    """Sources with a checkpoint to look into, by key."""
    from model.shipped import has_weights

    def has(source: Source) -> bool:
        return source.kind in ("folder", "Hub") or has_weights(source.where)

    return tuple(key for key, source in sources().items() if has(source))


def opened_for_all(name: str) -> "Checkpoint":
    """One of the operator's sources, or a Hub id that any visitor may name.

    For the latter no folder of this machine is looked at and its login is not used: neither is
    the visitor's. Raises ValueError where the name is neither.
    """
    from model.source import open_hub, open_source

    if (source := sources().get(name)) is not None:
        return open_source(source.where)
    if _HUB_ID.fullmatch(name):
        return open_hub(name, login=False)
    known = ", ".join(offered())
    raise ValueError(
        f"{name!r} is no Hub id org/name{f' and none of {known}' if known else ''}. A folder of "
        "this machine is looked into when its operator names it in KIMISCOPE_SOURCES."
    )


_shared: Microscope | None = None
_shared_lock = threading.Lock()


def shared_microscope() -> Microscope:
    """The one of this process."""
    global _shared
    with _shared_lock:
        if _shared is None:
            _shared = Microscope()
        return _shared
