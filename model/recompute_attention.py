"""Scores, masked scores and patterns of single queries, where attention was fused."""

import numpy as np

from model.recompute_rule import Request, Rule
from model.yarn import score_scale

TAPS = ("scores", "masked", "pattern")


def _rows(request: Request, keys: np.ndarray) -> np.ndarray:
    """Scores of the chosen queries with every key, masked and normalized as far as asked."""
    trace = request.trace
    q = request.read("q").swapaxes(1, 2)
    scores = q @ keys.swapaxes(-1, -2) * score_scale(trace.config)
    if request.attribute == "scores":
        return scores
    past = keys.shape[2] - trace.step_length(request.step)
    reach = past + np.array(request.rows)
    masked = np.where(np.arange(keys.shape[2]) <= reach[:, None], scores, -np.inf)
    if request.attribute == "masked":
        return masked
    powers = np.exp(masked - masked.max(-1, keepdims=True))
    return powers / powers.sum(-1, keepdims=True)


def _from_keys(request: Request) -> np.ndarray:
    keys = request.trace.array(f"{request.path}.k_cached", request.step)[:, request.heads]
    return _rows(request, keys.astype(np.float64))


def _from_latents(request: Request) -> np.ndarray:
    """With keys grown of the latents, which an absorbed step does not need."""
    config = request.trace.config
    latents, shared = (
        request.trace.array(f"{request.path}.{name}_cached", request.step).astype(np.float64)
        for name in ("latent", "shared")
    )
    up = request.parameter("kv_b_proj.weight")
    up = up.reshape(config.num_attention_heads, -1, latents.shape[-1])[request.heads]
    content = np.einsum("bsc,hnc->bhsn", latents, up[:, : config.qk_nope_head_dim])
    every_head = np.broadcast_to(shared[:, None], (*content.shape[:3], shared.shape[-1]))
    return _rows(request, np.concatenate([content, every_head], axis=-1))


def _bytes_of(request: Request, keys: int) -> int:
    batch = request.trace.tensor(f"{request.path}.q", request.step).shape[0]
    return 8 * batch * len(request.rows) * len(request.heads) * keys


def _row_bytes(request: Request) -> int:
    keys = request.trace.tensor(f"{request.path}.k_cached", request.step)
    return _bytes_of(request, keys.shape[2])


def _row_bytes_of_latents(request: Request) -> int:
    latents = request.trace.tensor(f"{request.path}.latent_cached", request.step)
    return _bytes_of(request, latents.shape[1])


FROM_KEYS = {
    f"KimiMLAAttention.{tap}": Rule(("q", "k_cached"), _from_keys, _row_bytes) for tap in TAPS
}
FROM_LATENTS = {
    f"KimiMLAAttention.{tap}": Rule(
        ("q", "latent_cached", "shared_cached"),
        _from_latents,
        _row_bytes_of_latents,
        needs_model=True,
    )
    for tap in TAPS
}
