"""The number of tokens beside the prompt, while one types."""

from pathlib import Path

from streamlit.components.v2 import component

HERE = Path(__file__).parent

_mount = component(
    "kimiscope_prompt_count",
    js=(HERE / "prompt_count.js").read_text(encoding="utf-8"),
    isolate_styles=False,
)


def prompt_count(limit: int, *, by_bytes: bool) -> bool:
    """Without `by_bytes` only the server can count, and does so at each run.

    True once, when the reader enters the prompt.
    """
    data = {"limit": limit, "by_bytes": by_bytes}
    result = _mount(data=data, key="prompt-count", on_entered_change=lambda: None)
    return bool(result.entered)
