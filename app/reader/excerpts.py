"""Lines on a page: upstream's where they are here and agree, and our own from the running code."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from html import escape

from pygments import lex
from pygments.lexers import JsonLexer, PythonLexer
from pygments.token import STANDARD_TYPES, Token

from annotations.node import Node, Source, Symbol
from annotations.pins import NotHere, excerpt, local_file, pins
from app.reader.context import Reading
from app.reader.mathml import attributes
from model.catalog import SourceLines, source_of

LONGEST = 48
"""A longer stretch of ours is cut to the lines around the hits."""
AROUND = 6
_WORDS = ('<span class="c', '<span class="s')
"""Comments and texts, in which a name is a word like any other."""


@dataclass(frozen=True, kw_only=True)
class Evidence:
    """One source as a card."""

    grade: str
    claim: str
    path: str
    lines: str
    within: str
    url: str
    repo: str
    commit: str
    status: str
    key: str
    """Of the excerpt in the payload; empty where there is none."""
    missing: str
    advice: str
    """What would bring the excerpt, in words with code between backticks."""
    file_lines: int
    marks: tuple[tuple[float, float], ...]
    """Where the lines lie in the file, as shares of its length."""


@dataclass(frozen=True, kw_only=True)
class Ours:
    """One stretch of our own lines."""

    path: str
    name: str
    key: str


class Lines:
    """Every excerpt of a payload once, by what it shows."""

    def __init__(self) -> None:
        self.kept: dict[str, str] = {}
        self.sources: dict[str, SourceLines] = {}

    def source(self, name: str) -> SourceLines:
        """Our lines by name; a payload looks for each once."""
        if name not in self.sources:
            self.sources[name] = source_of(name)
        return self.sources[name]

    def add(self, key: str, html: str) -> str:
        self.kept[key] = html
        return key


def evidence(source: Source, lines: Lines) -> Evidence:
    pin = pins()[source.pin]
    found = excerpt(source)
    shown = {
        "grade": source.grade,
        "claim": source.claim,
        "path": source.path.rsplit("/", 1)[-1],
        "lines": source.lines.replace("-", "–"),
        "within": source.within,
        "url": found.url,
        "repo": pin.repo,
        "status": found.status,
    }
    if isinstance(found, NotHere):
        return Evidence(
            **shown,
            commit=pin.commit,
            key="",
            missing=found.reason,
            advice=found.advice,
            file_lines=0,
            marks=(),
        )
    file = local_file(pin, source.path)
    total = 0 if isinstance(file, str) else len(file.text.splitlines())
    marks = tuple(((a - 1) / total, (b - a + 1) / total) for a, b in source.ranges) if total else ()
    key = f"{source.pin}:{source.path}:{source.lines}"
    if key not in lines.kept:
        parts = [(part.first, part.lines) for part in found.parts]
        lines.add(key, numbered(parts, source.path, {}, frozenset()))
    return Evidence(
        **shown, commit=found.commit, key=key, missing="", advice="", file_lines=total, marks=marks
    )


def our_lines(reading: Reading, node: Node, lines: Lines) -> tuple[Ours, ...]:
    """Our lines that compute a node; for a node that names none, those that call its taps."""
    taps = [tap for tap in (node.hits or node.taps) if tap in reading.taps]
    names = node.ours or tuple(taps)
    hit_lines = {(reading.taps[t].path, n) for t in taps for n in reading.taps[t].calls}
    found: dict[tuple[str, int], Ours] = {}
    for name in names:
        excerpt_lines = _brief(lines, name, hit_lines)
        hits = {n for path, n in hit_lines if path == excerpt_lines.path} | {*excerpt_lines.hits}
        place = (excerpt_lines.path, excerpt_lines.first_line)
        if place not in found:
            found[place] = _our_stretch(reading, node, excerpt_lines, frozenset(hits), lines)
    return tuple(found.values())


def _brief(lines: Lines, name: str, hit_lines: set[tuple[str, int]]) -> SourceLines:
    """A stretch by name; of a long class without a hit, what it does when it is called."""
    whole = lines.source(name)
    if len(whole.lines) <= LONGEST or "." in name or any(p == whole.path for p, _ in hit_lines):
        return whole
    try:
        return lines.source(f"{name}.forward")
    except LookupError:
        return whole


def _our_stretch(
    reading: Reading, node: Node, shown: SourceLines, hits: frozenset[int], lines: Lines
) -> Ours:
    key = f"ours:{node.id}:{shown.path}:{shown.first_line}:{len(node.symbols)}"
    parts = _around(shown, hits)
    margin = {
        line: " ".join(tap.dims)
        for tap in reading.taps.values()
        if tap.path == shown.path
        for line in tap.calls[-1:]
    }
    html = numbered(parts, shown.path, _identifiers(node.symbols), hits, margin)
    return Ours(path=shown.path, name=shown.name, key=lines.add(key, html))


def _around(shown: SourceLines, hits: frozenset[int]) -> list[tuple[int, tuple[str, ...]]]:
    """The stretch whole, or where it is long the lines around its hits and its first line."""
    first, last = shown.first_line, shown.first_line + len(shown.lines) - 1
    inside = sorted(n for n in hits if first <= n <= last)
    if len(shown.lines) <= LONGEST or not inside:
        return [(first, shown.lines)]
    wanted = {first} | {n for h in inside for n in range(h - AROUND, h + AROUND + 1)}
    wanted = sorted(n for n in wanted if first <= n <= last)
    parts: list[tuple[int, tuple[str, ...]]] = []
    for n in wanted:
        line = shown.lines[n - first]
        if parts and parts[-1][0] + len(parts[-1][1]) == n:
            parts[-1] = (parts[-1][0], (*parts[-1][1], line))
        else:
            parts.append((n, (line,)))
    return parts


def _identifiers(symbols: tuple[Symbol, ...]) -> Mapping[str, Symbol]:
    """Names in our code that stand for a symbol: a tap's attribute, a parameter's module."""
    named: dict[str, Symbol] = {}
    for symbol in symbols:
        target = symbol.tap or symbol.param or ""
        parts = [part for part in target.split(".")[1:] if part != "weight"]
        if parts:
            named.setdefault(parts[-1], symbol)
    return named


def numbered(
    parts: list[tuple[int, tuple[str, ...]]],
    path: str,
    identifiers: Mapping[str, Symbol],
    hits: frozenset[int],
    margin: Mapping[int, str] | None = None,
) -> str:
    """Stretches of a file with their true line numbers; what lies between them is said."""
    rows, last = [], 0
    for first, lines in parts:
        if last and first > last + 1:
            omitted = f"lines {last + 1}–{first - 1}" if first > last + 2 else f"line {last + 1}"
            rows.append(f'<span class="l om" data-n="⋯">{omitted}</span>')
        for offset, html in enumerate(_highlighted(lines, path)):
            number = first + offset
            marked = _with_symbols(html, identifiers)
            dims = (margin or {}).get(number) if number in hits else None
            note = f'  <span class="ks-dims"># {escape(dims)}</span>' if dims else ""
            kind = "l hit" if number in hits else "l"
            rows.append(f'<span class="{kind}" data-n="{number}">{marked}{note}</span>')
        last = first + len(lines) - 1
    return "".join(rows)


@lru_cache(maxsize=2048)
def _highlighted(lines: tuple[str, ...], path: str) -> tuple[str, ...]:
    """Each line by itself as HTML, its tokens classed as Pygments calls them."""
    lexer = JsonLexer() if path.endswith(".json") else PythonLexer(stripnl=False, ensurenl=False)
    rows: list[list[str]] = [[]]
    for kind, text in lex("\n".join(lines), lexer):
        name = STANDARD_TYPES.get(kind, "")
        plain = kind in Token.Text or name in ("", "n", "o", "p", "w", "bp")
        for i, piece in enumerate(text.split("\n")):
            if i:
                rows.append([])
            if piece:
                shown = escape(piece, quote=False)
                rows[-1].append(shown if plain else f'<span class="{name}">{shown}</span>')
    html = ["".join(row) for row in rows]
    return tuple([*html, *[""] * (len(lines) - len(html))][: len(lines)])


def _with_symbols(html: str, identifiers: Mapping[str, Symbol]) -> str:
    if not identifiers:
        return html
    names = "|".join(sorted(map(re.escape, identifiers), key=len, reverse=True))
    pieces = re.split(r"(<[^>]+>)", html)
    pattern = re.compile(rf"(?<!\w)(?:self\.)?({names})(?!\w)")
    before = ["", *pieces]
    return "".join(
        piece
        if piece.startswith("<") or tag.startswith(_WORDS)
        else pattern.sub(lambda m: f"<span {attributes(identifiers[m[1]])}>{m[0]}</span>", piece)
        for tag, piece in zip(before, pieces, strict=False)
    )
