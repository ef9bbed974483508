"""The proof of a page: how far the tensors of this run are from the equations, and the cache."""

from collections.abc import Sequence
from typing import Any

import streamlit as st

from app.panels.html import draw
from app.panels.live_data import Spot
from app.panels.waiting import Wish, ask_again
from app.run_checks import Asked, CheckRow
from app.run_taps import LiveTap
from model.cost import kept

LONG = 512
"""Positions up to which the equations are replayed unasked; some grow with their square."""
MOST = 6
"""Rows that stand open; pages that gather others have many."""
TAKES_LONG = (
    "This run is long, and replaying its equations in float64 would keep the worker from others."
)
REPLAY = "Replay the equations"
KEEPING = {
    "KimiMLAAttention.k_cached",
    "KimiMLAAttention.v_cached",
    "KimiMLAAttention.latent_cached",
    "KimiMLAAttention.shared_cached",
    "KimiDeltaAttention.state",
}
"""Taps of what a layer keeps between calls."""
ALSO = ("mla_absorbed", "prefill_is_decode")
"""Equations that say that keeping it changes nothing."""
OF_THE_CACHE = ("cache_counted", "cache_positions", "prefill_is_decode")
"""Equations of the cache as a whole, which no tap holds."""


def asked_of(spot: Spot, taps: Sequence[LiveTap], *, is_layered: bool) -> Asked | None:
    """The equations of the page: those of its own taps and of the taps that it shows.

    A page that gathers others asks for all of its place, one without any tensor for none.
    """
    names = tuple(dict.fromkeys((*spot.node.taps, *(tap.tap for tap in taps))))
    if not names and spot.node.kind != "group":
        is_cache = spot.node.kind.startswith("state")
        return Asked(taps=("KimiLM.cache",), also=OF_THE_CACHE) if is_cache else None
    places = {tap.place for tap in taps} or {spot.at or ""}
    place = places.pop() if len(places) == 1 else ""
    # no path leads to the layer itself, the empty one to the model itself
    at = place or (None if is_layered else "")
    also = () if KEEPING.isdisjoint(names) else ALSO
    return Asked(taps=names, layer=spot.layer if is_layered else None, at=at, also=also)


def proof_wish(run: Any, asked: Asked) -> Wish:
    return Wish(what="proof", key=f"proof {run.run_id} {asked}", title="Not replayed", again=REPLAY)


def offer_replay(run: Any) -> bool:
    """The head of the proof of a long run; True once the reader asks for it."""
    draw("section.html", title="Proof", register="not replayed", run=run.run_id, lead=TAKES_LONG)
    return st.button(REPLAY, key="replay", type="tertiary", on_click=ask_again)


def proof_panel(rows: Sequence[CheckRow], spot: Spot, run: Any) -> None:
    """A row an equation, and for what is kept between calls a row that counts it."""
    # what concerns the page alone, and of a long list what is nearest to its tolerance
    order = sorted(
        rows, key=lambda row: (row.name in ALSO, -_share(row) if len(rows) > MOST else 0)
    )
    table = [*map(_row, order), *_counted(spot, run)]
    if not table:
        draw("section.html", title="Proof", register="", run="", lead=NOTHING)
        return
    draw(
        "section.html",
        title="Proof",
        register="recomputed in float64 from captured inputs",
        run=run.run_id,
        lead="",
    )
    draw("proof.html", rows=table[:MOST], more=table[MOST:])


NOTHING = (
    "No equation gives a tensor of this page in the run on screen. Pages of single operations have "
    "their own."
)


def _share(row: CheckRow) -> float:
    return row.error / row.tolerance if row.passed else float("inf")


def _row(row: CheckRow) -> dict[str, Any]:
    where = f"worst of {row.places}, at step {row.step}" if row.places > 1 else ""
    if row.owner == "KimiLM":
        where = f"{where}, whole model" if where else "whole model"
    return {
        "title": row.title,
        "where": f"{where}: {row.detail}" if row.detail else where,
        "error": row.error,
        "tolerance": row.tolerance,
        "passed": row.passed,
        "exact": False,
    }


def _counted(spot: Spot, run: Any) -> list[dict[str, Any]]:
    if KEEPING.isdisjoint(spot.node.taps) and KEEPING.isdisjoint(spot.node.live):
        return []
    measured = run.cache_by_step[spot.step]
    held, values, size = measured.by_layer[spot.layer]
    kind = "kda" if "kda" in held else "latent" if "latent" in held else "expanded"
    predicted = kept(run.config, kind, positions=measured.positions, dtype=run.dtype)
    rows = [
        ("values counted in the cache = values predicted", values, predicted.values),
        ("bytes counted in the cache = bytes predicted", size, predicted.bytes),
    ]
    return [
        {
            "title": title,
            "where": f"layer {spot.layer} after step {spot.step}",
            "counted": f"{counted:,} {'=' if counted == wanted.value else '≠'} {wanted.value:,}",
            "formula": wanted.substituted,
            "passed": counted == wanted.value,
            "exact": True,
        }
        for title, counted, wanted in rows
    ]
