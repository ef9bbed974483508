"""Short stories that go somewhere: each sentence has its turn, so that none comes twice."""

import random
import re
from collections.abc import Callable, Sequence

from model.training.held_out import Split
from model.training.page import Page
from model.training.words import ANIMALS, COLOURS, FRUITS, NAMES, OBJECTS, PLACES, SHE, TOWNS

WEATHER = ("cold", "warm", "grey", "bright", "windy", "quiet", "rainy", "frosty")
JOBS = (
    *("baker", "sailor", "teacher", "farmer", "painter", "miller", "tailor", "fisher"),
    *("gardener", "singer", "smith", "doctor"),
)
MOODS = ("happy", "tired", "hungry", "proud", "curious", "lonely", "calm", "cheerful")
LOOKS = ("old", "young", "small", "tall", "thin", "clever", "shy", "brave", "lazy", "friendly")
TREES = ("oak", "willow", "birch", "pine")

Slots = dict[str, str]


class Story:
    """Fills sentences: the same slot keeps its word through the story."""

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        a, b = rng.sample(NAMES, 2)
        p, q, r = rng.sample(PLACES, 3)
        o, o2, o3 = rng.sample(OBJECTS, 3)
        an, an2 = rng.sample(ANIMALS, 2)
        she, she_b = a in SHE, b in SHE
        self.slots: Slots = {
            **{"A": a, "B": b, "p": p, "q": q, "r": r, "o": o, "o2": o2, "o3": o3},
            **{"an": an, "an2": an2, "town": rng.choice(TOWNS), "fruit": rng.choice(FRUITS)},
            **{"c": rng.choice(COLOURS), "c2": rng.choice(COLOURS), "job": rng.choice(JOBS)},
            **{"w": rng.choice(WEATHER), "mood": rng.choice(MOODS), "tree": rng.choice(TREES)},
            **dict(zip(("look", "look2"), rng.sample(LOOKS, 2), strict=True)),
            **{"he": "she" if she else "he", "He": "She" if she else "He"},
            **{"his": "her" if she else "his", "him": "her" if she else "him"},
            **{"His": "Her" if she else "His", "she": "she" if she_b else "he"},
            **{"her": "her" if she_b else "him", "She": "She" if she_b else "He"},
        }

    def one(self, *choices: str) -> str:
        return with_article(self.rng.choice(choices).format(**self.slots))


def with_article(text: str) -> str:
    """`an` for `a` before a vowel."""
    return re.sub(r"\b([Aa]) (?=[aeiou])", r"\1n ", text)


def opening(s: Story) -> str:
    return s.one(
        "One {w} morning, {A} the {job} left the {p} with a {o}.",
        "One {w} evening, {A} sat in the {p} and looked at the {c} {o}.",
        "In the town of {town} there lived a {look} {job} called {A}.",
        "{A} was a {look} {job} who lived near the {p}.",
        "It was a {w} day in {town}, and {A} was {mood}.",
        "Long ago a {look} {job} called {A} kept a {c} {o} in the {p}.",
        "When the sun came up over {town}, {A} was already in the {p}.",
    )


def wish(s: Story) -> str:
    return s.one(
        "{He} wanted to see the {q} before the snow came.",
        "{He} hoped to sell the {o} at the market.",
        "All week {he} had dreamed of a new {o2}.",
        "{His} friend {B} had asked {him} to bring some {fruit}.",
        "Nobody knew why {he} never opened the door of the {q}.",
        "That day {he} had promised to help {B} with the {o2}.",
        "But {he} could not find the {o2} anywhere.",
    )


def setting_out(s: Story) -> str:
    return s.one(
        "So {he} put on a {c2} coat and walked to the {q}.",
        "First {he} looked under the table, and then {he} went out to the {q}.",
        "Without a word {he} closed the door and followed the path to the {q}.",
        "After breakfast {he} took some bread and set out for the {q}.",
        "The road was long, but {he} sang all the way to the {q}.",
        "By noon {he} had reached the {q}, which was empty.",
    )


def meeting(s: Story) -> str:
    return s.one(
        "Under a {tree} {he} met a {look2} {an} that was looking for food.",
        "There a {look2} {an} came out of the grass and stopped in front of {him}.",
        "On the way {he} saw {B}, who carried a heavy basket of {fruit}.",
        "Suddenly a {c} {an} ran across the road and hid behind a {tree}.",
        "Near the water {he} heard a voice, and it was {B}.",
        "A {look2} {an} slept beside the gate, and {he} stepped over it very slowly.",
    )


