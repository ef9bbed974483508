"""The font of the equations: STIX Two Math from the package `ziamath`, cut down and kept.

STIX Two Math is under the SIL Open Font License; the cut is made on this machine and kept in its
cache, never in this repository.
"""

import hashlib
from functools import cache
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path

from app.reader.kept import made_once

LATIN = range(0x20, 0x250)
GREEK = range(0x370, 0x400)
BLOCKS = (
    LATIN,
    GREEK,
    range(0x2000, 0x2070),  # spaces, dashes, primes
    range(0x2190, 0x2200),  # arrows
    range(0x2200, 0x2300),  # operators
    range(0x2308, 0x230C),  # floors and ceilings
    range(0x27E6, 0x27F0),  # brackets
    range(0x27F5, 0x2800),  # long arrows
    range(0x2A00, 0x2A10),  # large operators
    range(0x1D400, 0x1D7FF + 1),  # mathematical letters
)
EXTRA = (0x2102, 0x210D, 0x210E, 0x2115, 0x2119, 0x211A, 0x211D, 0x2113, 0x22C5, 0x2299)
EDITION = 1
"""Raised when the blocks change, so that an older cut is not taken."""


def _source() -> Path:
    found = find_spec("ziamath")
    if found is None or not found.submodule_search_locations:
        raise LookupError("The package ziamath, which brings STIX Two Math, is not installed.")
    return Path(found.submodule_search_locations[0]) / "fonts" / "STIXTwoMath-Regular.ttf"


@cache
def font() -> bytes:
    """The cut as woff2, made once and then read from the cache."""
    name = f"stix-two-math-{version('ziamath')}-{EDITION}.woff2"
    return made_once("fonts", name, lambda: _cut(_source()))


def _cut(source: Path) -> bytes:
    from io import BytesIO

    from fontTools.subset import Options, Subsetter
    from fontTools.ttLib import TTFont

    options = Options(flavor="woff2")
    options.layout_features = ["ssty", "mkmk", "mark", "ccmp", "kern", "dtls"]
    options.drop_tables += ["DSIG"]
    face = TTFont(source)
    cutter = Subsetter(options)
    cutter.populate(unicodes=[*(c for block in BLOCKS for c in block), *EXTRA])
    cutter.subset(face)
    face.flavor = "woff2"
    out = BytesIO()
    face.save(out)
    return out.getvalue()


@cache
def packed() -> bytes:
    """The font as the reader's mount "below" takes it."""
    body = font()
    return f"below {hashlib.sha256(body).hexdigest()[:12]}\n".encode() + body
