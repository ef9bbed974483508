"""Sums, remainders, counts, days and other sequences, each with its working shown."""

import random

from model.training.held_out import Split, draw, is_held_out
from model.training.page import Page
from model.training.words import COLOURS, DAYS, LETTERS, MONTHS, OBJECTS

TABLES = ("month", "letter", "step")
STEPS = (1, 2, 3, 4, 5, 10)
"""Between numbers of a sequence."""
LAST_FIRST = {"month": 11, "letter": 17, "step": 40}
"""Where a sequence begins at most."""
MOST_TAKEN = 12
"""How often a remainder's number is taken away at most."""
OFTEN_SMALL = 0.3
"""Share of numbers from which once or twice is taken, or nothing."""


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


def remainder_is_held_out(s: int, m: int) -> bool:
    """Only where something is taken away, and a longer chain shows that, from `s` to `s - m`."""
    return m <= s <= min(99, m * MOST_TAKEN) - m and is_held_out("mod", s, m)


def remainder(rng: random.Random, split: Split, room: int) -> Page:
    """`s mod m`: m taken away again and again, until what is left is less than m."""

    def two() -> tuple[int, int]:
        m = rng.randint(3, 9)
        return rng.randint(0, min(99, m * MOST_TAKEN)), m

    s, m = draw(rng, split, two, lambda sm: remainder_is_held_out(*sm))
    page = Page()
    page.text("What is")
    page.noise(f" {s} mod {m}")
    page.text("?")
    steps = "".join(f" {left} - {m} = {left - m}," for left in range(s, m - 1, -m))
    page.answer(f"{steps} so {s} mod {m} = {s % m}.", "mod")
    return page


def taking(rng: random.Random, split: Split, room: int) -> Page:
    """A digit taken from a number, if it can be: the step of a remainder, alone. All are shown."""
    page = Page()
    for n in range(rng.randint(1, 4)):
        m = rng.randint(2, 9)
        s = rng.randint(0, 2 * m if rng.random() < OFTEN_SMALL else 99)
        page.text(" What is" if n else "What is")
        page.noise(f" {s} - {m}")
        page.text("?")
        told = f" so {s} is under {m}." if s < m else f" {s} - {m} = {s - m}."
        page.answer(told, "take" if split == "train" else "")
    return page


def counting(rng: random.Random, split: Split, room: int) -> Page:
    """How many things of a list are of one colour, counted aloud."""

    def shelf() -> tuple[str, list[tuple[str, str]]]:
        colours = rng.sample(COLOURS, rng.randint(2, 4))
        asked = rng.choice(colours)
        things = rng.sample(OBJECTS, rng.randint(3, 12))
        return asked, [(rng.choice((asked, *colours)), thing) for thing in things]

    asked, shown = draw(
        rng, split, shelf, lambda made: is_held_out("count", made[0], *sum(made[1], ()))
    )
    page = Page()
    page.text("On the shelf:")
    number, working = 0, ""
    for n, (colour, thing) in enumerate(shown):
        page.text("," if n else "")
        page.noise(f" {colour} {thing}")
        number += colour == asked
        working += f" {colour} {thing} {number},"
    page.text(f". How many are {asked}?")
    page.answer(f"{working} so the number is {number}.", "count")
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


def longest(table: str, first: int, step: int) -> int:
    """Items of a sequence at most."""
    return min(9, (99 - first) // step + 1) if table == "step" else 8


def sequence_is_held_out(table: str, first: int, step: int, number: int) -> bool:
    """By both of its ends, if a longer one shows its steps."""
    shorter = number < longest(table, first, step)
    return shorter and is_held_out("sequence", table, first, step, number)


def sequences(rng: random.Random, split: Split, room: int) -> Page:
    """Months, letters, or numbers by equal steps, from one to another."""

    def run() -> tuple[str, int, int, int]:
        table = rng.choice(TABLES)
        step = rng.choice(STEPS) if table == "step" else 1
        first = rng.randint(0, LAST_FIRST[table])
        return table, first, step, rng.randint(3, longest(table, first, step))

    table, first, step, number = draw(rng, split, run, lambda made: sequence_is_held_out(*made))
    at = [first + step * n for n in range(number)]
    shown = {
        "month": [MONTHS[n % 12] for n in at],
        "letter": [LETTERS[n % 26] for n in at],
        "step": [str(n) for n in at],
    }[table]
    page = Page()
    page.text({"month": "Months from", "letter": "Letters from", "step": "Count from"}[table])
    page.noise(f" {shown[0]} to {shown[-1]}")
    if table == "step":
        page.text(" in steps of")
        page.noise(f" {step}")
    page.text(":")
    page.answer(" " + " ".join(shown) + ".", "sequence")
    return page
