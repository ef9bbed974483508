"""The number of tokens beside the prompt, while one types."""

from collections.abc import Sequence
from pathlib import Path

from streamlit.components.v2 import component

HERE = Path(__file__).parent

_mount = component(
    "kimiscope_prompt_count",
    js=(HERE / "prompt_count.js").read_text(encoding="utf-8"),
    isolate_styles=False,
)


def prompt_count(limit: int, words: Sequence[str] | None) -> bool:
    """`words` are a token each, and so is every byte of anything else.

    With `None` only the server can count, and does so at each run. True once, when the reader
    enters the prompt.
    """
    data = {"limit": limit, "words": None if words is None else list(words)}
    result = _mount(data=data, key="prompt-count", on_entered_change=lambda: None)
    return bool(result.entered)
