"""Formula against measurement: what contexts and weights take, and what was counted here."""

from functools import partial
from typing import Any

import streamlit as st

from app.components.bridge import bridge
from app.panels.html import draw
from app.panels.memory_tables import counted, fits, released, weights
from app.panels.reader_id import reader_id
from app.panels.run_panel import run_panel
from app.panels.waiting import Wish, granted
from app.run_memory import Measurement, measure
from app.run_ticket import Ticket
from app.runs import RunStore
from app.state import Selection

MEMORIES = (24, 48, 80, 141, 192)
"""GiB of GPUs in use."""
USUAL = 141


def memory_live(selection: Selection, store: RunStore) -> None:
    """Draw the page; what needs no run stands below and is drawn first."""
    bridge(run=None, key="bridge-run")
    above = st.container()
    released()
    weights()
    _fits()
    with above:
        _counted(selection, store)


@st.fragment
def _fits() -> None:
    draw(
        "section.html",
        title="What fits on a GPU",
        register="released checkpoints, batch 1, cache in bf16",
        run="",
        lead="The fewest GPUs that hold the weights as released, and the longest context in what "
        "is left of their memory. Activations and the room that a program takes are not counted.",
    )
    left, right = st.columns([3, 1], vertical_alignment="bottom")
    with left:
        chosen = st.segmented_control(
            "GPU memory, GiB", MEMORIES, default=USUAL, key="memory-gpu", on_change=_clear
        )
    with right:
        typed = st.number_input(
            "or another, GiB",
            min_value=0.5,
            max_value=100_000.0,
            value=None,
            placeholder="GiB",
            key="memory-typed",
        )
    fits(float(typed or chosen or USUAL))


def _clear() -> None:
    """A choice takes the place of what was typed before."""
    st.session_state["memory-typed"] = None


def _counted(selection: Selection, store: RunStore) -> None:
    run = run_panel(selection, store, st.empty())
    if run is None:
        return
    wish = Wish(
        what="memory", key=f"kept {run.run_id}", title="Not counted", again="Count the cache"
    )
    found: Measurement | None = granted(wish, partial(_ask, store, run), store, st.empty())
    if found is not None:
        counted(found, run)


def _ask(store: RunStore, run: Any) -> Ticket[Measurement]:
    return store.learned(
        ("kept", run.run_id),
        f"the cache of run {run.run_id[:6]}",
        partial(_measured, store, run),
        reader_id(),
    )


def _measured(store: RunStore, run: object, ticket: Ticket[Measurement]) -> Measurement:
    ticket.report("loading the model", 0.0)
    return measure(store.engine.complete(run), ticket)
