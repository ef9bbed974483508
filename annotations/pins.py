"""Pinned upstream files on this machine: where they lie, and what of them a page may show.

Nothing here opens a connection; `annotations/fetch.py` does, when it is told to.
"""

import ast
import os
import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache, lru_cache
from pathlib import Path

from annotations.node import Source

PINS = Path(__file__).parent / "pins.toml"
FOLDER = "KIMISCOPE_PINNED_DIR"
"""Environment variable: a folder with `<pin>/<path>`, preferred to every cache."""
CACHE = "KIMISCOPE_CACHE"
HOW_TO_FETCH = (
    "To see the lines here, run `.venv/bin/python -m annotations fetch` in the checkout and load "
    "this page again. Without a network, name a folder that holds `<pin>/<path>` in `"
    + FOLDER
    + "`."
)
_HOSTS = ("hub", "github")


@dataclass(frozen=True, kw_only=True, slots=True)
class Pin:
    """One repository at one commit."""

    name: str
    host: str
    repo: str
    commit: str

    def __post_init__(self) -> None:
        if self.host not in _HOSTS:
            raise ValueError(f"pin {self.name!r} has the host {self.host!r}, not hub or github")

    def url(self, path: str, lines: str = "") -> str:
        """The page of the file at this commit, at the first range of lines."""
        site = "https://huggingface.co" if self.host == "hub" else "https://github.com"
        first = re.match(r"(\d+)(?:-(\d+))?", lines)
        mark = f"#L{first[1]}" + (f"-L{first[2]}" if first[2] else "") if first else ""
        return f"{site}/{self.repo}/blob/{self.commit}/{path}{mark}"


@dataclass(frozen=True, kw_only=True, slots=True)
class File:
    """A pinned file that is here."""

    text: str
    commit: str
    """The full commit where the cache knows it, else the pin's."""
    origin: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Part:
    """Consecutive lines, numbered as upstream numbers them."""

    first: int
    lines: tuple[str, ...]

    @property
    def last(self) -> int:
        return self.first + len(self.lines) - 1


@dataclass(frozen=True, kw_only=True, slots=True)
class Excerpt:
    """Lines whose symbol, numbers and identifiers agreed with what the source says of them."""

    parts: tuple[Part, ...]
    commit: str
    url: str
    origin: str
    status: str = "checked on fetch"

    @property
    def omitted(self) -> tuple[tuple[int, int], ...]:
        """First and last line of what lies between the parts."""
        pairs = zip(self.parts, self.parts[1:], strict=False)
        return tuple((a.last + 1, b.first - 1) for a, b in pairs)


@dataclass(frozen=True, kw_only=True, slots=True)
class NotHere:
    """Why there is no excerpt, and what would bring one."""

    reason: str
    advice: str
    url: str
    status: str = "unchecked"


@cache
def pins() -> Mapping[str, Pin]:
    return load_pins(PINS.read_text(encoding="utf-8"))


def load_pins(text: str) -> Mapping[str, Pin]:
    return {name: Pin(name=name, **facts) for name, facts in tomllib.loads(text).items()}


def excerpt(source: Source, folder: Path | None = None) -> Excerpt | NotHere:
    """The lines of a source, if their file is here and they are what the source says they are."""
    pin = pins()[source.pin]
    url = pin.url(source.path, source.lines)
    found = local_file(pin, source.path, folder)
    if isinstance(found, str):
        return NotHere(reason=found, advice=HOW_TO_FETCH, url=url)
    if disagreements := faults(source, found.text):
        return NotHere(
            reason=f"{source.path} is here, and its lines are not shown: "
            + "; ".join(disagreements)
            + ".",
            advice="Compare the lines upstream with the node's source and correct the node.",
            url=url,
            status="checked, and does not agree",
        )
    rows = found.text.splitlines()
    parts = tuple(Part(first=a, lines=tuple(rows[a - 1 : b])) for a, b in source.ranges)
    return Excerpt(parts=parts, commit=found.commit, url=url, origin=found.origin)


