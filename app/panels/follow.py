"""Widgets that follow the address: it wins when it changed by itself, the widget otherwise."""

from typing import Any

import streamlit as st


def follow(key: str, from_address: Any) -> None:
    """Call before the widget `key` is made. Gives it the address's value where that is news.

    What the widget itself wrote comes back from the address later, perhaps after the reader has
    gone on; such an echo is no news.
    """
    seen, sent = f"{key}@seen", f"{key}@sent"
    echoes = st.session_state.setdefault(sent, [])
    if key in st.session_state and from_address == st.session_state.get(seen):
        return
    st.session_state[seen] = from_address
    if from_address in echoes:
        del echoes[: echoes.index(from_address) + 1]
        if key in st.session_state:
            return
    st.session_state[key] = from_address


def note_sent(key: str, value: Any) -> None:
    """Remember that this value was written to the address on the widget's behalf."""
    sent = st.session_state.setdefault(f"{key}@sent", [])
    # sent again on every rerun until the address says it
    if not sent or sent[-1] != value:
        sent.append(value)
