"""The stops of the guided tour, as the reader in the browser takes them."""

from dataclasses import dataclass

from annotations.tour import stops
from app.reader.context import Reading

TOURED = "k3"
"""The released model whose pages the tour leads over."""


@dataclass(frozen=True, kw_only=True)
class Station:
    number: int
    title: str
    look: str
    prompt: str
    address: str


def stations(reading: Reading) -> list[Station]:
    """Empty for a model that the tour does not lead over."""
    if reading.model != TOURED:
        return []
    return [
        Station(
            number=n,
            title=stop.title,
            look=stop.look,
            prompt=stop.prompt,
            address=stop.address(n),
        )
        for n, stop in enumerate(stops(), start=1)
    ]
