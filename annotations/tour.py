"""The guided tour: prompts for the model that runs, and where to look at what they show."""

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, fields
from functools import lru_cache
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

TOUR = Path(__file__).parent / "tour.toml"


@dataclass(frozen=True, kw_only=True)
class Stop:
    """One prompt, and one thing to see in what it makes of the model."""

    key: str
    """Names the test that holds the sentence to the weights."""
    title: str
    look: str
    """What to look at, and what it shows."""
    prompt: str
    node: str
    at: str = ""
    new: int = 8
    layer: int | None = None
    head: int | None = None
    token: int | None = None
    step: int | None = None

    def address(self, number: int) -> str:
        """The query of the page on which this is seen, whole."""
        asked: dict[str, str | int | None] = {
            **{"model": "k3", "source": "k3-mini", "node": self.node, "at": self.at or None},
            **{"layer": self.layer, "prompt": self.prompt, "new": self.new},
            **{"step": self.step, "head": self.head, "token": self.token, "tour": number},
            "phase": "prefill" if self.step == 0 else None,
        }
        known = {name: value for name, value in asked.items() if value is not None}
        return "?" + urlencode(known).replace("%2F", "/")


@lru_cache(maxsize=1)
def stops() -> tuple[Stop, ...]:
    """In the order of the tour. ValueError says what a stop lacks or has too much."""
    table = tomllib.loads(TOUR.read_text(encoding="utf-8"))
    return tuple(_stop(key, values) for key, values in table.items())


def _stop(key: str, values: Mapping[str, Any]) -> Stop:
    known = {field.name for field in fields(Stop)} - {"key"}
    if odd := sorted(set(values) - known):
        raise ValueError(f"{TOUR.name}: {key!r} has {', '.join(odd)}, which no stop of a tour has.")
    try:
        return Stop(key=key, **values)
    except TypeError as error:
        raise ValueError(f"{TOUR.name}: {key!r}: {error}") from error
