"""What a reader asks of a checkpoint: which, which tensors, and how to look at them."""

from collections.abc import Mapping
from dataclasses import replace

import streamlit as st

from app.microscope import What, offered
from app.panels.follow import follow, note_sent
from app.state import LOOKS, Selection

WORDS: Mapping[What, str] = {
    "tensors": "Tensors by name",
    "decay": "How fast each KDA head forgets",
    "residual": "What each attention residual looks for",
    "router": "Balance of the routers",
}
FIELDS = ("checkpoint", "tensors", "look")


def weights_form(selection: Selection) -> tuple[Selection, dict[str, str | None]]:
    """The question. Returns the selection as the reader has it, and what to write."""
    keys = offered()
    options = [*keys, *([] if selection.checkpoint in ("", *keys) else [selection.checkpoint])]
    values = (selection.checkpoint or None, selection.tensors, selection.look)
    for field, value in zip(FIELDS, values, strict=True):
        follow(f"weights-{field}", value)
    with st.form("weights-form", border=False):
        left, middle, right = st.columns([4, 4, 3], vertical_alignment="bottom")
        with left:
            checkpoint = st.selectbox(
                "Checkpoint",
                options,
                index=None,
                key="weights-checkpoint",
                accept_new_options=True,
                placeholder="org/name on the Hub" + (", or one of these" if keys else ""),
            )
        with middle:
            tensors = st.text_input(
                "Tensors, * for any letters", key="weights-tensors", max_chars=200
            )
        with right:
            look = st.selectbox("Look at", LOOKS, key="weights-look", format_func=WORDS.__getitem__)
        pressed = st.form_submit_button("Open", key="weights-open", type="primary")
    if not pressed:
        return selection, {}
    asked = (str(checkpoint or "").strip(), tensors.strip() or "*", look)
    for field, value in zip(FIELDS, asked, strict=True):
        note_sent(f"weights-{field}", value)
    changed = replace(selection, checkpoint=asked[0], tensors=asked[1], look=asked[2])
    return changed, dict(zip(FIELDS, (asked[0] or None, asked[1], asked[2]), strict=True))
