"""The models that pages are made for: the released sizes, and what can run here, as it is."""

from annotations.node import MODELS
from app import sources
from app.run_kinship import released_like
from model.config import KimiConfig
from model.presets import preset

NAMES = {"k3": "K3", "k2": "K2", "kimi-linear": "Kimi-Linear"}
LONG_NAMES = {"k3": "Kimi K3", "k2": "Kimi K2", "kimi-linear": "Kimi-Linear-48B"}


def config_of(model: str) -> KimiConfig:
    """Of a released model, or of a source.

    Raises LookupError with a sentence where the source has none that can be read.
    """
    return preset(model) if model in MODELS else sources.config_of(model)


def family_of(model: str) -> str:
    """The released model whose outline and words a model's pages are made from.

    Raises LookupError where a source is built as none of them.
    """
    if model in MODELS:
        return model
    family = released_like(config_of(model))
    if family is None:
        raise LookupError(
            f"{model} is built as none of {', '.join(NAMES.values())}, so there are no pages of "
            "its own sizes. It can run beside a released model's pages."
        )
    return family


def name_of(model: str) -> str:
    return NAMES.get(model, model)


def long_name_of(model: str) -> str:
    return LONG_NAMES.get(model, model)


def readable(asked: str = "") -> tuple[str, ...]:
    """Every model that has pages: the released ones, then the sources whose kind is known.

    Of a source that is asked for it is found out, which may take a question to the Hub.
    """
    if asked in sources.sources():
        sources.fault_of(asked)
    return (*MODELS, *(key for key in sources.at_hand() if _has_pages(key)))


def _has_pages(key: str) -> bool:
    try:
        family_of(key)
    except LookupError:
        return False
    return True
