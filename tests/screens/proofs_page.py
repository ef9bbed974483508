"""The page of all proofs, as a script for AppTest."""

import streamlit as st

from annotations.loader import load_nodes
from app import state
from app.runs import shared_store
from app.views.proofs_live import proofs_live

nodes = st.session_state.setdefault("test-nodes", load_nodes())
proofs_live(state.selection(st.query_params), nodes, shared_store())
