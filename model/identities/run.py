"""Equations that relate whole calls: prefill and decode, and what the cache holds."""

import numpy as np
import torch

from model.identities.identity import NotHeldError, Pair, Place, relation

SAME_LOGITS = 1e-4
"""Prefill and decode add the same terms in another order, through every layer."""
PADDING = 17
"""Columns: a little more than a sub-block of the chunked delta rule."""


def _logits_after(place: Place, *calls: list[int]) -> np.ndarray:
    """Logits after the last token of the last call, without any recording."""
    device = place.root.embed_tokens.weight.device
    cache = place.root.new_cache(mla=place.trace.mla)
    with torch.no_grad():
        for ids in calls[:-1]:
            place.root(torch.tensor([ids], device=device), cache=cache, logits="last")
        logits = place.root(torch.tensor([calls[-1]], device=device), cache=cache, logits="last")
    return logits[:, -1].double().cpu().numpy()


@relation(
    "KimiLM",
    "Prefill and decode give the same logits",
    reads="logits",
    tolerance=SAME_LOGITS,
    wide=1e-1,
)
def prefill_is_decode(place: Place) -> Pair:
    """The last step, fed the other way: a prompt token by decode, a generated one by prefill."""
    trace = place.trace
    if place.step != trace.new_tokens:
        raise NotHeldError("only the last step is fed again")
    ids = list(trace.token_ids)
    if len(ids) == 1:
        raise NotHeldError("a prompt of one token")
    if place.step:
        return place("logits")[:, -1], _logits_after(place, ids)
    return place("logits")[:, -1], _logits_after(place, ids[:-1], ids[-1:])


@relation(
    "KimiLM",
    "Padding beside a longer prompt changes nothing",
    reads="logits",
    tolerance=SAME_LOGITS,
    wide=1e-1,
)
def padded_is_unpadded(place: Place) -> Pair:
    """The last token after all before it, which are the shorter row of a batch, padded right."""
    *before, last = place.trace.token_ids[: place.trace.prompt_length + place.step]
    if not before:
        raise NotHeldError("nothing stands before the token, so nothing can be padded")
    device = place.root.embed_tokens.weight.device
    cache = place.root.new_cache(batch=2, mla=place.trace.mla)
    rows = [[*before, *[last] * PADDING], [*before, *before[:1] * PADDING]]
    with torch.no_grad():
        lengths = torch.tensor([len(before), len(before) + PADDING])
        place.root(torch.tensor(rows, device=device), cache=cache, lengths=lengths, logits="last")
        logits = place.root(torch.tensor([[last]] * 2, device=device), cache=cache)
    return place("logits")[:, -1], logits[:1, -1].double().cpu().numpy()


@relation("KimiLM", "The cache holds as many values and bytes as its formula says", "")
def cache_counted(place: Place) -> Pair:
    config, figures = place.config, place.trace.cache_by_step[place.step]
    itemsize = {"float64": 8, "float32": 4}.get(place.trace.dtype, 2)
    expected = []
    for mixer in config.mixers:
        if mixer == "kda":
            linear = config.linear_attn_config
            assert linear is not None
            inner = linear.num_heads * linear.head_dim
            state, columns = inner * linear.head_dim, 3 * inner * linear.short_conv_kernel_size
            # the memory is float32 or wider whatever the model is in
            expected.append((state + columns, state * max(itemsize, 4) + columns * itemsize))
            continue
        width = config.num_attention_heads * (config.qk_head_dim + config.v_head_dim)
        if place.trace.mla == "latent":
            width = config.kv_lora_rank + config.qk_rope_head_dim
        expected.append((figures.positions * width, figures.positions * width * itemsize))
    counted = [row[1:] for row in figures.by_layer]
    return np.array(counted, float), np.array(expected, float)


@relation("KimiLM", "Every token fed has its place in the cache", "")
def cache_positions(place: Place) -> Pair:
    fed = place.trace.prompt_length + place.step
    return np.array([place.trace.cache_by_step[place.step].positions]), np.array([fed])
