"""A kernel's page, as a script for AppTest."""

import streamlit as st

from annotations.loader import load_nodes
from app import place, state
from app.runs import shared_store
from app.views.kernel_live import kernel_live

nodes = st.session_state.setdefault("test-nodes", load_nodes())
selection = state.selection(st.query_params)
spot = place.place_of(selection, nodes, place.running_config(selection.source))
kernel_live(selection, spot, nodes, shared_store())
