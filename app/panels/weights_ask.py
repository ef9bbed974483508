"""A look into a checkpoint while it is made, and what it cost."""

from concurrent.futures import Future
from concurrent.futures import TimeoutError as NotYet
from time import monotonic

import streamlit as st

from app.looks import Look
from app.microscope import Microscope, Seen
from app.panels.html import draw

PATIENCE = 120.0
"""Seconds that a page waits for one look; the look goes on."""
BEAT = 0.2
UNITS = ("B", "kB", "MB", "GB", "TB")


def ask(look: Look, microscope: Microscope) -> Seen | None:
    """The look once it is made; None after saying why it is not."""
    slot, started = st.empty(), monotonic()
    future = microscope.ask(look)
    while monotonic() - started < PATIENCE:
        try:
            seen = future.result(BEAT)
        except NotYet:
            sentence = so_far(look, future, microscope)
            with slot.container():
                draw("state.html", kind="working", title="Working", sentence=sentence, share=0)
            continue
        except ValueError as error:
            slot.empty()
            _say_fault(error)
            return None
        slot.empty()
        for notice in seen.notices:
            say(notice)
        return seen
    slot.empty()
    say(f"{too_late(look, future)} Open it again later.")
    return None


def so_far(look: Look, future: "Future[Seen]", microscope: Microscope) -> str:
    """What a reader who waits is told."""
    if _waits(future):
        return f"{look.checkpoint} waits for its turn behind other looks."
    return (
        f"Reading {look.checkpoint}, {size(microscope.transferred(look.checkpoint))} came so far."
    )


def too_late(look: Look, future: "Future[Seen]") -> str:
    """What kept a reader waiting as long as a page waits."""
    if _waits(future):
        return f"Other looks came before {look.checkpoint} for {PATIENCE:.0f} s."
    return f"{look.checkpoint} has not answered for {PATIENCE:.0f} s."


def _waits(future: "Future[Seen]") -> bool:
    """Whether its turn has not come; one that has just been made does not wait."""
    return not future.running() and not future.done()


def ask_if_wanted(look: Look, microscope: Microscope, cost: str, word: str) -> Seen | None:
    """The look, if it was made before or its button is pressed; `cost` says what that spends."""
    if not microscope.has(look):
        if cost:
            say(cost)
        if not st.button(word, key="weights-read", type="primary"):
            return None
        asked = microscope.ask(look)
        if asked.done() and (fault := asked.exception()):
            _say_fault(fault)
            return None
        # drawn anew without the button
        st.rerun()
    return ask(look, microscope)


def register(look: Look, seen: Seen) -> str:
    """Which checkpoint, at which commit, and what of it came over the network for this look."""
    if not seen.revision:
        return f"{look.checkpoint}, read from this machine"
    came = size(seen.transferred)
    return f"{look.checkpoint} at {seen.revision[:12]}, {came} over the network"


def size(count: float) -> str:
    """`0 B`, `812 B`, `1.2 MB`: by thousands, as networks count."""
    unit = 0
    while count >= 1000 and unit < len(UNITS) - 1:
        count, unit = count / 1000, unit + 1
    return f"{count:,.1f} {UNITS[unit]}" if unit else f"{count:,.0f} B"


def _say_fault(fault: BaseException) -> None:
    draw("state.html", kind="failed", title="Not read", sentence=str(fault), share=0)


def say(sentence: str) -> None:
    draw("state.html", kind="notice", title="", sentence=sentence, share=0)
