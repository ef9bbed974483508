"""Where a symbol stands in an equation, by tokens of LaTeX rather than by characters."""

import re

_TOKEN = re.compile(r"\\[a-zA-Z]+\*?|\\.|[^\s\\]")
_SPACES = {r"\,", r"\;", r"\:", r"\!", r"\quad", r"\qquad", r"\ ", "~"}


def tokens(tex: str) -> list[tuple[str, int, int]]:
    """Each token with its start and end. Spacing is none: it never tells two symbols apart."""
    found = [(m[0], m.start(), m.end()) for m in _TOKEN.finditer(tex)]
    return [token for token in found if token[0] not in _SPACES]


def occurrences(equation: str, tex: str) -> list[tuple[int, int]]:
    r"""Every span of `equation` that reads as `tex`; `h` is not found in `\hat`."""
    row, wanted = tokens(equation), [text for text, _, _ in tokens(tex)]
    width = len(wanted)
    if not width:
        return []
    starts = range(len(row) - width + 1)
    hits = [i for i in starts if [text for text, _, _ in row[i : i + width]] == wanted]
    return [(row[i][1], row[i + width - 1][2]) for i in hits]
