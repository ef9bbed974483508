"""While a run waits or works: its place or its stage, and a way to stop it."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NoReturn

import streamlit as st
from streamlit.delta_generator import DeltaGenerator
from streamlit.errors import StreamlitAPIException

from app.panels.html import draw, render
from app.panels.reader_id import reader_id
from app.run_ticket import Ticket, describe
from app.runs import RunStore

GLANCE = 0.3
"""Seconds in which a short run finishes without a word about waiting."""
BEAT = 0.15
HEARD = 1.0
"""Seconds after which a fragment that waits is drawn again, and hears its Stop."""
STOPPED = "stopped-request"
"""Key of the request that this reader gave up last."""
STOPPED_HERE = "It was stopped."


def await_ticket(
    ticket: Ticket[Any],
    store: RunStore,
    reader: str,
    slot: DeltaGenerator,
    what: str,
    key: str,
    *,
    in_fragment: bool = False,
) -> None:
    """Return once the ticket is over, telling its reader meanwhile.

    `what` tells the places apart that wait on one page, `key` marks a request that was stopped.
    Who waits `in_fragment` is drawn again meanwhile, to hear the Stop.
    """
    begun = time.monotonic()
    if ticket.wait(max(0.0, ticket.queued + GLANCE - begun)):
        return
    with slot.container():
        words = st.empty()
        st.button(
            "Stop",
            key=f"stop-{what}",
            type="tertiary",
            on_click=_stop,
            args=(ticket, store, reader, key),
        )
    while not ticket.wait(BEAT):
        words.html(_state(ticket, store))
        if in_fragment and time.monotonic() - begun > HEARD:
            _draw_again()
    slot.empty()


@dataclass(frozen=True, kw_only=True)
class Wish:
    """Something that the worker must find out for a page."""

    what: str
    """Tells the places apart that wait on one page."""
    key: str
    title: str
    """Stands over the sentence where it is not there."""
    again: str = ""
    """On the button that asks for it after a stop; none where the page has one of its own."""


def granted(
    wish: Wish,
    ask: Callable[[], Ticket[Any]],
    store: RunStore,
    slot: DeltaGenerator,
    *,
    in_fragment: bool = False,
) -> Any | None:
    """The result of what `ask` puts in the queue; None after saying why there is none."""
    reader = reader_id()
    if st.session_state.get(STOPPED) == wish.key:
        # or the rerun that Stop brings would begin it anew
        say_absent(wish.title, STOPPED_HERE)
        if wish.again:
            st.button(wish.again, key=f"again-{wish.what}", type="tertiary", on_click=ask_again)
        return None
    ticket = ask()
    await_ticket(ticket, store, reader, slot, wish.what, wish.key, in_fragment=in_fragment)
    if ticket.state == "done":
        return ticket.result()
    say_absent(wish.title, ticket.error or STOPPED_HERE)
    return None


def say_absent(title: str, sentence: str) -> None:
    draw("state.html", kind="failed", title=title, sentence=sentence, share=0)


def ask_again() -> None:
    """What was stopped may begin anew."""
    st.session_state.pop(STOPPED, None)


def _draw_again() -> NoReturn:
    """A button of a fragment is heard between two runs only."""
    try:
        st.rerun(scope="fragment")
    except StreamlitAPIException:
        # the whole page is being drawn, with the fragment in it
        st.rerun()


def _stop(ticket: Ticket[Any], store: RunStore, reader: str, key: str) -> None:
    store.leave(ticket, reader)
    st.session_state[STOPPED] = key


def _state(ticket: Ticket[Any], store: RunStore) -> str:
    ahead = ticket.place()
    if ticket.state == "waiting" and ahead is not None:
        return render(
            "state.html",
            kind="queue",
            title="In the queue",
            sentence=queue_sentence(ahead, store.seconds_each),
            share=0,
        )
    sentence = f"{describe(ticket)}, {ticket.seconds:.1f} s"
    return render(
        "state.html", kind="working", title="Working", sentence=sentence, share=ticket.share
    )


def queue_sentence(ahead: int, seconds_each: float | None) -> str:
    """The place in words. The job at work counts as one before this."""
    before = ahead + 1
    who = "One job is" if before == 1 else f"{before} jobs are"
    wait = "" if seconds_each is None else f", about {max(1, round(before * seconds_each))} s"
    return f"{who} before you{wait}. What is on screen stays until then."
