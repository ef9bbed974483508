"""The page of memory, as a script for AppTest."""

import streamlit as st

from app import state
from app.runs import shared_store
from app.views.memory_live import memory_live

memory_live(state.selection(st.query_params), shared_store())
