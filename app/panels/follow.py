"""Widgets that follow the address: it wins when it changed by itself, the widget otherwise."""

import math
import time
from typing import Any

import streamlit as st

SENT_AFTER = 0.5
"""Seconds after which what a rerun gave a widget is in the browser.

A rerun that begins before the last one was sent drops it: a value that a widget was given then
never reaches the browser, which goes on with the widget's default. So it is given again, but no
longer than that, or it takes back what the reader has chosen since.
"""


def follow(key: str, from_address: Any) -> None:
    """Call before the widget `key` is made. Gives it the address's value where that is news.

    What the widget itself wrote comes back from the address later, perhaps after the reader has
    gone on; such an echo is no news.
    """
    seen, sent = f"{key}@seen", f"{key}@sent"
    echoes = st.session_state.setdefault(sent, [])
    given = f"{key}@given"
    if key in st.session_state and from_address == st.session_state.get(seen):
        if time.monotonic() < st.session_state.get(given, -math.inf) + SENT_AFTER:
            st.session_state[key] = st.session_state[key]
            st.session_state[given] = time.monotonic()
        return
    st.session_state[seen] = from_address
    if from_address in echoes:
        del echoes[: echoes.index(from_address) + 1]
        if key in st.session_state:
            return
    st.session_state[key] = from_address
    st.session_state[given] = time.monotonic()


def note_sent(key: str, value: Any) -> None:
    """Remember that this value was written to the address on the widget's behalf."""
    sent = st.session_state.setdefault(f"{key}@sent", [])
    # sent again on every rerun until the address says it
    if not sent or sent[-1] != value:
        sent.append(value)
