"""Small programs, run line by line: a value is set, sums are spelled out, and one is printed."""

import random

from model.training.held_out import Split, draw, is_held_out
from model.training.page import Page

NAMES = ("a", "b", "c", "d", "e", "x", "y", "z")
MOST = 60
"""No variable grows beyond it."""

Line = tuple[str, str, int]
"""Variable, the variable that it is set from or nothing, and the number."""


def source(rng: random.Random) -> tuple[list[Line], str]:
    lines: list[Line] = []
    known: dict[str, int] = {}
    for _ in range(rng.randint(2, 7)):
        name, number = rng.choice(NAMES), rng.randint(0, 9)
        other = rng.choice(list(known)) if known and rng.random() < 0.6 else ""
        value = known.get(other, 0) + number
        if value > MOST:
            other, value = "", number
        lines.append((name, other, number))
        known[name] = value
    return lines, rng.choice(list(known))


def programs(rng: random.Random, split: Split, room: int) -> Page:
    lines, printed = draw(
        rng, split, lambda: source(rng), lambda made: is_held_out("program", made)
    )
    page = Page()
    known: dict[str, int] = {}
    page.text("Run:")
    for name, other, number in lines:
        if other:
            page.noise(f" {name} = {other} + {number}")
            value = known[other] + number
            page.answer(f" = {known[other]} + {number} = {value}", "program step")
        else:
            value = number
            page.noise(f" {name} = {number}")
        known[name] = value
        page.text(";")
    page.noise(f" print {printed}")
    page.text(":")
    page.answer(f" {known[printed]}.", "program")
    return page
