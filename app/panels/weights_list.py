"""The tensors of a checkpoint by name, a page at a time, and the values of a few of them."""

from typing import Any

import streamlit as st

from app.components.bridge import bridge
from app.looks import MOST_READ, ROWS, Contents, Listing, Look
from app.microscope import Microscope, Seen
from app.panels.follow import follow, note_sent
from app.panels.html import draw
from app.panels.weights_ask import ask, ask_if_wanted, register, size
from app.panels.weights_report import weights_report
from app.state import Selection

SMALL_LIST = 4_000_000
"""Bytes of a list of tensors that is read without asking."""


def weights_list(selection: Selection, contents: Contents, microscope: Microscope) -> None:
    """Draw the list, and the values where they were asked for."""
    look = Look(
        checkpoint=selection.checkpoint,
        what="tensors",
        pattern=selection.tensors,
        page=selection.page - 1,
    )
    if contents.remote and contents.index > SMALL_LIST:
        cost = (
            f"The list of its tensors is a file of {size(contents.index)}. It is read once, unless "
            "it is on this machine already; each page of names then needs some headers besides."
        )
        seen = ask_if_wanted(look, microscope, cost, f"Read the list, {size(contents.index)}")
    else:
        seen = ask(look, microscope)
    if seen is None:
        return
    listing: Listing = seen.value
    _draw(listing, look, seen)
    _pages(listing)
    if listing.planned is not None:
        _values(selection, listing, microscope)


def _draw(listing: Listing, look: Look, seen: Seen) -> None:
    rows = [
        {
            "name": entry.name,
            "dtype": entry.dtype,
            "shape": " × ".join(f"{n:,}" for n in entry.shape) or "one value",
            "bytes": f"{entry.nbytes:,}",
            "file": entry.file,
        }
        for entry in listing.rows
    ]
    lead = _lead(listing, look.pattern)
    draw("weights_list.html", register=register(look, seen), lead=lead, rows=rows)


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


def _pages(listing: Listing) -> None:
    """Which page of a long list; the address keeps it."""
    pages = -(-listing.count // ROWS)
    if pages < 2:
        return
    shown = listing.first // ROWS + 1
    follow("weights-page", shown)
    page = int(
        st.number_input(f"Page, of {pages:,}", 1, pages, key="weights-page", width=160) or shown
    )
    if page != shown:
        note_sent("weights-page", page)
        bridge(url={"page": page}, key="bridge-weights-page")


def _values(selection: Selection, listing: Listing, microscope: Microscope) -> None:
    look = Look(checkpoint=selection.checkpoint, what="read", pattern=selection.tensors)
    which = "its values" if listing.count == 1 else f"the values of all {listing.count}"
    word = f"Read {which}, {size(listing.planned or 0)}"
    seen = ask_if_wanted(look, microscope, "", word)
    if seen is None:
        return
    words: dict[str, Any] = {"title": "Values", "run": "", "lead": ""}
    draw("section.html", register=register(look, seen), **words)
    for place, tensor in enumerate(seen.value):
        weights_report(tensor, key=f"weights-tensor-{place}")
