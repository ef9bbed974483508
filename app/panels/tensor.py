"""The live tensor of a page: its head, its figures, and what to look for."""

from typing import Any

import streamlit as st

from app.components.tensor_canvas.mount import tensor_canvas
from app.models import config_of, name_of, readable
from app.panels.html import draw, render
from app.panels.live_data import Live, Spot
from app.panels.look import look_text
from app.run_kinship import difference, released_like
from app.run_reading import positions_at, source_words

TITLES = {"weights_over_depth": "Weights over depth", "state": "What one token did"}


def register(spot: Spot, run: Any, *, is_layered: bool) -> str:
    """What the numbers of this section are about."""
    where = f", layer {spot.layer}" if is_layered else ""
    positions = positions_at(run, spot.step)
    return f"{source_words(run)}{where}, {positions:,} positions"


def other_model(priced: str, run: Any) -> str:
    """A sentence where the sizes on the page are those of a model of another build."""
    parts = difference(run.config, config_of(priced))
    if not parts:
        return ""
    like = released_like(run.config)
    kind = f", built as {name_of(like)}," if like else ""
    return (
        f"The sizes on this page are {name_of(priced)}'s; the numbers below are of {run.source}, "
        f"which{kind} {' and '.join(parts)}."
    )


def sizes_of(run: Any) -> tuple[str, ...]:
    """Models whose pages fit a run: its own size, and the released one that it is built as."""
    like = released_like(run.config)
    own = run.source if run.source in readable() else None
    return tuple(model for model in (own, like) if model is not None)


def tensor_panel(live: Live, spot: Spot, run: Any, priced: str, *, is_layered: bool) -> None:
    """Draw all that `live` holds; reasons stand where a tensor is absent."""
    other = other_model(priced, run)
    draw(
        "section.html",
        title=TITLES.get(spot.node.figure, "Live tensor"),
        register=register(spot, run, is_layered=is_layered),
        run=run.run_id,
        run_word="stored run" if run.is_stored else "run",
        lead=" ".join(filter(None, (other, *run.notices))),
        others=sizes_of(run) if other else (),
    )
    for index, figure in enumerate(live.figures):
        tensor_canvas(figure, key=f"live-{index}")
    if live.notice:
        draw("state.html", kind="notice", title="", sentence=live.notice, share=0)
    for reason in live.reasons:
        draw("state.html", kind="absent", title="", sentence=reason, share=0)
    if live.figures and spot.node.look:
        text = look_text(spot.node.look, run.config)
        st.html(render("note.html", title="What to look for.", text=text))
