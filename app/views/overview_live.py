"""The live half of the overview: the finished example, and what the graph may show of it."""

from collections.abc import Mapping

from annotations.node import Node
from app.components.bridge import bridge
from app.panels.example import example_panel
from app.panels.live_data import spot_of
from app.panels.run_choice import request_of
from app.panels.run_news import run_news
from app.place import Place
from app.runs import RunStore
from app.state import Selection


def overview_live(
    selection: Selection, place: Place, nodes: Mapping[str, Node], store: RunStore
) -> None:
    """Draw the stored run; the reading half is told of the reader's own, where there is one."""
    example_panel(store)
    asked = request_of(selection)
    run = (asked and store.known(asked)) or store.example()
    if run is None:
        bridge(run=None, key="bridge-run")
        return
    spot = spot_of(place.node, place.entry.instance or None, place.layer, selection, run)
    bridge(run=run_news(spot, run, nodes, ()), key="bridge-run")
    store.complete_soon(run)
