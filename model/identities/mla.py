"""Equations of multi-head latent attention, each from what its term reads."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from model.identities.identity import (
    Pair,
    Place,
    identity,
    relation,
    sigmoid,
    softmax,
)

_INPUT = "^.input_layernorm.normed"


def _heads(place: Place, x: np.ndarray) -> np.ndarray:
    return place.heads(x, place.config.num_attention_heads)


def _yarn(place: Place) -> Mapping[str, Any]:
    """The table of a stretched context; empty where angles are plain or there are none."""
    table = {} if place.config.mla_use_nope else place.config.rope_scaling or {}
    kind = table.get("rope_type", table.get("type"))
    return table if kind == "yarn" else {}


def _sharper(place: Place, key: str, default: float) -> float:
    """YaRN's magnitude by one key of its table."""
    factor = _yarn(place).get("factor", 1.0)
    return 1 + 0.1 * _yarn(place).get(key, default) * np.log(max(factor, 1.0))


def _scale(place: Place) -> float:
    """One over the root of the key width; YaRN's magnitude enters it twice."""
    return float(_sharper(place, "mscale_all_dim", 0.0) ** 2 / np.sqrt(place.config.qk_head_dim))


def _speeds(place: Place) -> np.ndarray:
    """Angle a position of each pair: pairs that turned too little in training are slowed."""
    width, base = place.config.qk_rope_head_dim, place.config.rope_theta
    assert base is not None
    pair = np.arange(width // 2)
    speed = base ** (-2.0 * pair / width)
    if not (yarn := _yarn(place)):
        return speed
    original = yarn["original_max_position_embeddings"]

    def pair_of(turns: float) -> float:
        # ω of this pair, times the original context, is so many full turns
        return -np.log(turns * 2 * np.pi / original) / np.log(base) * width / 2

    first = max(np.floor(pair_of(yarn.get("beta_fast", 32))), 0)
    last = min(np.ceil(pair_of(yarn.get("beta_slow", 1))), width - 1)
    slowed = np.clip((pair - first) / (last - first or 1e-3), 0, 1)
    return speed * (1 - slowed + slowed / yarn["factor"])


def _turned(place: Place, x: np.ndarray, angle: np.ndarray) -> np.ndarray:
    """Each pair as a complex number, times the unit number of its angle; halves, not pairs, out."""
    gain = _sharper(place, "mscale", 1.0) / _sharper(place, "mscale_all_dim", 0.0)
    turned = (x[..., 0::2] + 1j * x[..., 1::2]) * np.exp(1j * angle) * gain
    return np.concatenate([turned.real, turned.imag], axis=-1)


def _shared(place: Place, side: str) -> str:
    """The tap of a query's or key's shared part, as attention uses it."""
    return f"{side}_shared" if place.config.mla_use_nope else f"{side}_rotated"


def _allowed(place: Place, queries: int, keys: int) -> np.ndarray:
    """Which key a query may see: none that comes after it."""
    position = np.arange(queries)[:, None] + keys - queries
    return np.arange(keys)[None] <= position


@identity("KimiMLAAttention.q_down", "Queries, down", reads=_INPUT)
def mla_q_down(place: Place) -> np.ndarray:
    return place.linear(place(_INPUT), "q_a_proj.weight")


@identity("KimiMLAAttention.q_up", "Queries, up", reads="q_a_layernorm.normed")
def mla_q_up(place: Place) -> np.ndarray:
    if place.config.q_lora_rank is None:
        return _heads(place, place.linear(place(_INPUT), "q_proj.weight"))
    return _heads(place, place.linear(place("q_a_layernorm.normed"), "q_b_proj.weight"))


@identity("KimiMLAAttention.q_content", "Content queries", reads="q_up")
def mla_q_content(place: Place) -> np.ndarray:
    return place("q_up")[..., : place.config.qk_nope_head_dim]


@identity("KimiMLAAttention.q_shared", "Queries for the shared key", reads="q_up")
def mla_q_shared(place: Place) -> np.ndarray:
    return place("q_up")[..., place.config.qk_nope_head_dim :]


@identity("KimiMLAAttention.kv_joint", "Joint down-projection", reads=_INPUT)
def mla_kv_joint(place: Place) -> np.ndarray:
    return place.linear(place(_INPUT), "kv_a_proj_with_mqa.weight")


@identity("KimiMLAAttention.kv_latent", "Take the latent", reads="kv_joint")
def mla_kv_latent(place: Place) -> np.ndarray:
    return place("kv_joint")[..., : place.config.kv_lora_rank]


@identity("KimiMLAAttention.k_shared", "Take the shared key part", reads="kv_joint")
def mla_k_shared(place: Place) -> np.ndarray:
    return place("kv_joint")[..., place.config.kv_lora_rank :]


@identity("KimiMLAAttention.kv_up", "Up-project", reads="kv_a_layernorm.normed")
def mla_kv_up(place: Place) -> np.ndarray:
    return _heads(place, place.linear(place("kv_a_layernorm.normed"), "kv_b_proj.weight"))


@identity("KimiMLAAttention.k_content", "Content keys", reads="kv_up")
def mla_k_content(place: Place) -> np.ndarray:
    return place("kv_up")[..., : place.config.qk_nope_head_dim]


@identity("KimiMLAAttention.v", "Values", reads="kv_up")
def mla_v(place: Place) -> np.ndarray:
    return place("kv_up")[..., place.config.qk_nope_head_dim :]


@identity("KimiMLAAttention.angle", "Angles of the positions", reads="")
def mla_angle(place: Place) -> np.ndarray:
    # the prompt starts at zero; a decoded token follows all before it
    first = place.trace.prompt_length + place.step - 1 if place.step else 0
    position = first + np.arange(place("angle").shape[1])
    return (position[:, None] * _speeds(place))[None]


@identity("KimiMLAAttention.q_rotated", "Rotate the queries", reads="q_shared angle")
def mla_q_rotated(place: Place) -> np.ndarray:
    return _turned(place, place("q_shared"), place("angle")[:, :, None])


@identity("KimiMLAAttention.k_rotated", "Rotate the key", reads="k_shared angle")
def mla_k_rotated(place: Place) -> np.ndarray:
    return _turned(place, place("k_shared"), place("angle"))


@identity("KimiMLAAttention.q", "Join the queries", reads="q_content q_shared q_rotated")
def mla_q(place: Place) -> np.ndarray:
    return np.concatenate([place("q_content"), place(_shared(place, "q"))], axis=-1)


@identity("KimiMLAAttention.k", "Join the keys", reads="k_content k_shared k_rotated")
def mla_k(place: Place) -> np.ndarray:
    content, shared = place("k_content"), place(_shared(place, "k"))
    every_head = np.broadcast_to(shared[:, :, None], (*content.shape[:-1], shared.shape[-1]))
    return np.concatenate([content, every_head], axis=-1)


@identity("KimiMLAAttention.k_cached", "Keys are appended", reads="k")
def mla_k_cached(place: Place) -> np.ndarray:
    return place.until("k").swapaxes(1, 2)


@identity("KimiMLAAttention.v_cached", "Values are appended", reads="v")
def mla_v_cached(place: Place) -> np.ndarray:
    return place.until("v").swapaxes(1, 2)


@identity(
    "KimiMLAAttention.latent_cached",
    "Latents are appended",
    reads="kv_a_layernorm.normed",
)
def mla_latent_cached(place: Place) -> np.ndarray:
    return place.until("kv_a_layernorm.normed")


@identity("KimiMLAAttention.shared_cached", "Shared keys follow", reads="k_shared k_rotated")
def mla_shared_cached(place: Place) -> np.ndarray:
    return place.until(_shared(place, "k"))


@identity("KimiMLAAttention.scores", "Scores", reads="q k_cached")
def mla_scores(place: Place) -> np.ndarray:
    q = place("q").swapaxes(1, 2)
    return q @ place("k_cached").swapaxes(-1, -2) * _scale(place)


@identity("KimiMLAAttention.masked", "Causal mask", reads="scores")
def mla_masked(place: Place) -> np.ndarray:
    scores = place("scores")
    return np.where(_allowed(place, *scores.shape[-2:]), scores, -np.inf)


@identity("KimiMLAAttention.pattern", "Softmax over keys", reads="masked")
def mla_pattern(place: Place) -> np.ndarray:
    return softmax(place("masked"))


@relation("KimiMLAAttention", "Each row of the pattern sums to one", reads="pattern")
def mla_pattern_sum(place: Place) -> Pair:
    total = place.captured("pattern").sum(-1)
    return total, np.ones_like(total)


def _attend(place: Place) -> np.ndarray:
    """The whole of attention by head, for steps in which no pattern was held."""
    q, keys, values = place("q").swapaxes(1, 2), place("k_cached"), place("v_cached")
    allowed = _allowed(place, q.shape[2], keys.shape[2])
    read = np.empty((*q.shape[:-1], values.shape[-1]))
    for head in range(q.shape[1]):
        scores = q[:, head] @ keys[:, head].swapaxes(-1, -2) * _scale(place)
        read[:, head] = softmax(np.where(allowed, scores, -np.inf)) @ values[:, head]
    return read.swapaxes(1, 2)


@identity("KimiMLAAttention.read", "Weighted values", reads="pattern v_cached")
def mla_read(place: Place) -> np.ndarray:
    if not place.holds("pattern"):
        return _attend(place)
    return (place("pattern") @ place("v_cached")).swapaxes(1, 2)


@relation(
    "KimiMLAAttention",
    "Absorbed attention over the latent reads the same",
    reads="q_content q_shared q_rotated kv_a_layernorm.normed k_shared k_rotated read",
    wide=3e-2,
)
def mla_absorbed(place: Place) -> Pair:
    config = place.config
    latent, shared = place.until("kv_a_layernorm.normed"), place.until(_shared(place, "k"))
    up = place.parameter("kv_b_proj.weight").reshape(
        config.num_attention_heads, -1, config.kv_lora_rank
    )
    to_key, to_value = up[:, : config.qk_nope_head_dim], up[:, config.qk_nope_head_dim :]
    allowed = _allowed(place, place("q_content").shape[1], latent.shape[1])
    reads = []
    for head in range(config.num_attention_heads):
        query = place("q_content")[:, :, head] @ to_key[head]
        scores = query @ latent.swapaxes(1, 2)
        scores = scores + place(_shared(place, "q"))[:, :, head] @ shared.swapaxes(1, 2)
        pattern = softmax(np.where(allowed, scores * _scale(place), -np.inf))
        reads.append(pattern @ latent @ to_value[head].T)
    return place.captured("read"), np.stack(reads, axis=2)


@identity("KimiMLAAttention.output_gate", "Output gate", reads=_INPUT)
def mla_output_gate(place: Place) -> np.ndarray:
    return _heads(place, sigmoid(place.linear(place(_INPUT), "g_proj.weight")))


@identity("KimiMLAAttention.gated", "Gate the heads", reads="read output_gate")
def mla_gated(place: Place) -> np.ndarray:
    gated = place.config.mla_use_output_gate
    return place("read") * place("output_gate") if gated else place("read")


@identity("KimiMLAAttention.out", "Output projection", reads="gated")
def mla_out(place: Place) -> np.ndarray:
    joined = place("gated") if place.config.mla_use_output_gate else place("read")
    return place.linear(joined.reshape(*joined.shape[:2], -1), "o_proj.weight")
