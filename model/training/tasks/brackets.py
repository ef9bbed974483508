"""Brackets of several kinds: whatever was opened last is closed first."""

import random

from model.training.held_out import Split, draw, is_held_out
from model.training.page import Page

CLOSER = {"(": ")", "[": "]", "{": "}", "<": ">"}
DEEPEST = 8


def opened(rng: random.Random) -> list[str]:
    """A run of brackets in which one to eight are still open at the end."""
    goal, closing = rng.randint(1, DEEPEST), rng.choice((0, 1, 2, 3, 4, 6, 8))
    opening = goal + closing
    marks: list[str] = []
    stack: list[str] = []
    while opening or closing:
        may_open = opening > 0 and len(stack) < DEEPEST
        may_close = closing > 0 and bool(stack)
        if may_open and (not may_close or rng.random() < 0.6):
            stack.append(rng.choice(list(CLOSER)))
            marks.append(stack[-1])
            opening -= 1
        else:
            marks.append(CLOSER[stack.pop()])
            closing -= 1
    return marks


def still_open(marks: list[str]) -> list[str]:
    stack: list[str] = []
    for mark in marks:
        if mark in CLOSER:
            stack.append(mark)
        else:
            stack.pop()
    return stack


def brackets(rng: random.Random, split: Split, room: int) -> Page:
    marks = draw(rng, split, lambda: opened(rng), lambda made: is_held_out("brackets", *made))
    page = Page()
    page.text("Brackets:")
    for mark in marks:
        if mark in CLOSER:
            page.noise(f" {mark}")
        else:
            page.text(f" {mark}")
    page.text(" close:")
    stack = still_open(marks)
    page.answer("".join(f" {CLOSER[mark]}" for mark in reversed(stack)) + ".", "brackets")
    return page
