"""Sums, remainders, counts, days and other sequences, each with its working shown."""

import random

from model.training.held_out import Split, draw, is_held_out
from model.training.page import Page
from model.training.words import COLOURS, DAYS, LETTERS, MONTHS

TABLES = ("month", "letter", "step")


def sum_is_held_out(a: int, b: int) -> bool:
    """A sum of two numbers of two digits, in either order. Sums of digits are all shown."""
    return min(a, b) >= 10 and is_held_out("sum", *sorted((a, b)))


def adding(rng: random.Random, split: Split, room: int) -> Page:
    """`a + b` digit by digit, below one hundred."""
    least = 10 if split == "held-out" else 0

    def two() -> tuple[int, int]:
        a = rng.randint(least, 99 - least)
        return a, rng.randint(least, 99 - a)

    a, b = draw(rng, split, two, lambda ab: sum_is_held_out(*ab))
    page = Page()
    page.text("What is")
    page.noise(f" {a} + {b}")
    page.text("?")
    page.answer(added(a, b) + ".", "sum")
    return page


def added(a: int, b: int) -> str:
    ones, carry = a % 10 + b % 10, (a % 10 + b % 10) // 10
    tens = " + 1" if carry else ""
    return (
        f" {a % 10} + {b % 10} = {ones} and {a // 10} + {b // 10}{tens} = "
        f"{a // 10 + b // 10 + carry}, so {a} + {b} = {a + b}"
    )


def remainder(rng: random.Random, split: Split, room: int) -> Page:
    """`s mod m`: the multiple below, and steps of one from there."""
    s, m = draw(
        rng,
        split,
        lambda: (rng.randint(0, 99), rng.randint(3, 9)),
        lambda sm: is_held_out("mod", *sm),
    )
    page = Page()
    page.text("What is")
    page.noise(f" {s} mod {m}")
    page.text("?")
    multiple = s // m * m
    steps = "".join(f", {multiple + r} is {r}" for r in range(1, s % m + 1))
    page.answer(f" {m} times {s // m} is {multiple}{steps}, so {s} mod {m} = {s % m}.", "mod")
    return page


def counting(rng: random.Random, split: Split, room: int) -> Page:
    """How many of a list are of one colour, counted aloud."""

    def beads() -> tuple[str, list[str]]:
        colours = rng.sample(COLOURS, rng.randint(2, 4))
        asked = rng.choice(colours)
        return asked, [rng.choice((asked, *colours)) for _ in range(rng.randint(3, 14))]

    asked, list_ = draw(rng, split, beads, lambda made: is_held_out("count", made[0], *made[1]))
    page = Page()
    page.text("The beads are")
    page.noise(" " + " ".join(list_))
    page.text(f". How many are {asked}?")
    number, working = 0, ""
    for colour in list_:
        number += colour == asked
        working += f" {colour} {number}"
    page.answer(f"{working}, so the number is {number}.", "count")
    return page


def days(rng: random.Random, split: Split, room: int) -> Page:
    """The day after some days, one at a time."""
    start, number = draw(
        rng,
        split,
        lambda: (rng.randrange(7), rng.randint(1, 14)),
        lambda made: is_held_out("day", *made),
    )
    page = Page()
    page.text("Today is")
    page.noise(f" {DAYS[start]}")
    page.text(". What day is it in")
    page.noise(f" {number}")
    page.text(" days?")
    steps = "".join(f" {DAYS[(start + n) % 7]} {n}," for n in range(1, number + 1))
    page.answer(f"{steps} so it is {DAYS[(start + number) % 7]}.", "days")
    return page


def sequences(rng: random.Random, split: Split, room: int) -> Page:
    """Months, letters, or numbers by equal steps, for a while."""

    def run() -> tuple[str, int, int, int]:
        table = rng.choice(TABLES)
        if table == "month":
            return table, rng.randrange(12), 1, rng.randint(3, 8)
        if table == "letter":
            return table, rng.randrange(18), 1, rng.randint(3, 8)
        step = rng.randint(1, 9)
        first = rng.randint(0, 40)
        return table, first, step, rng.randint(3, min(9, (99 - first) // step + 1))

    table, first, step, number = draw(
        rng, split, run, lambda made: is_held_out("sequence", *made[:3])
    )
    at = [first + step * n for n in range(number)]
    page = Page()
    if table == "month":
        shown = [MONTHS[n % 12] for n in at]
        page.text(f"Months from {shown[0]}:")
    elif table == "letter":
        shown = [LETTERS[n] for n in at]
        page.text(f"Letters from {shown[0]}:")
    else:
        shown = [str(n) for n in at]
        page.text(f"From {first} in steps of {step}:")
    page.answer(" " + " ".join(shown), "sequence")
    page.text(".")
    return page
