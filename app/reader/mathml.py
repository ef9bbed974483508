r"""LaTeX to MathML, with every symbol of a node marked so that it can be coloured and lit.

A symbol is found by its tokens, as `annotations.tex` finds it, and wrapped in `\class{…}{…}`, which
latex2mathml passes through; afterwards the class becomes attributes of the element.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from html import escape, unescape
from xml.etree.ElementTree import Element, SubElement, tostring

from latex2mathml.converter import convert_to_element

from annotations.node import Symbol
from annotations.tex import tokens

MARK = "kssym"
_MARKED = re.compile(rf'class="{MARK}-(\d+)"')
_ROWS = re.compile(
    r"\A\s*\\begin\{(aligned|align\*?|gathered|split)\}(.*)\\end\{\1\}\s*\Z", re.DOTALL
)
_PRIMES = {"&#x02032;", "&#x02033;", "&#x02034;", "\u2032", "\u2033", "\u2034"}
_UPRIGHT = {
    r"\mathrm",
    r"\operatorname",
    r"\operatorname*",
    r"\text",
    r"\textrm",
    r"\begin",
    r"\end",
}
"""Commands whose argument is a word, in which no symbol is looked for."""


@dataclass(frozen=True, slots=True)
class _Wanted:
    """One symbol to be found: its tokens, and its number among the node's symbols."""

    row: tuple[str, ...]
    number: int


def mathml(tex: str, symbols: Iterable[Symbol] = (), *, display: bool = False) -> str:
    """One formula as a `<math>` element."""
    return _mathml(tex, tuple(symbols), display)


@lru_cache(maxsize=8192)
def _mathml(tex: str, symbols: tuple[Symbol, ...], display: bool) -> str:
    rows = _ROWS.match(tex)
    if rows is None:
        inner = _inner(_marked(tex, symbols))
    else:
        cells = [_cells(row) for row in _split(rows[2], r"\\") if row.strip()]
        inner = "<mtable>" + "".join(_table_row(row, symbols) for row in cells) + "</mtable>"
    kind = ' display="block"' if display else ""
    alt = escape(" ".join(tex.split()), quote=True)
    body = _with_attributes(inner, symbols)
    return (
        f'<math xmlns="http://www.w3.org/1998/Math/MathML"{kind} alttext="{alt}">'
        f"<mrow>{body}</mrow></math>"
    )


def found(tex: str, symbol: Symbol) -> bool:
    """Whether the formula marks the symbol somewhere."""
    return f"{MARK}-0" in _marked(tex, (symbol,))


def _table_row(cells: list[str], symbols: tuple[Symbol, ...]) -> str:
    row = []
    for column, cell in enumerate(cells):
        side = ' class="ks-r"' if column % 2 == 0 and len(cells) > 1 else ""
        content = _inner(_marked(cell, symbols)) if cell.strip() else ""
        row.append(f"<mtd{side}>{content}</mtd>")
    return f"<mtr>{''.join(row)}</mtr>"


def _cells(row: str) -> list[str]:
    return [cell.strip() for cell in _split(row, "&")]


def _split(tex: str, separator: str) -> list[str]:
    """Split at the top level: not inside braces, nor inside an inner environment."""
    parts, depth, start = [], 0, 0
    for text, first, last in tokens(tex):
        if text in ("{", r"\begin"):
            depth += 1
        elif text in ("}", r"\end"):
            depth -= 1
        elif text == separator and depth == 0:
            parts.append(tex[start:first])
            start = last
    return [*parts, tex[start:]]


def _inner(tex: str) -> str:
    """What stands inside the one `<mrow>` of a converted formula, its texts escaped."""
    # the library's own string form undoes the escaping of texts
    element = convert_to_element(tex)
    _lower_primes(element)
    math = tostring(element, encoding="unicode")
    math = math.replace("&amp;#x", "&#x").replace("&amp;amp;", "&amp;")
    math = math.replace("<mover>", '<mover accent="true">')
    body = math[math.index(">") + 1 : math.rindex("</math>")]
    return body.removeprefix("<mrow>").removesuffix("</mrow>")


