"""The live half of a kernel's page: the kernel on the reader's run, beside float64."""

from collections.abc import Mapping
from dataclasses import replace

import streamlit as st

from annotations.kernel import load_kernels
from annotations.node import Node
from annotations.outline import flat
from app.components.bridge import bridge
from app.components.reader import reader
from app.models import family_of
from app.panels.kernel_panel import kernel_panel
from app.panels.run_panel import run_panel
from app.place import Place, place_of, running_config
from app.reader.kernel_payload import packed
from app.runs import RunStore
from app.state import Selection


def kernel_live(
    selection: Selection, place: Place, nodes: Mapping[str, Node], store: RunStore
) -> None:
    """Bring the pages, and draw the live half where the model has what the kernel computes."""
    reader("kernels", packed(selection.model))
    bridge(run=None, key="bridge-run")
    kernel = load_kernels().get(selection.kernel)
    if kernel is None:
        return
    if place.entry.node not in kernel.nodes:
        here = {entry.node for entry in flat(family_of(selection.model))}
        served = [node for node in kernel.nodes if node in here]
        if not served:
            return
        asked = replace(selection, node=served[0], at=None)
        place = place_of(asked, nodes, running_config(selection.source))
    run = run_panel(selection, store, st.empty())
    if run is not None:
        kernel_panel(kernel, selection, place, run, store)
