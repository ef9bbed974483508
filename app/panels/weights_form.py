"""What a reader asks of a checkpoint: how to look, into which one, and at which tensors."""

from collections.abc import Mapping
from dataclasses import replace

import streamlit as st

from annotations.pins import pins
from app.looks import What
from app.microscope import offered
from app.panels.follow import follow, note_sent
from app.state import LOOKS, Selection

Url = dict[str, str | int | None]
WORDS: Mapping[What, str] = {
    "tensors": "Tensors by name",
    "decay": "Decay of KDA heads",
    "residual": "Queries of residuals",
    "router": "Balance of routers",
}


def weights_form(selection: Selection) -> tuple[Selection, Url]:
    """The question. Returns the selection as the reader has it, and what to write."""
    selection, url = _how(selection)
    follow("weights-checkpoint", selection.checkpoint or None)
    follow("weights-tensors", selection.tensors)
    with st.form("weights-form", border=False):
        is_by_name = selection.look == "tensors"
        columns = st.columns([4, 4, 1] if is_by_name else [4, 5], vertical_alignment="bottom")
        with columns[0]:
            checkpoint = st.selectbox(
                "Checkpoint",
                _options(selection.checkpoint),
                index=None,
                key="weights-checkpoint",
                accept_new_options=True,
                placeholder="org/name on the Hub, or one of these",
            )
        tensors = selection.tensors
        if is_by_name:
            with columns[1]:
                tensors = st.text_input(
                    "Tensors; * stands for any letters", key="weights-tensors", max_chars=200
                )
        with columns[-1]:
            pressed = st.form_submit_button(
                "Open",
                key="weights-open",
                type="primary",
                width="stretch" if is_by_name else "content",
            )
    if not pressed:
        return selection, url
    name, pattern = str(checkpoint or "").strip(), tensors.strip() or "*"
    note_sent("weights-checkpoint", name or None)
    note_sent("weights-tensors", pattern)
    asked = replace(selection, checkpoint=name, tensors=pattern, page=1)
    return asked, url | {"checkpoint": name or None, "tensors": pattern, "page": None}


def _how(selection: Selection) -> tuple[Selection, Url]:
    """Tensors by name, or one of the ready-made views."""
    follow("weights-look", selection.look)
    look = st.segmented_control(
        "Look at",
        LOOKS,
        key="weights-look",
        format_func=WORDS.__getitem__,
        required=True,
        label_visibility="collapsed",
    )
    if look is None or look == selection.look:
        return selection, {}
    note_sent("weights-look", look)
    return replace(selection, look=look), {"look": look}


def _options(asked: str) -> list[str]:
    """The operator's checkpoints, the released ones on the Hub, and what the address names."""
    released = [pin.repo for pin in pins().values() if pin.host == "hub"]
    named = [asked] if asked else []
    return list(dict.fromkeys([*offered(), *released, *named]))
