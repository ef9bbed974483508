"""Taps that a run left out to stay within its budget, recorded alone when a reader asks."""

from typing import Any

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from app.panels.live_data import Live, Spot, live_data
from app.panels.reader_id import reader_id
from app.panels.waiting import Wish, ask_again, granted
from app.runs import RunStore

ASKED_ALONE = "asked-alone"
"""Names of taps by run, as this reader asked for them."""


def offer_alone(live: Live, run: Any) -> None:
    """A way to have what the budget left out."""
    if live.left_out:
        st.button(
            "Run again and keep this",
            key="keep-alone",
            type="tertiary",
            on_click=_ask,
            args=(run.run_id, live.left_out),
        )


def _ask(run_id: str, names: tuple[str, ...]) -> None:
    ask_again()
    st.session_state[ASKED_ALONE] = (run_id, names)


def kept_alone(live: Live, spot: Spot, run: Any, store: RunStore, slot: DeltaGenerator) -> Live:
    """What was asked for alone, in place of its absence; else `live` as it is."""
    asked = st.session_state.get(ASKED_ALONE)
    if not live.left_out or asked != (run.run_id, live.left_out):
        return live
    wish = Wish(
        what="alone",
        key=f"alone {run.run_id} {' '.join(live.left_out)}",
        title="Not recorded",
    )
    made = granted(
        wish,
        lambda: store.alone(run, live.left_out, reader_id()),
        store,
        slot,
        in_fragment=True,
    )
    if made is None:
        # the button comes back
        del st.session_state[ASKED_ALONE]
        return live
    return live_data(spot, made)
