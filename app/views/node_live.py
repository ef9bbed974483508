"""The live half of a node: its tensor in the run of the address, and the proof."""

from collections.abc import Mapping
from typing import Any

import streamlit as st

from annotations.node import Node
from app.components.bridge import bridge
from app.panels.html import draw
from app.panels.keep_alone import kept_alone, offer_alone
from app.panels.live_data import Live, Spot, live_data, spot_of
from app.panels.proof import asked_of, proof_panel
from app.panels.reader_id import reader_id
from app.panels.run_choice import Choice, choose, request_of
from app.panels.run_news import run_news
from app.panels.tensor import tensor_panel
from app.panels.waiting import STOPPED, await_ticket
from app.place import Place
from app.run_taps import find_taps, live_taps
from app.runs import RunStore
from app.state import Selection

SAID = "said-of-request"


@st.fragment
def node_live(
    selection: Selection, place: Place, nodes: Mapping[str, Node], store: RunStore
) -> None:
    """Draw the live half. Waits where the run is not finished, so fill what stands below first."""
    slot = st.empty()
    run = _run(selection, store, slot)
    if run is None:
        bridge(run=None, key="bridge-run")
        return
    spot = spot_of(place.node, place.entry.instance or None, place.layer, selection, run)
    is_layered = place.layer is not None
    live = live_data(spot, run)
    if live.needs_model and (whole := _completed(run, store, slot)) is not None:
        run, live = whole, live_data(spot, whole)
    live = kept_alone(live, spot, run, store, slot)
    tensor_panel(live, spot, run, is_layered=is_layered)
    offer_alone(live, run)
    checks = _checks(spot, live, run, store, is_layered=is_layered)
    url = {"run": run.run_id} if request_of(selection) else None
    bridge(run=run_news(spot, run, nodes, checks), url=url, key="bridge-run")


def _run(selection: Selection, store: RunStore, slot: Any) -> Any | None:
    reader = reader_id()
    choice = choose(selection, store, reader, st.session_state.get(STOPPED, ""))
    request = request_of(selection)
    for notice in _notices(choice, request.key if request else ""):
        draw("state.html", kind="notice", title="", sentence=notice, share=0)
    if choice.ticket is None:
        if choice.sentence:
            draw(
                "state.html", kind="failed", title="Nothing ran", sentence=choice.sentence, share=0
            )
        return choice.run
    await_ticket(choice.ticket, store, reader, slot, "run", request.key if request else "")
    if choice.ticket.state == "done":
        # the sidebar was drawn before the run had steps to choose from
        st.rerun()
    sentence = choice.ticket.error or "This run was stopped. Press Run to start it again."
    draw("state.html", kind="failed", title="No run", sentence=sentence, share=0)
    return None


def _notices(choice: Choice, key: str) -> tuple[str, ...]:
    """Kept while the request is on screen: the page is drawn again once its run is there."""
    if choice.notices:
        st.session_state[SAID] = (key, choice.notices)
    said, notices = st.session_state.get(SAID, ("", ()))
    return notices if said == key else ()


def _completed(run: Any, store: RunStore, slot: Any) -> Any | None:
    """The stored run with its model; None where the model could not be had, which is said."""
    ticket = store.completed(run, reader_id())
    await_ticket(ticket, store, reader_id(), slot, "values")
    if ticket.state == "done":
        return ticket.result()
    if ticket.error:
        draw("state.html", kind="failed", title="", sentence=ticket.error, share=0)
    return None


def _checks(spot: Spot, live: Live, run: Any, store: RunStore, *, is_layered: bool) -> Any:
    """Draw the proof; the rows are replayed on the worker, once for each page of a run."""
    slot = st.empty()
    try:
        taps = find_taps(spot.node, live_taps(spot.node), run.config, spot.layer, spot.at)
    except LookupError:
        # the tensor panel has said why
        return ()
    ticket = store.checked(run, asked_of(spot, taps, is_layered=is_layered), reader_id())
    await_ticket(ticket, store, reader_id(), slot, "proof")
    if ticket.state != "done":
        sentence = ticket.error or "The replay was stopped."
        draw("state.html", kind="failed", title="Proof", sentence=sentence, share=0)
        return ()
    proof_panel(ticket.result(), spot, run)
    return ticket.result()
