"""`python -m model eval SOURCE`: what a trained model gets right on pages that nobody has seen."""

import argparse
import json
from typing import Any

from model.command_options import add_source

TOKENS = 60_000
"""About a hundred answers or more of each task."""


def add_to(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    help_text = "accuracy by task on fresh held-out pages, load of experts, mechanisms"
    part = commands.add_parser("eval", help=help_text, description=help_text)
    part.set_defaults(command=evaluate)
    add_source(part)
    part.add_argument("--seed", type=int, default=0, help="of the pages; default 0")
    part.add_argument("--tokens", type=int, default=TOKENS, metavar="N", help=f"default {TOKENS}")
    part.add_argument(
        "--no-mechanisms", action="store_true", help="leave out what is lost without each part"
    )


def evaluate(asked: argparse.Namespace) -> int:
    # torch is not needed to print help
    from model.load import load
    from model.training.evaluation import report

    if asked.tokens < 1:
        raise ValueError(f"--tokens {asked.tokens}: at least one token must be read.")
    # parts are switched off at their taps, some of which kernels keep to themselves
    lm = load(asked.source, revision=asked.revision, kernels="torch")
    about = report(lm, asked.seed, asked.tokens, mechanisms=not asked.no_mechanisms)
    if asked.json:
        print(json.dumps(about))
    else:
        table(about)
    return 0


def table(about: dict[str, Any]) -> None:
    print(f"{about['tokens']:,} held-out tokens of seed {about['seed']}")
    print(f"{about['bits_per_byte']:.3f} bits a byte")
    for task, accuracy in about["accuracy"].items():
        print(f"{task:24} {accuracy:7.4f} of {about['asked'][task]:5}")
    for layer, load in about["expert_load"].items():
        print(f"{layer:24} experts at {min(load):.2f} to {max(load):.2f} of a fair share")
    for part, found in about.get("mechanisms", {}).items():
        print(f"without {part:28} {found['kind']:20} {found['lost']:7.4f} of look-ups lost")
