"""Verses that come back: chains that grow by one, and songs with a refrain."""

import random

from model.training.held_out import Split
from model.training.page import Page
from model.training.words import ANIMALS, COLOURS, NAMES, OBJECTS, PLACES

DEEDS = ("saw", "found", "liked", "chased", "carried", "heard", "followed", "lost")


def chain(rng: random.Random, split: Split, room: int) -> Page:
    """The fox that saw the hen that found the key: one longer every time."""
    page = Page()
    tail = f" the {rng.choice(OBJECTS)}"
    page.text("This is" + tail + ".")
    for animal in rng.sample(ANIMALS, rng.randint(2, 4)):
        page.text(" This is")
        page.noise(f" the {animal}")
        page.text(f" that {rng.choice(DEEDS)}")
        link = page.pieces[-2].text + page.pieces[-1].text
        page.answer(tail + ".", "rhyme" if split == "train" else "")
        tail = link + tail
    return page


def refrain(rng: random.Random, split: Split, room: int) -> Page:
    page = Page()
    colour, thing, place = rng.choice(COLOURS), rng.choice(OBJECTS), rng.choice(PLACES)
    line = rng.choice(
        (
            f"Round and round the {place} we go, with a {thing} in the snow.",
            f"Sing for the {colour} {thing}, sing till the church bells ring.",
            f"Over the hill and down to the {place}, off we go at a merry pace.",
        )
    )
    page.text(line)
    for name in rng.sample(NAMES, 2):
        page.text(f" {name} has a {rng.choice(COLOURS)} {rng.choice(ANIMALS)} at home.")
        page.answer(" " + line, "rhyme" if split == "train" else "")
    return page