def local_file(pin: Pin, path: str, folder: Path | None = None) -> File | str:
    """The file from the named folder or a cache; a sentence where it is in neither."""
    named = folder or _named_folder()
    file = local_path(pin, path, named)
    if named is not None:
        if file is None:
            return f"{named} holds no {pin.name}/{path}."
        return _opened(file, pin.commit, f"folder {named}")
    if file is None:
        return f"{path} of {pin.repo} has not been fetched."
    if fault := wrong_commit(pin, path, file):
        return fault
    return _opened(file, _commit(pin, file), f"{pin.host} cache")


def local_path(pin: Pin, path: str, folder: Path | None = None) -> Path | None:
    """Where the file lies: in the named folder, or in a cache where no folder is named."""
    named = folder or _named_folder()
    if named is None:
        return cached_path(pin, path)
    file = named / pin.name / path
    return file if file.is_file() else None


def _named_folder() -> Path | None:
    return Path(os.environ[FOLDER]) if os.environ.get(FOLDER) else None


def _opened(file: Path, commit: str, origin: str) -> File | str:
    try:
        return File(text=file.read_text(encoding="utf-8"), commit=commit, origin=origin)
    except (OSError, UnicodeDecodeError) as error:
        return f"{file} cannot be read as text: {error}."


def cached_path(pin: Pin, path: str) -> Path | None:
    if pin.host == "hub":
        # the client takes long to import, and a page without excerpts does not need it
        from huggingface_hub import try_to_load_from_cache

        found = try_to_load_from_cache(pin.repo, path, revision=pin.commit)
        return Path(found) if isinstance(found, str) else None
    file = github_path(pin, path)
    return file if file.is_file() else None


def github_path(pin: Pin, path: str) -> Path:
    stated = os.environ.get(CACHE)
    base = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    root = Path(stated) if stated else Path(base) / "kimiscope"
    return root / "pins" / pin.repo / pin.commit / path


def faults(source: Source, text: str) -> list[str]:
    """Every way in which a file does not bear a source out."""
    rows, found = text.splitlines(), []
    last = source.ranges[-1][1]
    if last > len(rows):
        return [f"it has {len(rows)} lines, and line {last} was asked for"]
    if source.within and source.path.endswith(".py"):
        found += _outside(source, text)
    shown = "\n".join(row for a, b in source.ranges for row in rows[a - 1 : b])
    missing = [n for n in source.names if not re.search(rf"(?<!\w){re.escape(n)}(?!\w)", shown)]
    if missing:
        found.append(f"lines {source.lines} do not hold {', '.join(missing)}")
    return found


def _outside(source: Source, text: str) -> list[str]:
    spans = [
        span
        for name, span in definitions(text)
        if name == source.within or name.endswith("." + source.within)
    ]
    if not spans:
        return [f"it defines no {source.within}"]
    first, last = source.ranges[0][0], source.ranges[-1][1]
    if any(a <= first and last <= b for a, b in spans):
        return []
    a, b = spans[0]
    return [f"{source.within} is lines {a}-{b}, and {source.lines} reach beyond it"]


@lru_cache(maxsize=8)
def definitions(text: str) -> tuple[tuple[str, tuple[int, int]], ...]:
    """Dotted name and lines, decorators included, of every class and function of a Python file."""
    found: list[tuple[str, tuple[int, int]]] = []

    def walk(node: ast.AST, prefix: str) -> None:
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
                name = f"{prefix}{child.name}"
                first = min([child.lineno, *(d.lineno for d in child.decorator_list)])
                found.append((name, (first, child.end_lineno or first)))
                walk(child, name + ".")
            else:
                walk(child, prefix)

    try:
        walk(ast.parse(text), "")
    except SyntaxError:
        return ()
    return tuple(found)


def wrong_commit(pin: Pin, path: str, file: Path) -> str:
    """A sentence where a cached file is of another commit than the pin begins with."""
    commit = _commit(pin, file)
    if commit.startswith(pin.commit):
        return ""
    return f"{path} of {pin.repo} is here at {commit[:12]}, and {pin.commit[:12]} is pinned."


def _commit(pin: Pin, file: Path) -> str:
    """The full commit of a Hub cache, whose folders are named for it; else the pin's."""
    if pin.host != "hub":
        return pin.commit
    snapshots = next(parent for parent in file.parents if parent.name == "snapshots")
    return file.relative_to(snapshots).parts[0]
