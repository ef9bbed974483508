"""The three marks inside our sentences: `{placeholder}`, `[[link]]` and spans that are left alone.

Code between backticks and mathematics between dollars are never searched, so a brace of LaTeX is
no placeholder.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass

_MARKS = re.compile(
    r"(?P<code>`[^`]*`)|(?P<maths>\$[^$]*\$)"
    r"|\[\[(?P<target>[^\]|]+)(?:\|(?P<label>[^\]]+))?\]\]"
    r"|\{(?:(?P<model>k3|k2|kimi-linear)\.)?(?P<name>[a-z][a-z0-9_]*)(?::(?P<format>[^{}]*))?\}"
)


@dataclass(frozen=True, slots=True)
class Link:
    """`[[mla/scores]]`, `[[norm/rms @ self_attn.q_a_layernorm]]`, `[[mla/scores|the scores]]`."""

    node: str
    instance: str
    label: str
    """Empty: the title of the node."""


@dataclass(frozen=True, slots=True)
class Placeholder:
    """`{hidden_size:,}` for the model on screen, `{k2.hidden_size:,}` for a model by name.

    The name is a fact of `model/cost.py` or a field of the configuration.
    """

    model: str
    """Empty: the model on screen, or the model of the `# k2` section it stands in."""
    name: str
    format: str


def link(target: str, label: str = "") -> Link:
    node, _, instance = (part.strip() for part in target.partition("@"))
    return Link(node, instance, label.strip())


def links(text: str) -> tuple[Link, ...]:
    found = _MARKS.finditer(text)
    return tuple(link(m["target"], m["label"] or "") for m in found if m["target"])


def placeholders(text: str) -> tuple[Placeholder, ...]:
    return tuple(_placeholder(m) for m in _MARKS.finditer(text) if m["name"])


def fill(
    text: str, *, placeholder: Callable[[Placeholder], str], link: Callable[[Link], str]
) -> str:
    """`text` with every placeholder and link replaced; code and mathematics as they were."""

    def replaced(match: re.Match[str]) -> str:
        if match["name"]:
            return placeholder(_placeholder(match))
        if match["target"]:
            return link(_link(match))
        return match[0]

    return _MARKS.sub(replaced, text)


def braces_left(text: str) -> tuple[str, ...]:
    """What looks like a placeholder and is none, such as `{hidden size}`."""
    bare = _MARKS.sub(" ", text)
    return tuple(re.findall(r"\{[^{}]*\}?|\[\[[^\]]*\]?\]?", bare))


def maths(text: str) -> tuple[str, ...]:
    return tuple(m["maths"][1:-1] for m in _MARKS.finditer(text) if m["maths"])


def plain(text: str) -> str:
    """The words alone: no code, mathematics or placeholders, links by their label."""
    return _MARKS.sub(lambda m: m["label"] or " ", text)


def _placeholder(match: re.Match[str]) -> Placeholder:
    return Placeholder(match["model"] or "", match["name"], match["format"] or "")


def _link(match: re.Match[str]) -> Link:
    return link(match["target"], match["label"] or "")
