"""What a page shows of one run: tensor, proof, and news for the reading half."""

from collections.abc import Mapping
from typing import Any

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from annotations.node import Node
from app.components.bridge import bridge
from app.panels.distribution import distribution_panel
from app.panels.keep_alone import kept_alone, offer_alone
from app.panels.live_data import Spot, live_data, spot_of
from app.panels.proof import LONG, asked_of, offer_replay, proof_panel, proof_wish
from app.panels.reader_id import reader_id
from app.panels.run_choice import request_of
from app.panels.run_news import run_news
from app.panels.tensor import tensor_panel
from app.panels.waiting import Wish, granted
from app.place import Place
from app.run_checks import CheckRow
from app.run_taps import find_taps, live_taps
from app.runs import RunStore
from app.state import Selection

REPLAYED = "replayed-request"
"""Key of the long proof that this reader asked for last."""


@st.fragment
def live_panel(
    selection: Selection, place: Place, nodes: Mapping[str, Node], run: Any, store: RunStore
) -> None:
    """Draw the live half of a node for a finished run."""
    slot = st.empty()
    spot = spot_of(place.node, place.entry.instance or None, place.layer, selection, run)
    is_layered = place.layer is not None
    live = live_data(spot, run)
    if live.needs_model and (whole := _completed(run, store, slot)) is not None:
        run, live = whole, live_data(spot, whole)
    live = kept_alone(live, spot, run, store, slot)
    tensor_panel(live, spot, run, selection.model, is_layered=is_layered)
    offer_alone(live, run)
    if live.figures:
        distribution_panel(spot, run)
    checks = _checks(spot, run, store, is_layered=is_layered)
    url = {"run": run.run_id} if request_of(selection) else None
    bridge(run=run_news(spot, run, nodes, checks), url=url, key="bridge-run")
    store.complete_soon(run)


def _completed(run: Any, store: RunStore, slot: DeltaGenerator) -> Any | None:
    """The stored run with its model; None where the model could not be had, which is said."""
    wish = Wish(
        what="values",
        key=f"values {run.run_id}",
        title="Not computed",
        again="Compute what was not stored",
    )
    return granted(wish, lambda: store.completed(run, reader_id()), store, slot, in_fragment=True)


def _checks(spot: Spot, run: Any, store: RunStore, *, is_layered: bool) -> tuple[CheckRow, ...]:
    """Draw the proof; the rows are replayed on the worker, once for each page of a run."""
    slot = st.empty()
    try:
        taps = find_taps(spot.node, live_taps(spot.node), run.config, spot.layer, spot.at)
    except LookupError:
        # the tensor panel has said why
        return ()
    asked = asked_of(spot, taps, is_layered=is_layered)
    if asked is None:
        proof_panel((), spot, run)
        return ()
    wish = proof_wish(run, asked)
    is_offered = len(run.token_ids) > LONG and st.session_state.get(REPLAYED) != wish.key
    if is_offered and not store.is_checked(run, asked) and not offer_replay(run):
        return ()
    # while it is awaited this fragment is drawn again
    st.session_state[REPLAYED] = wish.key
    rows: tuple[CheckRow, ...] | None = granted(
        wish, lambda: store.checked(run, asked, reader_id()), store, slot, in_fragment=True
    )
    if rows is None:
        return ()
    proof_panel(rows, spot, run)
    return rows