def turn(s: Story) -> str:
    return s.one(
        "They talked about the weather and shared the {fruit}.",
        "{A} laughed, because the {an2} had stolen the {o3} again.",
        "Then the wind blew the {o} into the river, and both of them shouted.",
        "In the grass lay a {c2} {o3}, and nobody was there to claim it.",
        "{He} asked for the way, but the answer was only a smile.",
        "For a moment everything was still, and even the {an2} was silent.",
        "Just then it began to rain, so {he} waited under the {tree}.",
    )


def deed(s: Story) -> str:
    return s.one(
        "With great care {he} lifted the {o3} and cleaned it.",
        "{A} gave away the last of the bread and felt better.",
        "Together they repaired the {o2} with a piece of rope.",
        "{He} counted {his} coins twice and bought the {o3}.",
        "In the end {he} climbed the wall and called for help.",
        "{He} wrote a short letter and left it at the {r}.",
    )


def return_home(s: Story) -> str:
    return s.one(
        "In the afternoon {he} came back by way of the {r}.",
        "When the bells rang, {he} hurried home through the {r}.",
        "It was dark when {he} reached the {r}, where a lamp was burning.",
        "Later {B} made soup, and they ate it in the {r}.",
        "Before night fell the {an2} had found its way to the {r}.",
    )


def ending(s: Story) -> str:
    return s.one(
        "That night {A} slept well and dreamed of the sea.",
        "Since then nobody in {town} has laughed at a {an2}.",
        "From that day on {A} and {B} were the best of friends.",
        "And the {c} {o}? It still stands on the shelf by the window.",
        "Tomorrow, said {A}, we will try once more.",
        "So the day ended as it had begun, with a song.",
        "The next morning there was snow on every roof.",
    )


def portrait(s: Story) -> list[str]:
    return [
        s.one(
            "The {q} of {town} is known for its {look} {an}.",
            "Behind the {q} lives a {look} {an} with {c} eyes.",
            "Everybody in {town} knows the {look} {an} of the {q}.",
        ),
        s.one(
            "In spring it eats {fruit} and sleeps under the {tree}.",
            "By day it hides, and at night it walks along the wall.",
            "It likes warm bread more than anything else.",
        ),
        s.one(
            "Children bring it water when the summer is hot.",
            "{A} the {job} gave it a {c2} {o} last winter.",
            "Once it chased a {an2} through the whole {r}.",
        ),
        s.one(
            "The {job} says that it is older than the town.",
            "Nobody has ever heard it make a sound.",
            "Only {B} can call it by its name.",
        ),
        s.one(
            "When it rains, it sits in the {p} and listens.",
            "On {w} days it can be seen near the {r}.",
            "Some people are afraid of it, but most are not.",
        ),
    ]


def day(s: Story) -> list[str]:
    return [
        s.one("At six {A} wakes up and opens the window.", "Early in the day {A} feeds the {an}."),
        s.one(
            "At eight {he} eats {fruit} and reads a letter from {B}.",
            "Then {he} makes tea and sweeps the {p}.",
        ),
        s.one(
            "Before noon {he} carries the {o} to the {q}.",
            "All morning {he} works in the {q} with {B} the {job}.",
        ),
        s.one(
            "After lunch the {look} {an2} comes to visit.",
            "In the afternoon {he} paints the door {c}.",
        ),
        s.one(
            "At five {he} buys a {o2} in the {r}.", "Toward evening {he} meets friends at the {r}."
        ),
        s.one(
            "When it gets dark, {he} lights a fire and plays a slow song.",
            "At night {he} counts the stars above {town}.",
        ),
        s.one("Then the day is over.", "And so ends a {w} day."),
    ]


def tale(s: Story) -> list[str]:
    parts: Sequence[Callable[[Story], str]] = (
        *(opening, wish, setting_out, meeting, turn, deed, return_home, ending),
    )
    kept = [part for part in parts if part in (opening, ending) or s.rng.random() < 0.85]
    return [part(s) for part in kept]


def prose(rng: random.Random, split: Split, room: int) -> Page:
    """One story; prose has no answers and no held-out part."""
    page, story = Page(), Story(rng)
    shape = rng.choice((tale, tale, tale, portrait, day))
    page.text(" ".join(shape(story)))
    return page
