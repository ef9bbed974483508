"""Ready-made cheap looks at a checkpoint: rates of decay, residual queries, router biases."""

import re
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from model.config import KimiConfig
from model.number_formats import Numbers
from model.peek import decoded
from model.peek_plan import BOUND, piece_of, within
from model.source import Source
from model.spelling import from_upstream

_LAYER = re.compile(r"layers\.(\d+)\.(.+)")
RESIDUAL_PLACES = ("self_attention_res", "mlp_res", "output_attn_res")


@dataclass(frozen=True, slots=True, kw_only=True)
class Decay:
    """What the memory of each KDA head forgets by itself, before a token says anything."""

    layers: tuple[int, ...]
    """0-based, of the rows below."""
    rate: Numbers
    """`[layer, head]`: exp(A_log), by which the gate's logit is multiplied (or its softplus)."""
    dt_bias: Numbers
    """`[layer, head, channel]`: the gate's logit where the token adds nothing."""
    gate_lower_bound: float | None
    """Least log-decay of a step; None for the unbounded softplus gate."""
    planned: int
    """Bytes of these tensors."""

    @property
    def log_decay(self) -> Numbers:
        """`[layer, head, channel]`: of one step where the token adds nothing."""
        rate = self.rate[..., None]
        with np.errstate(all="ignore"):
            if self.gate_lower_bound is None:
                return -rate * np.logaddexp(0.0, self.dt_bias)
            return self.gate_lower_bound * _sigmoid(rate * self.dt_bias)

    @property
    def half_life(self) -> Numbers:
        """`[layer, head, channel]`: steps in which a memory halves, where no token adds to it."""
        with np.errstate(all="ignore"):
            return -np.log(2.0) / self.log_decay


