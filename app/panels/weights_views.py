"""Ready-made looks at a checkpoint: rates of decay, residual queries, router biases."""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from app.components.tensor_canvas.mount import tensor_canvas
from app.figures.weights import map_figure
from app.panels.html import draw


def weights_view(what: str, found: Any, register: str) -> None:
    """Draw one of `model.peek_views`."""
    VIEWS[what](found, register)


def _layers(found: Any) -> tuple[str, list[str]]:
    return "layer", [str(layer) for layer in found.layers]


def _section(title: str, register: str, lead: str) -> None:
    draw("section.html", title=title, register=register, run="", lead=lead)


def _decay(found: Any, register: str) -> None:
    bound = found.gate_lower_bound
    gate = (
        f"A step keeps at least exp({_number(bound)}) of a channel"
        if bound is not None
        else "The gate has no lower bound"
    )
    half = np.median(found.half_life, axis=-1)
    _section(
        "How fast each head forgets",
        register,
        f"{gate}. Where a token adds nothing to the gate, half of a head's channels lose half of "
        f"what they hold within {_range(half)} steps; what a token says moves this a lot.",
    )
    tensor_canvas(
        map_figure(
            np.log2(half),
            name="log2 of the median half-life in steps",
            symbol="log2 half-life",
            taps=["A_log", "dt_bias"],
            rows=_layers(found),
            column="head",
            signed=False,
            facts=["half-life = ln 2 / |log-decay|, log-decay from exp(A_log) and dt_bias alone"],
            stream="decay",
        ),
        key="weights-half-life",
    )
    tensor_canvas(
        map_figure(
            found.rate,
            name="rate",
            symbol="exp(A_log)",
            taps=["A_log"],
            rows=_layers(found),
            column="head",
            signed=False,
            facts=["the gate's logit is multiplied by it"],
            stream="decay",
        ),
        key="weights-rate",
    )
    mean, spread = found.dt_bias.mean(-1), found.dt_bias.std(-1)
    tensor_canvas(
        map_figure(
            mean,
            name="mean dt_bias",
            symbol="mean dt_bias",
            taps=["dt_bias"],
            rows=_layers(found),
            column="head",
            signed=True,
            facts=[f"within a head the channels spread by {_range(spread)}"],
            stream="decay",
        ),
        key="weights-bias",
    )


def _residual(found: Any, register: str) -> None:
    cosine = found.cosine
    alike = cosine[~np.eye(len(cosine), dtype=bool)]
    _section(
        "What each attention residual looks for",
        register,
        f"{len(found.places)} query vectors norm ⊙ proj, of length {_range(found.lengths)}. Two "
        f"that point the same way (cosine near 1) weigh the sums of earlier blocks alike; between "
        f"different ones the cosine is {_range(alike)}.",
    )
    names = [_short(place) for place in found.places]
    tensor_canvas(
        map_figure(
            cosine,
            name="cosine of two queries",
            symbol="cosine",
            taps=["norm", "proj"],
            rows=("read", names),
            column="read",
            columns=names,
            signed=True,
            bound=1.0,
            facts=["reads in the order of the layers, before attention and before feed-forward"],
            stream="residual",
        ),
        key="weights-cosine",
    )


def _router(found: Any, register: str) -> None:
    bias = found.bias
    _section(
        "Balance of the routers",
        register,
        f"What is added to an expert's score when experts are chosen, and never to its weight: "
        f"{_range(bias)} over {bias.shape[1]:,} experts and {len(found.layers)} layers. A "
        "high bias helps an expert that was chosen too rarely.",
    )
    tensor_canvas(
        map_figure(
            bias,
            name="bias",
            symbol="bias",
            taps=["e_score_correction_bias"],
            rows=_layers(found),
            column="expert",
            signed=True,
            facts=["as stored"],
            stream="routing",
        ),
        key="weights-router",
    )


VIEWS: Mapping[str, Callable[[Any, str], None]] = {
    "decay": _decay,
    "residual": _residual,
    "router": _router,
}


def _short(place: str) -> str:
    """`3 attn`, `3 ffn`, `output`."""
    parts = place.split(".")
    if parts[0] != "layers":
        return "output"
    return f"{parts[1]} {'attn' if parts[2].startswith('self') else 'ffn'}"


def _range(values: NDArray) -> str:
    finite = values[np.isfinite(values)]
    if not finite.size:
        return "no number"
    low, high = float(finite.min()), float(finite.max())
    return f"{_number(low)} to {_number(high)}"


def _number(value: float) -> str:
    return f"{value:.3g}".replace("-", "\N{MINUS SIGN}")
