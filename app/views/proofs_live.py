"""All proofs: every equation of the running model on one run, and those it cannot answer."""

from collections.abc import Mapping
from functools import partial
from typing import Any

import streamlit as st

from annotations.node import Node
from app.components.bridge import bridge
from app.panels.all_proofs import all_proofs, left_unanswered
from app.panels.proof import LONG, offer_replay, proof_wish
from app.panels.reader_id import reader_id
from app.panels.run_panel import run_panel
from app.panels.waiting import Wish, granted
from app.run_checks import Asked, CheckRow
from app.run_proofs import Unanswered, unanswered
from app.run_ticket import Ticket
from app.runs import RunStore
from app.state import Selection

EVERY = Asked(taps=())


def proofs_live(selection: Selection, nodes: Mapping[str, Node], store: RunStore) -> None:
    """Draw the page. The equations are replayed on the worker, once a run."""
    bridge(run=None, key="bridge-run")
    run = run_panel(selection, store, st.empty())
    if run is None:
        return
    slot = st.empty()
    is_long = len(run.token_ids) > LONG and not store.is_checked(run, EVERY)
    if is_long and not offer_replay(run):
        return
    rows: tuple[CheckRow, ...] | None = granted(
        proof_wish(run, EVERY), lambda: store.checked(run, EVERY, reader_id()), store, slot
    )
    if rows is None:
        return
    all_proofs(rows, run, nodes, selection.model)
    others = granted(
        Wish(
            what="unanswered",
            key=f"unanswered {run.run_id}",
            title="Not asked",
            again="Ask the other equations",
        ),
        partial(_ask_others, store, run, tuple(row.name for row in rows)),
        store,
        st.empty(),
    )
    if others is not None:
        left_unanswered(others, run, nodes, selection.model)


def _ask_others(store: RunStore, run: Any, answered: tuple[str, ...]) -> Ticket[Any]:
    return store.learned(
        ("unanswered", run.run_id),
        f"the equations that run {run.run_id[:6]} cannot answer",
        partial(_others, store, run, answered),
        reader_id(),
    )


def _others(
    store: RunStore, run: Any, answered: tuple[str, ...], ticket: Ticket[Any]
) -> tuple[Unanswered, ...]:
    ticket.report("asking the other equations why they are silent", 0.0)
    return unanswered(store.engine.complete(run), answered)