@dataclass(frozen=True, slots=True, kw_only=True)
class Queries:
    """What each attention residual looks for in the sums of earlier blocks."""

    places: tuple[str, ...]
    """In the order of reading: `layers.N.self_attention_res`, `layers.N.mlp_res`, …, the last."""
    vectors: Numbers
    """`[place, d_model]`: norm ⊙ proj, with which a normalized source is multiplied."""
    planned: int

    @property
    def lengths(self) -> Numbers:
        return np.linalg.norm(self.vectors, axis=1)

    @property
    def cosine(self) -> Numbers:
        """`[place, place]`; NaN where a vector is zero."""
        with np.errstate(invalid="ignore", divide="ignore"):
            unit = self.vectors / self.lengths[:, None]
        return np.clip(unit @ unit.T, -1.0, 1.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Biases:
    """What each router adds to an expert's score when it chooses, so that the load stays even."""

    layers: tuple[int, ...]
    bias: Numbers
    """`[layer, expert]`"""
    planned: int


def decay(source: Source, *, bound: int = BOUND) -> Decay:
    """LookupError where the model has no KDA layers, ValueError where its sizes disagree."""
    source.files.allow(bound)
    rates = _by_layer(source, "self_attn.A_log")
    biases = _by_layer(source, "self_attn.dt_bias")
    if not rates or rates.keys() != biases.keys():
        raise LookupError(
            f"{source.name!r} has A_log in {len(rates)} layers and dt_bias in {len(biases)}: this "
            "view is for models with Kimi Delta Attention, as K3 and Kimi-Linear."
        )
    linear = KimiConfig.from_hf(source.config).linear_attn_config
    if linear is None:
        raise ValueError(f"{source.name!r} has KDA tensors and no linear_attn_config for them.")
    layers = tuple(sorted(rates))
    values, planned = _values(source, [*rates.values(), *biases.values()], bound)
    heads, channels = linear.num_heads, linear.head_dim
    a_log = [_heads(values[rates[layer]], heads, rates[layer]) for layer in layers]
    dt_bias = [_sized(values[biases[i]], (heads, channels), biases[i]) for i in layers]
    with np.errstate(over="ignore"):
        rate = np.exp(np.stack(a_log))
    return Decay(
        layers=layers,
        rate=rate,
        dt_bias=np.stack(dt_bias),
        gate_lower_bound=linear.gate_lower_bound,
        planned=planned,
    )


def residual(source: Source, *, bound: int = BOUND) -> Queries:
    """LookupError where the model adds its layers up plainly."""
    source.files.allow(bound)
    names = {from_upstream(name): name for name in source.names}
    places = sorted(
        (
            name.removesuffix(".proj.weight")
            for name in names
            if name.endswith(tuple(f"{place}.proj.weight" for place in RESIDUAL_PLACES))
        ),
        key=_reading_order,
    )
    if not places:
        raise LookupError(
            f"{source.name!r} has no self_attention_res_proj or mlp_res_proj: this view is for "
            "models with attention residuals, as K3."
        )
    wanted = [f"{place}.{part}.weight" for place in places for part in ("norm", "proj")]
    if absent := [name for name in wanted if name not in names]:
        raise ValueError(f"{source.name!r} lacks {absent[0]!r}, which goes with a projection.")
    values, planned = _values(source, [names[name] for name in wanted], bound)
    flat = [values[names[name]].ravel() for name in wanted]
    if len({vector.size for vector in flat}) > 1:
        raise ValueError(f"{source.name!r} has residual queries of more than one width.")
    pairs = np.stack(flat).reshape(len(places), 2, -1)
    return Queries(places=tuple(places), vectors=pairs[:, 0] * pairs[:, 1], planned=planned)


def router(source: Source, *, bound: int = BOUND) -> Biases:
    """LookupError where no router of the model has such a bias."""
    source.files.allow(bound)
    found = _by_layer(source, "block_sparse_moe.gate.e_score_correction_bias")
    if not found:
        raise LookupError(
            f"{source.name!r} has no e_score_correction_bias: this view is for models whose router "
            "is balanced by one, as K3, K2 and Kimi-Linear."
        )
    values, planned = _values(source, found.values(), bound)
    rows = [values[found[layer]].ravel() for layer in sorted(found)]
    if len({row.size for row in rows}) > 1:
        raise ValueError(f"{source.name!r} has routers of more than one number of experts.")
    return Biases(layers=tuple(sorted(found)), bias=np.stack(rows), planned=planned)


VIEWS = {"decay": decay, "residual": residual, "router": router}


def _by_layer(source: Source, tensor: str) -> dict[int, str]:
    """Upstream's name by layer of the tensors that stand at one place inside theirs."""
    found = ((name, _LAYER.fullmatch(from_upstream(name))) for name in source.names)
    return {int(layer[1]): name for name, layer in found if layer and layer[2] == tensor}


def _reading_order(place: str) -> tuple[float, int]:
    layer = _LAYER.fullmatch(place)
    which = RESIDUAL_PLACES.index(place.rpartition(".")[2])
    return (int(layer[1]) if layer else float("inf"), which)


def _values(source: Source, names: Iterable[str], bound: int) -> tuple[dict[str, Numbers], int]:
    """The tensors of these names, decoded, and the bytes that this was."""
    names = list(names)
    pieces = [piece_of(entry, None, None) for entry in source.called(names)]
    asked = within(source, pieces, bound)
    came = source.read_parts([piece.parts[0] for piece in pieces])
    values = [decoded(piece, [raw]) for piece, raw in zip(pieces, came, strict=True)]
    return dict(zip(names, values, strict=True)), asked.nbytes


def _heads(values: Numbers, heads: int, name: str) -> Numbers:
    """One rate a head: K3's file pads them with zeros, Kimi-Linear's has axes of one around."""
    flat = values.ravel()
    if flat.size < heads or flat[heads:].any():
        raise ValueError(f"{name!r} holds {flat.size} values that are not for {heads} heads.")
    return flat[:heads]


def _sized(values: Numbers, shape: tuple[int, ...], name: str) -> Numbers:
    if values.size != np.prod(shape):
        raise ValueError(f"{name!r} holds {values.size} values, and {[*shape]} belong there.")
    return values.reshape(shape)


def _sigmoid(x: Numbers) -> Numbers:
    return 0.5 * (1.0 + np.tanh(0.5 * x))
