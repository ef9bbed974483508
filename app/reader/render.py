"""Templates to HTML, with autoescape on and every missing name an error."""

from functools import cache
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from app.reader.numbers import span

TEMPLATES = Path(__file__).parents[1] / "templates"


@cache
def _environment() -> Environment:
    made = Environment(
        loader=FileSystemLoader(TEMPLATES), undefined=StrictUndefined, autoescape=True
    )
    made.filters["live"] = span
    return made


def render(template: str, page: object) -> Markup:
    """One template with its page; runs of blank space between tags are closed up."""
    html = _environment().get_template(template).render(page=page)
    return Markup("\n".join(line for line in html.splitlines() if line.strip()))
