"""What to look for in a live tensor, with the numbers of the model that runs."""

from markupsafe import Markup

from annotations.prose import Placeholder, fill
from model.config import KimiConfig
from model.cost import fact


def look_text(text: str, config: KimiConfig) -> Markup:
    """Placeholders filled for the running model; links as their words; code kept as code."""
    filled = fill(
        text,
        placeholder=lambda asked: _number(asked, config),
        link=lambda link: link.label or link.node.rpartition("/")[2].replace("_", " "),
    )
    parts = filled.replace("$", "").split("`")
    # every second part stood between backticks
    code = Markup("<code>{}</code>")
    return Markup("").join(code.format(p) if i % 2 else p for i, p in enumerate(parts))


def _number(asked: Placeholder, config: KimiConfig) -> str:
    return format(fact(asked.name, config).value, asked.format)
