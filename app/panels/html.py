"""Our HTML comes from templates that escape every value."""

from functools import cache
from pathlib import Path
from typing import Any

import streamlit as st
from jinja2 import Environment, FileSystemLoader, StrictUndefined

from app.figures.numerals import power, share_of_scale, true_minus
from app.models import name_of

HERE = Path(__file__).parent


@cache
def _environment() -> Environment:
    made = Environment(
        loader=FileSystemLoader(HERE / "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters.update(power=power, gauge=share_of_scale, minus=true_minus, model=name_of)
    return made


def render(template: str, **values: Any) -> str:
    return _environment().get_template(template).render(**values)


def style() -> None:
    """The style sheet of the live half; the sidebar asks for it, so that every page has it."""
    st.html(HERE / "live.css")


def draw(template: str, **values: Any) -> None:
    """Put a template on the page."""
    st.html(render(template, **values))
