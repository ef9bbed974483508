"""While a run waits or works: its place or its stage, and a way to stop it."""

from typing import Any

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from app.panels.html import render
from app.run_ticket import Ticket, describe
from app.runs import RunStore

GLANCE = 0.3
"""Seconds in which a short run finishes without a word about waiting."""
BEAT = 0.15
SECONDS_EACH = 1.5
"""A guess for one run, to say about how long a queue is."""
STOPPED = "stopped-request"


def await_ticket(
    ticket: Ticket[Any],
    store: RunStore,
    reader: str,
    slot: DeltaGenerator,
    what: str,
    key: str = "",
) -> None:
    """Return once the ticket is over, telling its reader meanwhile.

    `what` tells the places apart that wait on one page, `key` marks a request that was stopped.
    """
    if ticket.wait(GLANCE):
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
        words.html(_state(ticket))
    slot.empty()


def _stop(ticket: Ticket[Any], store: RunStore, reader: str, key: str) -> None:
    store.leave(ticket, reader)
    st.session_state[STOPPED] = key


def _state(ticket: Ticket[Any]) -> str:
    ahead = ticket.place()
    if ticket.state == "waiting" and ahead is not None:
        return render(
            "state.html",
            kind="queue",
            title="In the queue",
            sentence=queue_sentence(ahead),
            share=0,
        )
    sentence = f"{describe(ticket)}, {ticket.seconds:.1f} s"
    return render(
        "state.html", kind="working", title="Working", sentence=sentence, share=ticket.share
    )


def queue_sentence(ahead: int) -> str:
    """The place in words. The run at work counts as one before this."""
    before = ahead + 1
    who = "One run is" if before == 1 else f"{before} runs are"
    wait = max(1, round(before * SECONDS_EACH))
    return f"{who} before you, about {wait} s. Your last run stays on screen until then."
