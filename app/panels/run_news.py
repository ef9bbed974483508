"""What the reading half learns of a run: its tokens, small pictures, overlays of the graph."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from annotations.node import Node
from app.figures.matrix import matrix
from app.figures.thumbs import MOST, Thumb, thumb
from app.panels.live_data import Spot
from app.run_checks import CheckRow
from app.run_reading import positions_at, read
from app.run_taps import find_taps, live_taps

MOST_TOKENS = 512
LONGEST_LABEL = 24
"""Characters of a token."""
LARGEST_LABEL = 96
"""Bytes of it as JSON, which spends up to 12 on a character: all labels fit the bridge."""


def run_news(
    spot: Spot, run: Any, nodes: Mapping[str, Node], checks: Sequence[CheckRow]
) -> dict[str, Any]:
    """The message of the bridge for the run on screen."""
    return {
        "run": run.run_id,
        "source": run.source,
        "weights": run.weights_note,
        "dtype": run.dtype,
        "device": run.device,
        "node": spot.node.id,
        "layer": spot.layer,
        "step": spot.step,
        "tokens": [
            {"text": short(token.display), "id": token.id, "special": token.special}
            for token in run.tokens[: positions_at(run, spot.step)][:MOST_TOKENS]
        ],
        "thumbs": thumbs(spot, run, nodes),
        "overlays": overlays(spot, run),
        "proof": {
            "passed": sum(row.passed for row in checks),
            "of": len(checks),
            "worst": max((row.error for row in checks), default=0.0),
        },
    }


def short(label: str) -> str:
    """The label of a token, cut with an ellipsis where it is too long or too large to send."""
    shown = label if len(label) <= LONGEST_LABEL else f"{label[: LONGEST_LABEL - 1]}…"
    while len(json.dumps(shown)) > LARGEST_LABEL:
        shown = f"{shown.removesuffix('…')[:-1]}…"
    return shown


def thumbs(spot: Spot, run: Any, nodes: Mapping[str, Node]) -> dict[str, Thumb]:
    """Pictures of the node's taps and of those that its symbols point to, captured ones only."""
    wanted = [(tap, spot.node, spot.at) for tap in (*live_taps(spot.node), *spot.node.taps)]
    for symbol in spot.node.symbols:
        target, _, instance = (part.strip() for part in (symbol.node or "").partition("@"))
        if (node := nodes.get(target)) is not None:
            wanted += [(tap, node, instance or None) for tap in live_taps(node)[:1]]
    found: dict[str, Thumb] = {}
    for tap, node, at in wanted:
        if len(found) == MOST:
            break
        if tap not in found and (made := _thumb(tap, node, at, spot, run)) is not None:
            found[tap] = made
    return found


def _thumb(tap: str, node: Node, at: str | None, spot: Spot, run: Any) -> Thumb | None:
    try:
        name = find_taps(node, (tap,), run.config, spot.layer, at)[0].name
        if not run.is_captured(name, spot.step):
            return None
        reading = read(run, name, spot.step, token=None, head=0)
        return thumb(matrix(reading.values, reading.dims).values)
    except LookupError:
        # a slot without a picture stays empty; the page of that tap says why
        return None


def overlays(spot: Spot, run: Any) -> dict[str, Any]:
    """A number a layer that the graph can show."""
    names = [f"layers.{i}.residual_out" for i in range(run.config.num_hidden_layers)]
    if not all(run.is_captured(name, spot.step) for name in names):
        return {}
    norms = [float(np.linalg.norm(run.array(name, spot.step)[0, -1])) for name in names]
    ends = f"{min(norms):.2f} to {max(norms):.2f}"
    return {
        "norm": {
            "label": "size of the running sum",
            "words": f"after each layer of {run.source}, run {run.run_id[:6]}, last token: {ends}",
            "values": [round(norm, 4) for norm in norms],
        }
    }
