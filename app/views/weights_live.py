"""Weights under the microscope: single tensors of a checkpoint, read where they stand."""

from concurrent.futures import Future
from concurrent.futures import TimeoutError as NotYet
from time import monotonic
from typing import Any

import streamlit as st

from app.components.bridge import bridge
from app.microscope import MOST_READ, ROWS, Listing, Look, Microscope, Seen, shared_microscope
from app.panels.html import draw
from app.panels.weights_form import WORDS, weights_form
from app.panels.weights_report import weights_report
from app.panels.weights_views import weights_view
from app.state import Selection

PATIENCE = 120.0
"""Seconds that a page waits for one look; the look goes on."""
BEAT = 0.2


def weights_live(selection: Selection) -> None:
    """Draw the page: the question, what would be read, and what was found."""
    bridge(run=None, key="bridge-run")
    selection, url = weights_form(selection)
    bridge(url=url, key="bridge-weights")
    if not selection.checkpoint:
        _say(
            "notice",
            "No checkpoint is open. Name one: only its list of tensors is read until you ask for "
            "more, and how many bytes that is stands there first.",
        )
        return
    _look(selection, shared_microscope())


def _look(selection: Selection, microscope: Microscope) -> None:
    what = selection.look
    if what == "tensors":
        _tensors(selection, microscope)
        return
    look = Look(checkpoint=selection.checkpoint, what=what)
    if not microscope.has(look):
        from model.peek_plan import BOUND

        _say("notice", f"{WORDS[what]}: reads the few tensors that say so, at most {_size(BOUND)}.")
        if not st.button("Read them", key="weights-read", type="primary"):
            return
        _begin(look, microscope)
    if (seen := _await(microscope.ask(look), selection.checkpoint, microscope)) is not None:
        weights_view(what, seen.value, _register(selection.checkpoint, seen))


def _tensors(selection: Selection, microscope: Microscope) -> None:
    page = int(st.session_state.get("weights-page", 1)) - 1
    look = Look(
        checkpoint=selection.checkpoint, what="tensors", pattern=selection.tensors, page=page
    )
    seen = _await(microscope.ask(look), selection.checkpoint, microscope)
    if seen is None:
        return
    listing: Listing = seen.value
    draw(
        "weights_list.html",
        register=_register(selection.checkpoint, seen),
        lead=_lead(listing, selection.tensors),
        rows=[
            {
                "name": entry.name,
                "dtype": entry.dtype,
                "shape": " × ".join(f"{n:,}" for n in entry.shape) or "one value",
                "bytes": f"{entry.nbytes:,}",
                "file": entry.file,
            }
            for entry in listing.rows
        ],
    )
    pages = -(-listing.count // ROWS)
    if pages > 1:
        st.number_input(f"Page, of {pages:,}", 1, pages, key="weights-page")
    if listing.planned is not None:
        _read(selection, listing, microscope)


def _lead(listing: Listing, pattern: str) -> str:
    last = listing.first + len(listing.rows)
    shown = f"{listing.first + 1:,} to {last:,} of " if listing.count > len(listing.rows) else ""
    fit = "fits" if listing.count == 1 else "fit"
    said = f"{shown}{listing.count:,} {fit} {pattern}."
    if listing.planned is not None:
        return said
    if listing.count > MOST_READ:
        return f"{said} To read values, narrow the pattern to {MOST_READ} tensors or fewer."
    return f"{said} Their values are more than one look may read; narrow the pattern."


def _read(selection: Selection, listing: Listing, microscope: Microscope) -> None:
    look = Look(checkpoint=selection.checkpoint, what="read", pattern=selection.tensors)
    if not microscope.has(look):
        which = "its values" if listing.count == 1 else f"the values of all {listing.count}"
        word = f"Read {which}, {_size(listing.planned or 0)}"
        if not st.button(word, key="weights-read", type="primary"):
            return
        _begin(look, microscope)
    seen = _await(microscope.ask(look), selection.checkpoint, microscope)
    if seen is None:
        return
    draw(
        "section.html",
        title="Values",
        register=_register(selection.checkpoint, seen),
        run="",
        lead="",
    )
    for report in seen.value:
        weights_report(report)


def _begin(look: Look, microscope: Microscope) -> None:
    """Begin a look, and draw the page anew without its button."""
    microscope.ask(look)
    st.rerun()


def _await(future: "Future[Seen]", checkpoint: str, microscope: Microscope) -> Seen | None:
    """The look once it is made; None after saying what went wrong."""
    slot, started = st.empty(), monotonic()
    while monotonic() - started < PATIENCE:
        try:
            seen: Seen = future.result(BEAT)
        except NotYet:
            came = microscope.transferred(checkpoint)
            with slot.container():
                sentence = f"Reading {checkpoint}, {_size(came)} came so far."
                draw("state.html", kind="working", title="Working", sentence=sentence, share=0)
            continue
        except ValueError as error:
            slot.empty()
            draw("state.html", kind="failed", title="Not read", sentence=str(error), share=0)
            return None
        slot.empty()
        for notice in seen.notices:
            _say("notice", notice)
        return seen
    _say("notice", f"{checkpoint} has not answered for {PATIENCE:.0f} s. Open it again later.")
    return None


def _register(checkpoint: str, seen: Seen) -> str:
    at = f" at {seen.revision[:12]}" if seen.revision else ""
    came = (
        f", {_size(seen.transferred)} over the network" if seen.revision else ", from this machine"
    )
    return f"{checkpoint}{at}{came}"


def _size(count: int) -> str:
    """`0 B`, `812 B`, `1.2 MB`: as networks count, by thousands."""
    size: Any = count
    for unit in ("B", "kB", "MB"):
        if size < 1000 or unit == "MB":
            return f"{size:,} {unit}" if unit == "B" else f"{size:,.1f} {unit}"
        size /= 1000
    raise AssertionError(count)


def _say(kind: str, sentence: str) -> None:
    draw("state.html", kind=kind, title="", sentence=sentence, share=0)
