"""The live half of a node: its tensor in the run of the address, and the proof."""

from collections.abc import Mapping

import streamlit as st

from annotations.node import Node
from app.components.bridge import bridge
from app.panels.live_panel import live_panel
from app.panels.run_panel import run_panel
from app.place import Place
from app.runs import RunStore
from app.state import Selection


def node_live(
    selection: Selection, place: Place, nodes: Mapping[str, Node], store: RunStore
) -> None:
    """Draw the live half. Waits where the run is not finished, so fill what stands below first."""
    run = run_panel(selection, store, st.empty())
    if run is None:
        bridge(run=None, key="bridge-run")
    else:
        live_panel(selection, place, nodes, run, store)
