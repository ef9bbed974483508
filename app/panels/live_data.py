"""The figures of a node on a run: which taps, at which step, head and token, in what form."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from annotations.node import Node
from app.figures.heat import window
from app.figures.live import Shown, Tokens, live_figure
from app.figures.state import state_figure
from app.panels.depth_data import MOST_DEPTH_TOKENS, depth_of
from app.panels.state_data import state_terms
from app.run_reading import Reading, heads_in, positions_at, read
from app.run_taps import LiveTap, find_taps, live_taps

CHOSEN = ("KimiMoEGate.chosen", "KimiMoEGate.chosen_weight")
Origin = dict[str, Any]
"""Kind, taps and facts of what one panel shows."""
GROUP = "This page gathers others, and each of them shows its own tensor."
NONE = "No tensor of {source} belongs to this page alone."


@dataclass(frozen=True, kw_only=True)
class Spot:
    """Where a reader looks in a run."""

    node: Node
    at: str | None
    layer: int
    step: int
    head: int
    token: int | None
    asked_layer: int | None = None
    """As the address has it; the layer shown may be the nearest."""
    asked_head: int | None = None
    """As the address has it; other layers may have had more heads."""
    phase: str = "decode"
    address: str = ""
    """Changes whenever the address does, so that the browser hears of every answer."""


@dataclass(frozen=True, kw_only=True)
class Live:
    """Figures to draw, or the reasons that there are none."""

    figures: tuple[dict[str, Any], ...] = ()
    reasons: tuple[str, ...] = ()
    notice: str = ""
    """Said where nothing was to be shown, or something else than was asked for."""
    left_out: tuple[str, ...] = ()
    """Taps that the budget of the run left out."""
    needs_model: bool = False
    """Whether the model could compute what is absent from a stored run."""


def spot_of(node: Node, at: str | None, layer: int | None, choice: Any, run: Any) -> Spot:
    """The place of a selection in this run, each index held within what the run has."""
    last = run.steps - 1
    step = choice.step if choice.step is not None else (0 if choice.phase == "prefill" else last)
    step = min(step, last)
    token = choice.token
    if token is not None:
        token = min(token, positions_at(run, step) - 1)
    layer = layer or 0
    head = min(choice.head or 0, heads_in(run.config, layer) - 1)
    return Spot(
        node=node,
        at=at,
        layer=layer,
        step=step,
        head=head,
        token=token,
        asked_layer=choice.layer,
        asked_head=choice.head,
        phase=choice.phase,
        address=repr((replace(choice, notices=()), choice.notices)),
    )


def live_data(spot: Spot, run: Any) -> Live:
    """What the node's figure shows of this run."""
    if spot.node.figure == "none" or not live_taps(spot.node):
        is_group = spot.node.kind == "group"
        return Live(notice=GROUP if is_group else NONE.format(source=run.source))
    try:
        taps = find_taps(spot.node, live_taps(spot.node), run.config, spot.layer, spot.at)
        if spot.node.figure == "weights_over_depth":
            return Live(figures=(_depth(spot, taps[0], run),))
        if spot.node.figure == "state":
            figures = (_state(spot, taps[0], run),)
            return Live(figures=figures, notice=_nearest_head(spot, figures, run))
    except LookupError as absent:
        return Live(
            reasons=(str(absent),),
            needs_model=run.model is None,
            left_out=_left_out(spot, run),
        )
    live = _heat(spot, taps, run)
    notice = _nearest_head(spot, live.figures, run)
    return replace(live, notice=notice, left_out=_left_out(spot, run))


def _nearest_head(spot: Spot, figures: Sequence[dict[str, Any]], run: Any) -> str:
    """Says so where the head asked for is one of another layer's."""
    is_by_head = any(figure["tools"]["heads"] for figure in figures)
    if not is_by_head or spot.asked_head in (None, spot.head):
        return ""
    last = heads_in(run.config, spot.layer) - 1
    return (
        f"Head {spot.asked_head} was asked for. Layer {spot.layer} of {run.source} has heads 0 to "
        f"{last}; head {spot.head} is shown."
    )


def _left_out(spot: Spot, run: Any) -> tuple[str, ...]:
    """Of the page's taps those that the budget of the run left out."""
    try:
        taps = find_taps(spot.node, live_taps(spot.node), run.config, spot.layer, spot.at)
    except LookupError:
        return ()
    return tuple(tap.name for tap in taps if tap.name in run.left_out)


def _state(spot: Spot, tap: LiveTap, run: Any) -> dict[str, Any]:
    terms, last, origins = state_terms(run, tap, spot.step, spot.token, spot.head)
    shared = _shared(spot, [last], run) | {"provenance": origins}
    shared["name"] = f"{shared['name']}-state-of-token-{last.token}"
    return state_figure(terms, note="rows are value channels, columns key channels", **shared)


