"""Equations that relate whole calls: prefill and decode, and what the cache holds."""

import numpy as np
import torch

from model.identities.identity import NotHeldError, Pair, Place, relation
from model.trace_absence import is_unexplained

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
        return place.captured("logits")[:, -1], _logits_after(place, ids)
    return place.captured("logits")[:, -1], _logits_after(place, ids[:-1], ids[-1:])


@relation(
    "KimiLM",
    "A prompt fed in two parts gives the same logits",
    reads="logits",
    tolerance=SAME_LOGITS,
    wide=1e-1,
)
def split_is_whole(place: Place) -> Pair:
    """The second half finds in the cache what the first one left there."""
    ids = list(place.trace.token_ids[: place.trace.prompt_length])
    if place.step or len(ids) == 1:
        raise NotHeldError("only a prompt of several tokens has two parts")
    half = len(ids) // 2
    return place.captured("logits")[:, -1], _logits_after(place, ids[:half], ids[half:])


@relation(
    "KimiLM",
    "Padding beside longer prompts changes nothing",
    reads="logits",
    tolerance=SAME_LOGITS,
    wide=1e-1,
)
def padded_is_unpadded(place: Place) -> Pair:
    """The last two tokens: all up to the first of them are the shorter row, padded right.

    It stands between two longer rows, so that what one row takes from another shows.
    """
    *before, last = place.trace.token_ids[: place.trace.prompt_length + place.step]
    if not before:
        raise NotHeldError("nothing stands before the token, so nothing can be padded")
    device = place.root.embed_tokens.weight.device
    cache = place.root.new_cache(batch=3, mla=place.trace.mla)
    longer = [*[last] * PADDING, *before]
    rows = [longer, [*before, *[last] * PADDING], longer]
    lengths = torch.tensor([len(longer), len(before), len(longer)])
    ids, lasts = torch.tensor(rows, device=device), torch.tensor([[last]] * 3, device=device)
    with torch.no_grad():
        first = place.root(ids, cache=cache, lengths=lengths, logits="last")
        second = place.root(lasts, cache=cache)
    return _last_two(place), torch.cat([first, second], dim=1)[1:2].double().cpu().numpy()


def _last_two(place: Place) -> np.ndarray:
    logits = place.captured("logits")
    if place.step:
        before = place.captured("logits", place.step - 1)
        logits = np.concatenate([before[:, -1:], logits], axis=1)
    return logits[:, -2:]


@relation("KimiLM", "Every part that the configuration asks for has run", "")
def every_part_ran(place: Place) -> Pair:
    """A part that was skipped holds no tensor, and without one no equation could disagree."""
    trace = place.trace
    if trace.is_stored:
        raise NotHeldError("a file may hold less than its run recorded")
    absent = [name for name in trace.taps if not trace.is_captured(name, place.step)]
    skipped = [name for name in absent if is_unexplained(trace, name, place.step)]
    return np.array([float(len(skipped))]), np.zeros(1)


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
