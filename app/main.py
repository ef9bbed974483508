"""The frame of every page: outline and prompt at the left, the context rule on top, two halves."""

import streamlit as st

from app import place, state, theme
from app.components.bridge import bridge
from app.components.reader import reader
from app.panels.prompt import place_pickers, prompt_form
from app.reader import compare_page, font, payload
from app.runs import shared_store
from app.views.kernel_live import kernel_live
from app.views.memory_live import memory_live
from app.views.node_live import node_live
from app.views.overview_live import overview_live
from app.views.proofs_live import proofs_live
from app.views.weights_live import weights_live


def main() -> None:
    """Draw the page of the address. Streamlit calls this on every rerun."""
    st.set_page_config(page_title="Kimiscope", layout="wide", initial_sidebar_state=296)
    st.html(f"<style>{theme.frame_css(theme.mode())}</style>")
    selection = state.selection(st.query_params)
    nodes, store = payload.current_nodes(), shared_store()
    with st.sidebar:
        reader("outline", payload.packed(selection.model))
        selection, url = prompt_form(selection, store)
        spot = place.place_of(selection, nodes, place.running_config(selection.source))
        selection, more = place_pickers(selection, spot, store)
        reader("tree")
    with st.container(key="bar"):
        reader("bar")
    compare_page.make_soon(payload.fingerprint())
    compared = selection.view == "compare"
    reader("above", compare_page.packed(*selection.pair) if compared else None)
    if selection.notices:
        with st.container(key="notices"):
            st.text("\n".join(selection.notices))
    live = st.container(key="live")
    reader("below", font.packed())
    bridge(url=url | more, key="bridge-url")
    with live:
        spot = place.place_of(selection, nodes, place.running_config(selection.source))
        if selection.view == "weights":
            weights_live(selection)
        elif selection.view == "proofs":
            proofs_live(selection, nodes, store)
        elif selection.view == "memory":
            memory_live(selection, store)
        elif compared:
            # nothing of it has run
            bridge(run=None, key="bridge-run")
        elif selection.view == "kernel":
            kernel_live(selection, spot, nodes, store)
        else:
            half = node_live if selection.view == "node" else overview_live
            half(selection, spot, nodes, store)