def _lower_primes(element: Element) -> None:
    """Set primes beside their letter: the font draws them raised already."""
    for inner in element.iter():
        kind, last = inner.tag, inner[-1] if len(inner) else None
        if kind not in ("msup", "msubsup") or last is None or (last.text or "") not in _PRIMES:
            continue
        base = list(inner)[:-1]
        inner.clear()
        inner.tag = "mrow"
        if kind == "msubsup":
            lower = SubElement(inner, "msub")
            lower.extend(base)
        else:
            inner.extend(base)
        SubElement(inner, "mo", lspace="0", rspace="0").text = last.text


def _with_attributes(inner: str, symbols: tuple[Symbol, ...]) -> str:
    return _MARKED.sub(lambda m: attributes(symbols[int(m[1])]), inner)


def attributes(symbol: Symbol) -> str:
    """Attributes of any element that stands for a symbol: its stream, its name, what it means."""
    stream = f" stream-{symbol.stream}" if symbol.stream else ""
    title = f' title="{escape(symbol.means, quote=True)}"' if symbol.means else ""
    name = escape(symbol.tex, quote=True)
    return (
        f'class="ks-sym{stream}" data-symbol="{name}" data-stream="{escape(symbol.stream)}"{title}'
    )


def _marked(tex: str, symbols: tuple[Symbol, ...]) -> str:
    wanted = [
        _Wanted(tuple(text for text, _, _ in tokens(s.tex)), i) for i, s in enumerate(symbols)
    ]
    longest_first = sorted((w for w in wanted if w.row), key=lambda w: -len(w.row))
    return _mark(tex, longest_first)


def _mark(tex: str, wanted: list[_Wanted]) -> str:
    row = tokens(tex)
    words = [text for text, _, _ in row]
    out, copied, at = [], 0, 0
    while at < len(row):
        if words[at] in _UPRIGHT and at + 1 < len(row) and words[at + 1] == "{":
            # a symbol may itself begin with such a command
            if (hit := _hit(words, at, wanted)) is None:
                at = _group_end(words, at + 1)
                continue
        elif (hit := _hit(words, at, wanted)) is None:
            at += 1
            continue
        end = at + len(hit.row)
        first, last = row[at][1], row[end - 1][2]
        scripts = _scripts_end(words, end)
        out.append(tex[copied:first])
        trailing = tex[last : row[scripts - 1][2]] if scripts > end else ""
        inner = [w for w in wanted if w is not hit]
        out.append(
            rf"{{\class{{{MARK}-{hit.number}}}{{{tex[first:last]}{_mark(trailing, inner)}}}}}"
        )
        copied, at = row[scripts - 1][2] if scripts > end else last, max(scripts, end)
    return "".join([*out, tex[copied:]])


def _hit(words: list[str], at: int, wanted: list[_Wanted]) -> _Wanted | None:
    # the bare argument of a command such as \hat belongs to it
    if at and words[at - 1].startswith("\\") and words[at - 1] in _ACCENTS:
        return None
    for candidate in wanted:
        if tuple(words[at : at + len(candidate.row)]) == candidate.row:
            return candidate
    return None


_ACCENTS = {
    r"\hat",
    r"\bar",
    r"\tilde",
    r"\vec",
    r"\dot",
    r"\overline",
    r"\widehat",
    r"\left",
    r"\right",
}


def _group_end(words: list[str], opening: int) -> int:
    """The index after the brace that closes the one at `opening`."""
    depth = 0
    for index in range(opening, len(words)):
        depth += (words[index] == "{") - (words[index] == "}")
        if depth == 0:
            return index + 1
    return len(words)


def _scripts_end(words: list[str], at: int) -> int:
    """The index after the subscripts, superscripts and primes that follow."""
    while at < len(words):
        if words[at] == "'":
            at += 1
        elif words[at] in ("_", "^") and at + 1 < len(words):
            at = _group_end(words, at + 1) if words[at + 1] == "{" else at + 2
        else:
            break
    return at


def spoken(math: str) -> str:
    """The text of a formula, for search and for tests."""
    return unescape(re.sub(r"<[^>]+>", "", math))
