"""Colours, in one table for both themes: nine streams, the paper they stand on, and two scales."""

from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Literal

import streamlit as st
from jinja2 import Environment, FileSystemLoader, StrictUndefined

Mode = Literal["light", "dark"]
HERE = Path(__file__).parent


@dataclass(frozen=True, kw_only=True)
class Stream:
    """What a hue means, with the second cue that says the same without colour."""

    light: str
    dark: str
    dash: str
    """SVG dash pattern of its lines; empty for a solid one."""
    cue: str


STREAMS = {
    "query": Stream(light="#0054B1", dark="#5592D3", dash="", cue="solid"),
    "key": Stream(light="#BB3B00", dark="#F4813A", dash="", cue="solid, square mark"),
    "value": Stream(light="#006D42", dark="#85F2B2", dash="", cue="solid, triangle"),
    "latent": Stream(light="#97007D", dark="#FE8DFE", dash="7 3", cue="dashed"),
    "gate": Stream(light="#756307", dark="#DDBB1E", dash="1.5 3", cue="dotted"),
    "decay": Stream(light="#007486", dark="#2EC3CD", dash="", cue="hollow bar"),
    "state": Stream(light="#3A0F98", dark="#9F70FE", dash="2 2.5", cue="double line"),
    "residual": Stream(light="#414A59", dark="#C8D3E2", dash="4 3", cue="solid; reads dashed"),
    "routing": Stream(light="#860430", dark="#F74977", dash="7 3 1.5 3", cue="dash-dot"),
}

TOKENS: dict[str, tuple[str, str]] = {
    "paper": ("#FCFBF8", "#15171B"),
    "panel": ("#F4F2EC", "#1C1F24"),
    "sel": ("#EFEBE2", "#20242A"),
    "ink": ("#1D1E20", "#E8E6E1"),
    "soft": ("#565A61", "#ABAEB5"),
    "faint": ("#63676E", "#969AA2"),
    "rule": ("#D9D5CB", "#393D45"),
    "hair": ("#E9E5DC", "#282C32"),
    "neg": ("#1A5FB4", "#6FB0FF"),
    "zero": ("#F3F0E8", "#24272D"),
    "pos": ("#C4560B", "#FF9B4E"),
}


def mode() -> Mode:
    """The theme that this visitor sees."""
    return "dark" if st.context.theme.type == "dark" else "light"


def colours(mode: Mode) -> dict[str, str]:
    """Every named colour of one theme, as hex."""
    side = 0 if mode == "light" else 1
    tokens = {name: pair[side] for name, pair in TOKENS.items()}
    return tokens | {name: getattr(stream, mode) for name, stream in STREAMS.items()}


@cache
def frame_css(mode: Mode) -> str:
    """The style sheet of Streamlit's frame for one theme, its colours as custom properties."""
    environment = Environment(
        loader=FileSystemLoader(HERE / "templates"), undefined=StrictUndefined, autoescape=False
    )
    return environment.get_template("frame.css.j2").render(
        colours=colours(mode), printed=colours("light")
    )