def _heat(spot: Spot, taps: Sequence[LiveTap], run: Any) -> Live:
    is_routing = spot.node.figure == "routing"
    found: list[tuple[LiveTap, Reading]] = []
    reasons: list[str] = []
    for tap in taps:
        if is_routing and tap.tap in CHOSEN:
            continue
        try:
            reading = read(run, tap.name, spot.step, token=spot.token, head=spot.head)
            found.append((tap, reading))
        except LookupError as absent:
            reasons.append(str(absent))
    shown = [_shown(tap, reading, run) for tap, reading in found]
    origins = [_origin(tap, reading) for tap, reading in found]
    if is_routing:
        try:
            routed, origin = _routed(spot, taps, run)
            shown, origins = [*shown, routed], [*origins, origin]
        except LookupError as absent:
            reasons.append(str(absent))
    needs_model = bool(reasons) and run.model is None
    if not shown:
        return Live(reasons=tuple(dict.fromkeys(reasons)), needs_model=needs_model)
    shared = _shared(spot, [reading for _, reading in found], run) | {"provenance": origins}
    figures = live_figure(shown, tokens_of(run, spot.step), spot.token, **shared)
    return Live(figures=tuple(figures), reasons=tuple(reasons), needs_model=needs_model)


def tokens_of(run: Any, step: int) -> Tokens:
    seen = positions_at(run, step)
    return Tokens(
        labels=tuple(token.display for token in run.tokens[:seen]),
        ids=tuple(run.token_ids[:seen]),
        new_from=run.prompt_length if seen > run.prompt_length else None,
    )


def _shown(tap: LiveTap, reading: Reading, run: Any) -> Shown:
    return Shown(
        tap=tap.tap,
        symbol=tap.attribute,
        stream=tap.stream,
        dims=reading.dims,
        values=reading.values,
        parts=_parts(reading.dims, run),
        all_heads=reading.all_heads,
    )


def _parts(dims: tuple[str, ...], run: Any) -> tuple[tuple[str, int], ...]:
    """Named parts of the last axis, where it joins two."""
    config = run.config
    content, shared = config.qk_nope_head_dim, config.qk_rope_head_dim
    return {
        "d_qk": (("content", content), ("shared", shared)),
        "d_kv_joint": (("latent", config.kv_lora_rank), ("shared", shared)),
        "d_kv_up": (("content", content), ("value", config.v_head_dim)),
    }.get(dims[-1] if dims else "", ())


def _address(spot: Spot, run: Any) -> dict[str, Any]:
    """By which the browser knows whether a figure is still the one that was asked for."""
    return {
        "node": spot.node.id,
        "at": spot.at,
        "layer": spot.layer,
        "asked_layer": spot.asked_layer,
        "phase": spot.phase,
        "address": hashlib.sha256(spot.address.encode("utf-8", "replace")).hexdigest()[:12],
        "run": run.run_id,
    }


def _origin(tap: LiveTap, reading: Reading) -> Origin:
    return {
        "symbol": tap.attribute,
        "kind": reading.kind,
        "taps": [tap.name],
        "facts": [*reading.facts, *([reading.reason] if reading.reason else [])],
    }


def _shared(spot: Spot, readings: Sequence[Reading], run: Any) -> dict[str, Any]:
    heads = max((reading.num_heads for reading in readings), default=0)
    by_token = next((r.token for r in readings if r.token is not None), None)
    seen = positions_at(run, spot.step)
    tokens = None
    if by_token is not None:
        first, last = window(seen, by_token, MOST_DEPTH_TOKENS)
        tokens = tokens_of(run, spot.step).cut(first, last)
    return {
        **_address(spot, run),
        "name": f"{run.run_id[:6]}-layer{spot.layer}",
        "token": spot.token,
        # far tokens lie outside the rows that were sent
        "ask_token": by_token is not None,
        "tools": {
            "heads": heads,
            "head": spot.head if heads else None,
            "tokens": tokens,
            "token": by_token,
        },
    }


def _routed(spot: Spot, taps: Sequence[LiveTap], run: Any) -> tuple[Shown, Origin]:
    """A column per expert: the weight with which a token goes to it, nothing where it does not."""
    gate = next((tap.place for tap in taps if tap.place.endswith("gate")), None)
    path = f"layers.{spot.layer}.{gate or taps[0].place + '.gate'}"
    chosen = read(run, f"{path}.chosen", spot.step, token=None, head=0)
    weight = read(run, f"{path}.chosen_weight", spot.step, token=None, head=0)
    dense = np.zeros((chosen.values.shape[0], run.config.num_experts), dtype=np.float32)
    np.put_along_axis(dense, chosen.values.astype(np.int64), weight.values, 1)
    shown = Shown(
        tap="KimiMoEGate.chosen_weight",
        symbol="weight",
        stream="routing",
        dims=("pos", "expert"),
        values=dense,
    )
    return shown, {
        "symbol": "weight",
        "kind": "derived",
        "taps": [f"{path}.chosen", f"{path}.chosen_weight"],
        "facts": list(weight.facts),
    }


def _depth(spot: Spot, tap: LiveTap, run: Any) -> dict[str, Any]:
    seen = tokens_of(run, spot.step)
    name = f"{run.run_id[:6]}-weights-over-depth"
    return depth_of(run, tap.name, spot.step, spot.token, seen, name=name, **_address(spot, run))
