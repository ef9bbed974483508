"""People who walk between places and hand things on, and questions about who is where with what."""

import random

from model.training.held_out import Split, is_held_out, partner
from model.training.page import Page
from model.training.words import NAMES, OBJECTS, PLACES

GO = ("goes to", "walks to", "runs to", "returns to")
ROLL_CALLS, HAND_OUTS = 0.3, 0.5
"""Share of pages in which people, and in which things, are all gone through at the beginning."""
MOST_THINGS = 12
"""That are handed on in a page."""
TAKE = ("takes", "grabs", "finds")


class World:
    """Who is where, who holds what, and which things lie where, as a page tells it.

    It has up to so many people and things.
    """

    def __init__(
        self, rng: random.Random, split: Split, page: Page, people: int = 5, things: int = 4
    ) -> None:
        self.rng, self.page = rng, page
        self.split: Split = split
        self.people = rng.sample(NAMES, rng.randint(2, people))
        self.things = rng.sample(OBJECTS, rng.randint(1, things))
        self.places = rng.sample(PLACES, rng.randint(3, 6))
        self.place: dict[str, tuple[str, int]] = {}
        """Of each person who has moved: the place, and the piece that says so."""
        self.holder: dict[str, tuple[str, int]] = {}
        self.lies: dict[str, tuple[str, int]] = {}
        self.asked: set[tuple[str, int, int]] = set()
        """Questions whose answer has been told and still holds."""

    def tell(self, sentence: str) -> int:
        gap = " " if self.page.pieces and not self.page.pieces[-1].text.endswith("\n") else ""
        return self.page.noise(gap + sentence)

    def roll_call(self) -> None:
        """Everybody goes somewhere, and then everybody is asked for, in another order."""
        for person in self.people:
            self.move(person)
        for person in self.rng.sample(self.people, len(self.people)):
            self.ask_for(person)

    def hand_out(self) -> None:
        """Each thing comes to somebody, and then each is asked for, in another order."""
        for thing in self.things:
            self.hand_on(thing)
        for thing in self.rng.sample(self.things, len(self.things)):
            self.ask_who(thing)

    def move(self, person: str) -> None:
        here = self.place.get(person, ("", 0))[0]
        others = [place for place in self.places if place != here]
        if all(is_held_out("where", person, place) for place in others):
            others = [place for place in PLACES if place != here]
        place, _ = partner(self.rng, self.split, "where", person, others)
        at = self.tell(f"{person} {self.rng.choice(GO)} the {place}.")
        self.place[person] = (place, at)

    def hand_on(self, thing: str) -> None:
        """A thing changes hands: it is picked up, given away, or put down where its holder is."""
        had = self.holder.get(thing)
        if had is not None and had[0] in self.place and self.rng.random() < 0.25:
            place = self.place[had[0]][0]
            at = self.tell(f"{had[0]} leaves the {thing} in the {place}.")
            del self.holder[thing]
            self.lies[thing] = (place, at)
            return
        others = [person for person in self.people if had is None or person != had[0]]
        if all(is_held_out("has", thing, person) for person in others):
            return
        person, _ = partner(self.rng, self.split, "has", thing, others)
        if had is None:
            at = self.tell(f"{person} {self.rng.choice(TAKE)} the {thing}.")
        else:
            at = self.tell(f"{had[0]} gives the {thing} to {person}.")
        self.lies.pop(thing, None)
        self.holder[thing] = (person, at)

    def ask(self) -> None:
        """One question, if it was not answered since what it asks for changed."""
        kind = self.rng.choice(("where", "where", "who", "who", "who", "thing"))
        if kind == "where" and self.place:
            self.ask_for(self.rng.choice(list(self.place)))
        elif kind == "who" and self.holder:
            self.ask_who(self.rng.choice(list(self.holder)))
        elif kind == "thing":
            self.ask_thing()

    def ask_for(self, person: str) -> None:
        place, at = self.place[person]
        if self.is_news("where", at):
            self.tell(f"Where is {person}?")
            counted = self.counted("where-is", "where", person, place)
            self.page.answer(f" {person} is in the {place}.", counted, at)

    def ask_who(self, thing: str) -> None:
        if thing not in self.holder:
            return
        person, at = self.holder[thing]
        if self.is_news("who", at):
            self.tell(f"Who has the {thing}?")
            counted = self.counted("who-has", "has", thing, person)
            self.page.answer(f" The {thing} is with {person}.", counted, at)

    def ask_thing(self) -> None:
        known = [thing for thing, (who, _) in self.holder.items() if who in self.place]
        known += list(self.lies)
        if not known:
            return
        thing = self.rng.choice(known)
        if thing in self.lies:
            place, at = self.lies[thing]
            if not self.is_news("thing", at):
                return
            self.tell(f"Where is the {thing}?")
            self.page.answer(f" The {thing} is in the {place}.", self.always("where-thing"), at)
            return
        person, at = self.holder[thing]
        place, since = self.place[person]
        if not self.is_news("thing", at, since):
            return
        self.tell(f"Where is the {thing}?")
        counted = self.counted("where-thing", "has", thing, person)
        answer = f" The {thing} is with {person}, and {person} is in the {place}."
        self.page.answer(answer, counted, at)

    def is_news(self, kind: str, at: int, since: int = 0) -> bool:
        question = (kind, at, since)
        new = question not in self.asked
        self.asked.add(question)
        return new

    def counted(self, task: str, role: str, key: str, value: str) -> str:
        """The task, where this answer may be counted: evaluation counts held-out pairs alone."""
        if self.split == "train" or is_held_out(role, key, value):
            return task
        return ""

    def always(self, task: str) -> str:
        return task if self.split == "train" else ""


def world(rng: random.Random, split: Split, room: int) -> Page:
    """Events with questions among them, in about `room` tokens."""
    page = Page()
    story = World(rng, split, page)
    questions = rng.uniform(0.25, 0.5)
    left = min(room, rng.randint(40, 260))
    if rng.random() < ROLL_CALLS:
        story.roll_call()
        left -= 20 * len(story.people)
    if rng.random() < HAND_OUTS:
        story.hand_out()
        left -= 18 * len(story.things)
    # a sentence has about seven tokens, a question with its answer about twelve
    for _ in range(max(4, left // 9)):
        if rng.random() < 0.5:
            story.move(rng.choice(story.people))
        else:
            story.hand_on(rng.choice(story.things))
        if rng.random() < questions:
            story.ask()
    for _ in range(rng.randint(1, 3)):
        story.ask()
    return page


def handing(rng: random.Random, split: Split, room: int) -> Page:
    """Things that many people take and give, and then who has each of them.

    Where there are many, who took something last is not a good guess.
    """
    page = Page()
    # a thing that is taken, asked for and told has about seventeen tokens
    most = max(2, min(MOST_THINGS, room // 24))
    story = World(rng, split, page, people=most, things=most)
    for thing in story.things:
        story.hand_on(thing)
    for _ in range(rng.randint(0, len(story.things))):
        story.hand_on(rng.choice(story.things))
    for thing in rng.sample(story.things, len(story.things)):
        story.ask_who(thing)
    return page
