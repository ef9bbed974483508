"""What the server wants the page to know: the run on screen, and what widgets chose."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from streamlit.components.v2 import component

HERE = Path(__file__).parent
LARGEST = 100_000
"""Bytes of one message; the largest news of a run stays below."""

_bridge = component(
    "kimiscope_bridge",
    js=(HERE / "bridge.js").read_text(encoding="utf-8"),
    isolate_styles=False,
)


def bridge(
    run: Mapping[str, Any] | None = None,
    url: Mapping[str, str | int | None] | None = None,
    *,
    key: str = "bridge",
) -> None:
    """Send `run` to the reader as `kimiscope:run`, and write `url` into the address.

    A parameter that is None is taken out of the address. Streamlit is not told: it knows already.
    """
    message = {"run": run, "url": url}
    if (size := len(json.dumps(message))) > LARGEST:
        raise ValueError(
            f"The bridge carries up to {LARGEST:,} bytes and was given {size:,}; send fewer or "
            "smaller pictures."
        )
    _bridge(data=message, key=key)
