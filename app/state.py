"""What is selected: read from the address and clamped, with a sentence for each change."""

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, TypeVar

from annotations.changes import PAIRS, Pair
from app.models import readable
from app.sources import BUILT_IN, sources

Default = TypeVar("Default", int, None)
Choice = TypeVar("Choice", bound=str)
Look = Literal["tensors", "decay", "residual", "router"]

VIEWS = ("overview", "node", "compare", "weights", "proofs", "memory", "kernel")
LOOKS: tuple[Look, ...] = ("tensors", "decay", "residual", "router")
"""What the page of weights shows: chosen tensors, or one of the ready-made views."""
PHASES = ("prefill", "decode")
LONGEST_PROMPT_IN_URL = 1_500
LONGEST_NEW_TOKENS = 256
HOTTEST = 2.0
LARGEST_SEED = 2**31 - 1
DEFAULT_PAIR: Pair = ("k2", "k3")
EXAMPLE_NODE = "mla/kv_cache"
READERS = ("view", "model", "node", "at", "layer", "phase", "from", "to", "kernel")
"""Parameters whose faults the reader, in the browser, has already spoken of."""


@dataclass(frozen=True, kw_only=True)
class Selection:
    """One address, understood: each field valid by itself; whether the node exists is not known."""

    view: str = "overview"
    model: str = "k3"
    pair: Pair = DEFAULT_PAIR
    """The two models that are compared, the older first."""
    source: str = BUILT_IN[0]
    node: str = EXAMPLE_NODE
    at: str | None = None
    layer: int | None = None
    phase: str = "decode"
    prompt: str | None = None
    new: int | None = None
    temperature: float = 0.0
    seed: int = 0
    step: int | None = None
    token: int | None = None
    head: int | None = None
    run: str | None = None
    kernel: str = ""
    """A file of `annotations/kernels`, whose page is on screen; none lists them all."""
    checkpoint: str = ""
    tensors: str = "*"
    look: Look = LOOKS[0]
    page: int = 1
    """Of the list of tensors, from 1."""
    notices: tuple[str, ...] = field(default=(), compare=False)
    """What the reader in the browser does not say by itself."""


class _Reader:
    """Takes parameters one by one and keeps a sentence for each that had to change."""

    def __init__(self, parameters: Mapping[str, str]) -> None:
        self.parameters = parameters
        self.notices: list[tuple[str, str]] = []

    def say(self, name: str, sentence: str) -> None:
        self.notices.append((name, sentence))

    def choice(self, name: str, allowed: tuple[Choice, ...], default: Choice) -> Choice:
        asked = self.parameters.get(name)
        if asked is None:
            return default
        for choice in allowed:
            if choice == asked:
                return choice
        self.say(
            name,
            f"The address asks for {name} {_shown(asked)}, which is not one of "
            f"{', '.join(allowed)}; showing {default}.",
        )
        return default

    def number(self, name: str, low: int, high: int, default: Default) -> int | Default:
        asked = self.parameters.get(name)
        if asked is None:
            return default
        value = _whole(asked)
        if value is None:
            shown = "the default" if default is None else f"{default:,}"
            self.say(
                name,
                f"The address asks for {name} {_shown(asked)}, which is not a whole number; "
                f"showing {shown}.",
            )
            return default
        clamped = min(max(value, low), high)
        if clamped != value:
            self.say(
                name,
                f"The address asks for {name} {_shown(asked)}; it goes from {low:,} to {high:,}, "
                f"so {clamped:,} is shown.",
            )
        return clamped

    def share(self, name: str, high: float) -> float:
        """A number from 0 on, 0 by default."""
        asked = self.parameters.get(name)
        if asked is None:
            return 0.0
        value = _decimal(asked)
        if value is None:
            self.say(
                name,
                f"The address asks for {name} {_shown(asked)}, which is not a number; showing 0.",
            )
            return 0.0
        clamped = min(max(value, 0.0), high)
        if clamped != value:
            self.say(
                name,
                f"The address asks for {name} {_shown(asked)}; it goes from 0 to {high:g}, so "
                f"{clamped:g} is shown.",
            )
        return clamped

    def text(self, name: str, pattern: str, longest: int) -> str | None:
        asked = self.parameters.get(name)
        if asked is None or (len(asked) <= longest and re.fullmatch(pattern, asked)):
            return asked
        self.say(
            name,
            f"The address asks for {name} {_shown(asked)}, which cannot be one; it is left out.",
        )
        return None


def _pair(parameters: Mapping[str, str]) -> Pair:
    """The models of `from` and `to`, put in order; the usual pair where they are none."""
    asked = parameters.get("from", DEFAULT_PAIR[0]), parameters.get("to", DEFAULT_PAIR[1])
    either = (asked, asked[::-1])
    return next((pair for pair in PAIRS if pair in either), DEFAULT_PAIR)


def _shown(asked: str) -> str:
    """What was asked, quoted, cut in the middle and without control characters."""
    printable = "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in asked)
    return repr(printable if len(printable) <= 40 else f"{printable[:24]}…{printable[-12:]}")


def _whole(asked: str) -> int | None:
    """A whole number as people write it in addresses: `4096`, `4,096`, `1e6`."""
    value = _decimal(asked.replace(",", "").replace("_", ""))
    return None if value is None else int(min(max(value, -1e15), 1e15))


def _decimal(asked: str) -> float | None:
    try:
        value = float(asked)
    except ValueError:
        return None
    return None if math.isnan(value) else value


def selection(parameters: Mapping[str, str]) -> Selection:
    """The address as a `Selection`: unknown values fall back, numbers are clamped, both said.

    Context and batch are not here: they change sizes, which the browser computes by itself.
    """
    read = _Reader(parameters)
    view = read.choice("view", VIEWS, "node" if "node" in parameters else "overview")
    return Selection(
        view=view,
        model=read.choice("model", readable(parameters.get("model", "")), "k3"),
        pair=_pair(parameters),
        source=read.choice("source", tuple(sources()), BUILT_IN[0]),
        node=read.text("node", r"[\w./-]+", 120) or EXAMPLE_NODE,
        at=read.text("at", r"[\w.]+", 120),
        layer=read.number("layer", 0, 10_000, None),
        phase=read.choice("phase", PHASES, "decode"),
        prompt=parameters.get("prompt"),
        new=read.number("new", 0, LONGEST_NEW_TOKENS, None),
        temperature=read.share("temperature", HOTTEST),
        seed=read.number("seed", 0, LARGEST_SEED, 0),
        step=read.number("step", 0, LONGEST_NEW_TOKENS, None),
        token=read.number("token", 0, 1_000_000, None),
        head=read.number("head", 0, 10_000, None),
        run=read.text("run", r"[0-9a-f]{6,64}", 64),
        kernel=read.text("kernel", r"\w+", 40) or "",
        checkpoint=read.text("checkpoint", r"[\w./-]+", 200) or "",
        tensors=read.text("tensors", r"[\w.*?\[\]!-]+", 200) or "*",
        look=read.choice("look", LOOKS, LOOKS[0]),
        page=read.number("page", 1, 1_000_000, 1),
        notices=tuple(sentence for name, sentence in read.notices if name not in READERS),
    )
