"""A figure of numbers that the browser draws, reads out, locks and exports."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from streamlit.components.v2 import component

KINDS = ("heat", "depth", "layers")
HERE = Path(__file__).parent
PARTS = (
    "types.js",
    "format.js",
    "colour.js",
    "parts.js",
    "heat.js",
    "heat_view.js",
    "export.js",
    "table.js",
    "steps.js",
    "depth.js",
    "layers.js",
    "main.js",
)
"""In the order of their needs; a component is one module and cannot import a path."""


def script() -> str:
    """The parts as one module; comments and indents stay here."""
    text = "\n".join((HERE / part).read_text(encoding="utf-8") for part in PARTS)
    lines = (line.strip() for line in text.splitlines())
    return "\n".join(line for line in lines if line and not line.startswith(("//", "/*", "*")))


# a script travels with every figure that has it, so the figures have none and share the library's
_library = component("kimiscope_tensor_canvas_library", js=script(), isolate_styles=False)
_mount = component("kimiscope_tensor_canvas", js=(HERE / "frame.js").read_text(encoding="utf-8"))


def canvas_library() -> None:
    """What draws all figures of a page; its message is always the same, and so sent once."""
    style = (HERE / "tensor_canvas.css").read_text(encoding="utf-8")
    _library(key="canvas-library", data={"css": style})


def tensor_canvas(figure: Mapping[str, Any], *, key: str) -> None:
    """Draw a figure of `app.figures`; what a reader picks in it goes to the address."""
    if figure.get("kind") not in KINDS:
        raise ValueError(f"tensor_canvas draws {KINDS}, not {figure.get('kind')!r}.")
    _mount(key=key, data=dict(figure))
