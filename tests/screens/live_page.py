"""The frame of a page around the live half, as a script for AppTest."""

import streamlit as st

from annotations.loader import load_nodes
from app import state
from app.panels.prompt import place_pickers, prompt_form
from app.place import place_of
from app.runs import shared_store
from app.views.node_live import node_live
from model.presets import preset

nodes = st.session_state.setdefault("test-nodes", load_nodes())
selection = state.selection(st.query_params)
store = shared_store()
with st.sidebar:
    selection, st.session_state["test-url"] = prompt_form(selection, store)
    place = place_of(selection, nodes, preset(selection.source))
    selection, _ = place_pickers(selection, place, store)
    place = place_of(selection, nodes, preset(selection.source))
node_live(selection, place, nodes, store)
