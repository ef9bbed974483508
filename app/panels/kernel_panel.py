"""A kernel on the run of the page: how far its results are from the equations in float64."""

from collections.abc import Callable
from typing import Any

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from annotations.kernel import Kernel
from app.panels.html import draw
from app.panels.live_data import spot_of
from app.panels.reader_id import reader_id
from app.panels.waiting import STOPPED, Wish, granted, say_absent
from app.place import Place
from app.run_kernel import MOST_POSITIONS, Asked, Outcome, ask, bench, refusal
from app.run_reading import source_words
from app.run_ticket import Ticket
from app.runs import RunStore
from app.state import Selection

TITLE = "The kernel on this run"
ASKED = "kernel-asked"
LEAD = (
    "The kernel takes what this run captured, and float64 takes the same values. On a machine "
    "without a GPU it runs in Triton's interpreter, in a process of its own, for up to "
    f"{MOST_POSITIONS} positions."
)


@st.fragment
def kernel_panel(
    kernel: Kernel, selection: Selection, place: Place, run: Any, store: RunStore
) -> None:
    """Draw the comparison; it is made when a reader asks for it."""
    spot = spot_of(place.node, place.entry.instance or None, place.layer, selection, run)
    where = f"layer {place.layer}" if place.layer is not None else "outside the layers"
    draw(
        "section.html",
        title=TITLE,
        register=f"{source_words(run)}, {where}",
        run=run.run_id,
        lead=LEAD,
    )
    if said := refusal(kernel.id, run, spot.step):
        say_absent("Not run", said)
        return
    key = f"{run.run_id} {kernel.id} {place.path} {spot.step}"
    button, slot = st.empty(), st.empty()
    if st.session_state.get(ASKED) != key:
        if not button.button("Run the kernel", key="kernel-run"):
            return
        st.session_state[ASKED] = key
        button.empty()
    outcome = _outcome((kernel.id, place.path, spot.step), run, store, slot, key)
    if outcome is not None:
        _show(outcome, run.dtype)


def _outcome(
    asked: Asked, run: Any, store: RunStore, slot: DeltaGenerator, key: str
) -> Outcome | None:
    """What came back; None after saying why nothing did."""
    whole = run
    if run.model is None:
        whole = _waited("values", lambda: store.completed(run, reader_id()), store, slot, key)
    if whole is None:
        return None
    return _waited("kernel", lambda: ask(asked, whole, reader_id()), bench(), slot, key)


def _waited(
    what: str, ask_for: Callable[[], Ticket[Any]], store: RunStore, slot: DeltaGenerator, key: str
) -> Any | None:
    wish = Wish(what=what, key=f"{what} {key}", title="Not run", again="Run the kernel")
    made = granted(wish, ask_for, store, slot, in_fragment=True)
    if made is None and st.session_state.get(STOPPED) != wish.key:
        # what failed is not begun again by the next rerun
        st.session_state.pop(ASKED, None)
    return made


def _show(outcome: Outcome, dtype: str) -> None:
    rows = [
        {
            "title": row.name,
            "where": " × ".join(f"{size:,}" for size in row.shape),
            "error": row.error,
            "tolerance": row.tolerance,
            "passed": row.passed,
            "exact": False,
        }
        for row in outcome.rows
    ]
    draw("proof.html", rows=rows, more=())
    draw("kernel_outcome.html", outcome=outcome, widened=dtype if dtype != outcome.dtype else "")
