"""Who is asking: one name for each open page."""

from uuid import uuid4

import streamlit as st

KEY = "reader-id"


def reader_id() -> str:
    return st.session_state.setdefault(KEY, uuid4().hex)
