"""A finished training as the weights that come with the program, measured and described.

    python -m model.training.release FOLDER

copies the checkpoint from the folder of `python -m model train`, evaluates it on seeds that nobody
trained on, lets it write, and makes the card from what was found.
"""

import argparse
import json
import shutil
from collections.abc import Sequence
from itertools import takewhile
from pathlib import Path
from typing import Any

from model.kimi import KimiLM
from model.load import load
from model.shipped import FOLDER, SUMS
from model.trace import run
from model.training.card import card
from model.training.evaluation import report
from model.training.loop import LOG
from model.training.recipe import K3_MINI
from model.training.ship import SHIPPED

NAME = "k3-mini"
SEEDS = (101, 202, 303)
TOKENS = 300_000
FOUND, CARD = "evaluation.json", "README.md"
OPENINGS = (
    "One frosty morning, Mira the baker",
    "In the town of Lund there lived",
    "It was a windy day in Marn, and Otto",
    "Long ago a quiet",
    "When the sun came up over Falk,",
    "Everybody in Kolm knows",
    "The mill of Jura is known for",
    "Behind the library lives",
    "At six Clara wakes up",
    "Early in the day Karl",
)
"""Phrases that begin what the model writes on."""
LENGTH = 60
"""Tokens of a sample."""
DRAWN = 0.7
"""Temperature of the samples that are not greedy."""


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description="Ship a finished training.")
    parser.add_argument("folder", type=Path, help="that `python -m model train` wrote")
    asked = parser.parse_args(arguments)
    place = FOLDER / NAME
    place.mkdir(parents=True, exist_ok=True)
    for name in (*SHIPPED, SUMS):
        shutil.copyfile(asked.folder / "checkpoint" / name, place / name)
    found = measured(load(NAME), last_line(asked.folder / LOG))
    (place / FOUND).write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    (place / CARD).write_text(card(found), encoding="utf-8")


def last_line(log: Path) -> dict[str, Any]:
    return json.loads(log.read_text(encoding="utf-8").splitlines()[-1])


def measured(lm: KimiLM, end: dict[str, Any]) -> dict[str, Any]:
    """Everything that the card tells, as plain numbers and texts."""
    return {
        "entries": len(lm.tokenizer),
        "parameters": sum(parameter.numel() for parameter in lm.parameters()),
        "training": {
            "tokens": K3_MINI.tokens,
            "steps": K3_MINI.steps,
            "processor_seconds": end["seconds"],
            "peak_rate": K3_MINI.peak,
        },
        "evaluation": [report(lm, seed, TOKENS) for seed in SEEDS],
        "greedy": [written(lm, opening) for opening in OPENINGS],
        "drawn": [written(lm, opening, DRAWN, i) for i, opening in enumerate(OPENINGS)],
    }


def written(lm: KimiLM, opening: str, temperature: float = 0.0, seed: int = 0) -> str:
    """The opening and up to `LENGTH` tokens after it, until the model ends the page."""
    trace = run(lm, opening, LENGTH, temperature=temperature, seed=seed, keep=[])
    special = lm.tokenizer.special_ids
    return lm.tokenizer.decode(list(takewhile(lambda i: i not in special, trace.token_ids[1:])))


if __name__ == "__main__":
    main()
