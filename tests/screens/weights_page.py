"""The page of weights, as a script for AppTest."""

import streamlit as st

from app import state
from app.views.weights_live import weights_live

weights_live(state.selection(st.query_params))
