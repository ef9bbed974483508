"""The reading half of a page: one component, mounted in up to five places, that draws by itself."""

from pathlib import Path
from typing import Literal

from streamlit.components.v2 import component

HERE = Path(__file__).parent
SCRIPTS = tuple(sorted(path.name for path in (HERE / "js").glob("*.js")))
"""Joined into one module in the order of their numbers: a component's script cannot import."""

Mount = Literal["outline", "tree", "bar", "above", "below", "kernels"]


def joined_script() -> str:
    """The module that the browser loads; it travels without the comments of its files."""
    lines = _joined("js").splitlines()
    return "\n".join(line for line in lines if not line.lstrip().startswith(("//", "/*", "*")))


def joined_style() -> str:
    """The style sheet of all mounts."""
    return _joined("css")


def _joined(kind: str) -> str:
    files = sorted((HERE / kind).glob(f"*.{kind}"))
    return "\n".join(path.read_text(encoding="utf-8") for path in files)


_HTML = (HERE / "reader.html").read_text(encoding="utf-8")
_reader = component(
    "kimiscope_reader",
    html=_HTML,
    css=joined_style(),
    js=joined_script(),
    isolate_styles=False,
)
# a component's script and style travel with every mount of it, so one mount alone has them
_part = component(
    "kimiscope_reader_part",
    html=_HTML,
    js=(HERE / "part.js").read_text(encoding="utf-8"),
    isolate_styles=False,
)


def reader(mount: Mount, payload: bytes | None = None, *, key: str | None = None) -> None:
    """Mount one part of the reader.

    `payload` is what `app.reader.payload.packed` (for "outline"), `app.reader.font.packed` (for
    "below") or `app.reader.kernel_payload.packed` (for "kernels") gives; the parts talk to one
    another in the browser. `key` must not change between reruns, or the part is set up anew. The
    mount "outline" brings the script of all.
    """
    draw = _reader if mount == "outline" else _part
    draw(data=payload or {"mount": mount}, key=key or f"reader-{mount}")
