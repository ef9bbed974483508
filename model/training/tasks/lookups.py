"""Facts that are stated once and asked once, at any distance: sentences, lists, prose between."""

import random
from collections.abc import Sequence
from typing import NamedTuple

from model.training.held_out import Split, partner
from model.training.page import Page
from model.training.tasks.prose import prose
from model.training.words import (
    ANIMALS,
    COLOURS,
    FRUITS,
    LETTERS,
    NAMES,
    NUMBERS,
    OBJECTS,
    PLACES,
    TOWNS,
)

RELATIONS: dict[str, Sequence[str]] = {
    "code": NUMBERS,
    "age": NUMBERS[10:],
    "town": TOWNS,
    "colour": COLOURS,
    "sign": ANIMALS,
}
"""What a person has, and the values that it can take."""

FORMS = ("possessive", "of", "says")


class Fact(NamedTuple):
    key: str
    relation: str
    value: str
    held: bool


def statement(fact: Fact, form: str) -> tuple[str, str, str]:
    """What stands before the value, the value, and what stands after it."""
    if form == "possessive":
        return f"{fact.key}'s {fact.relation} is", f" {fact.value}", "."
    if form == "of":
        return f"The {fact.relation} of {fact.key} is", f" {fact.value}", "."
    return f"{fact.key} says that the {fact.relation} is", f" {fact.value}", "."


def question(fact: Fact, form: str) -> tuple[str, str]:
    """The question, and the answer, which says again what is asked."""
    if form == "possessive":
        return f"What is {fact.key}'s {fact.relation}?", f" {fact.key}'s {fact.relation} is"
    return f"What is the {fact.relation} of {fact.key}?", f" The {fact.relation} of {fact.key} is"


def forms(rng: random.Random, split: Split) -> tuple[str, str, bool]:
    """How a fact is stated and how it is asked. What is told as `says` is never asked as `of`."""
    told, asked = rng.choice(FORMS), rng.choice(FORMS[:2])
    unseen = (told, asked) == ("says", "of")
    if unseen and split == "train":
        return "says", "possessive", False
    return told, asked, unseen


def facts(rng: random.Random, split: Split, room: int) -> Page:
    """Sentences, some asked soon and some much later; each is asked at most once."""
    page, waiting = Page(), []
    people = rng.sample(NAMES, rng.randint(4, len(NAMES)))
    pairs = [(name, relation) for name in people for relation in RELATIONS]
    rng.shuffle(pairs)
    number = max(2, min(len(pairs), int(room * rng.uniform(0.3, 1.0)) // 21))
    soon = rng.choice((0.0, 0.0, 0.3, 0.6))
    for name, relation in pairs[:number]:
        value, held = partner(rng, split, relation, name, RELATIONS[relation])
        waiting.append(
            (Fact(name, relation, value, held), *state(rng, split, page, name, relation, value))
        )
        if rng.random() < soon:
            ask(page, split, *waiting.pop(rng.randrange(max(0, len(waiting) - 3), len(waiting))))
    rng.shuffle(waiting)
    for fact in waiting:
        ask(page, split, *fact)
    return page


def state(
    rng: random.Random, split: Split, page: Page, name: str, relation: str, value: str
) -> tuple[str, bool, int]:
    """Tell the fact; how it is to be asked, whether so asked it is unseen, and where it stands."""
    told, asked, unseen = forms(rng, split)
    before, shown, after = statement(Fact(name, relation, value, False), told)
    page.noise((" " if page.pieces else "") + before)
    at = page.noise(shown)
    page.text(after)
    return asked, unseen, at


def ask(page: Page, split: Split, fact: Fact, form: str, unseen: bool, at: int) -> None:
    asked, restated = question(fact, form)
    page.noise((" " if page.pieces else "") + asked)
    counted = split == "train" or fact.held
    task = ("look-up, new form" if unseen else "look-up") if counted else ""
    page.answer(f"{restated} {fact.value}.", task, at)


def listed(rng: random.Random, split: Split, room: int) -> Page:
    """A list of keys and numbers, and then some of the keys again."""
    page, told = Page(), []
    kinds = (OBJECTS, ANIMALS, LETTERS, PLACES, COLOURS)
    keys = [key for kind in rng.sample(kinds, rng.randint(1, 3)) for key in kind]
    number = max(2, min(len(keys), int(room * rng.uniform(0.2, 1.0)) // 8))
    values = rng.choice((NUMBERS, NUMBERS, TOWNS, FRUITS))
    page.text("List:")
    for key in rng.sample(keys, number):
        value, held = partner(rng, split, "listed", key, values)
        page.noise(f" {key}")
        told.append((key, value, held, page.noise(f" {value}")))
        page.text(",")
    rng.shuffle(told)
    page.text(" Find:")
    for key, value, held, at in told:
        page.noise(f" {key}")
        counted = "look-up" if held or split == "train" else ""
        page.answer(f" {value}", counted, at)
        page.text(",")
    return page


def between(rng: random.Random, split: Split, room: int) -> Page:
    """A few facts, prose for a while, and the questions."""
    page, waiting = Page(), []
    for name in rng.sample(NAMES, rng.randint(1, max(1, min(6, room // 60)))):
        relation = rng.choice(list(RELATIONS))
        value, held = partner(rng, split, relation, name, RELATIONS[relation])
        waiting.append(
            (Fact(name, relation, value, held), *state(rng, split, page, name, relation, value))
        )
    left = int((room - 22 * len(waiting)) * rng.random())
    # a story has about ninety tokens
    for _ in range(left // 90):
        page.append(prose(rng, split, 90))
    if left >= 90:
        page.text("\n")
    rng.shuffle(waiting)
    first = page.pieces[-1].text.endswith("\n")
    for n, (fact, form, unseen, at) in enumerate(waiting):
        asked, restated = question(fact, form)
        page.noise(("" if first and n == 0 else " ") + asked)
        counted = split == "train" or fact.held
        task = ("look-up, new form" if unseen else "look-up") if counted else ""
        page.answer(f"{restated} {fact.value}.", task, at)
    return page
