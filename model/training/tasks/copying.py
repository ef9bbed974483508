"""Lists said again: as they are, backwards, or over and over."""

import random

from model.training.held_out import Split, draw, is_held_out
from model.training.page import Page
from model.training.words import ANIMALS, ANY, COLOURS, LETTERS, NAMES, NUMBERS, OBJECTS, PLACES

KINDS = (LETTERS, LETTERS, NUMBERS, OBJECTS, ANIMALS, COLOURS, NAMES, PLACES, ANY)
SYLLABLES = tuple(a + b for a in "bdfgklmnprstvwz" for b in ("a", "e", "i", "o", "u", "an", "il"))


def items(rng: random.Random, split: Split, task: str, least: int, most: int) -> list[str]:
    """Different ones of a kind."""
    kind = rng.choice(KINDS)
    return draw(
        rng,
        split,
        lambda: rng.sample(kind, min(len(kind), rng.randint(least, most))),
        lambda made: is_held_out(task, *made),
    )


def copying(rng: random.Random, split: Split, room: int) -> Page:
    page = Page()
    words = items(rng, split, "copy", 2, 16)
    page.text("Copy:")
    page.noise(" " + " ".join(words))
    page.text(". Again:")
    page.answer(" " + " ".join(words) + ".", "copy")
    return page


def reversing(rng: random.Random, split: Split, room: int) -> Page:
    page = Page()
    words = items(rng, split, "reverse", 2, 10)
    page.text("Turn:")
    page.noise(" " + " ".join(words))
    page.text(". Back:")
    page.answer(" " + " ".join(reversed(words)) + ".", "reverse")
    return page


def repeating(rng: random.Random, split: Split, room: int) -> Page:
    """A random line again and again: what teaches a young model to look back at all."""
    page = Page()
    number = rng.randint(3, 16)
    words = "".join(f" {rng.choice(ANY)}" for _ in range(number))
    page.text("Round:")
    page.noise(words)
    for _ in range(max(1, min(room, 120) // (number + 1) - 1)):
        page.text(";")
        page.answer(words, "repeat" if split == "train" else "")
    return page


def spelling(rng: random.Random, split: Split, room: int) -> Page:
    """Made-up words, which no vocabulary holds whole, said again."""
    page = Page()
    word = draw(
        rng,
        split,
        lambda: "".join(rng.choice(SYLLABLES) for _ in range(rng.randint(2, 4))),
        lambda made: is_held_out("spelling", made),
    )
    name = word.capitalize() if rng.random() < 0.5 else word
    page.text("Say")
    page.noise(f" {name}")
    page.text(" again:")
    page.answer(f" {name}.", "spelling")
    return page
