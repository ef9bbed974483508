"""The run of the address: found, or waited for in words."""

from typing import Any

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from app.panels.html import draw
from app.panels.reader_id import reader_id
from app.panels.run_choice import Choice, choose, request_of
from app.panels.waiting import STOPPED, await_ticket
from app.runs import RunStore
from app.state import Selection

SAID = "said-of-request"


def run_panel(selection: Selection, store: RunStore, slot: DeltaGenerator) -> Any | None:
    """The finished run, or None after saying why there is none.

    Not for a fragment: its Stop could not be heard before the whole page is drawn.
    """
    reader = reader_id()
    choice = choose(selection, store, reader, st.session_state.get(STOPPED, ""))
    request = request_of(selection)
    for notice in _notices(choice, request.key if request else ""):
        draw("state.html", kind="notice", title="", sentence=notice, share=0)
    title = f"No run of {selection.source}"
    if choice.ticket is None:
        if choice.sentence:
            draw("state.html", kind="failed", title=title, sentence=choice.sentence, share=0)
        return choice.run
    await_ticket(choice.ticket, store, reader, slot, "run", request.key if request else "")
    if choice.ticket.state == "done":
        # the sidebar was drawn before the run had steps to choose from
        st.rerun()
    sentence = choice.ticket.error or "This run was stopped. Press Run to start it again."
    draw("state.html", kind="failed", title=title, sentence=sentence, share=0)
    return None


def _notices(choice: Choice, key: str) -> tuple[str, ...]:
    """Kept while the request is on screen: the page is drawn again once its run is there."""
    if choice.notices:
        st.session_state[SAID] = (key, choice.notices)
    said, notices = st.session_state.get(SAID, ("", ()))
    return notices if said == key else ()
