"""One tap of a run as arrays for a figure: all positions up to a step, or one token's."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

WEAKEST = ("captured", "recomputed")


@dataclass(frozen=True, kw_only=True)
class Reading:
    """Values without the batch axis, and where they come from."""

    name: str
    dims: tuple[str, ...]
    values: NDArray
    kind: str
    facts: tuple[str, ...]
    """Step, dtype, device and path, as the page says them."""
    first: int = 0
    """Position of the first row, where an axis is `pos` or `src`."""
    token: int | None = None
    """The position that was chosen, where one was."""
    all_heads: NDArray | None = field(default=None, repr=False)
    """The same of every head, where it is at hand without computing."""
    num_heads: int = 0
    reason: str = ""


def place_of(run: Any, token: int) -> tuple[int, int]:
    """Step that fed this position, and its row there."""
    if token < run.prompt_length:
        return 0, token
    return token - run.prompt_length + 1, 0


def source_words(run: Any) -> str:
    """The model of a run, with what it says of its weights."""
    return ", ".join(filter(None, (run.source, run.weights_note)))


def short_path(path: str) -> str:
    """`torch` of `torch: chunked in prefill, …`."""
    return path.partition(":")[0]


def positions_at(run: Any, step: int) -> int:
    """Positions that the model has seen after this step."""
    return run.prompt_length + step


def read(run: Any, name: str, step: int, *, token: int | None, head: int) -> Reading:
    """The tap as far as `step`; a `LookupError` says why it is not there.

    A tap with rows for positions is joined over the steps so far. One with more axes than a
    picture has is read at `token`, or at the last position.
    """
    has_batch = run.dims(name)[0] == "batch"
    dims = tuple(run.dims(name))[has_batch:]
    inner = [axis for axis in dims if axis != "head"]
    if "border" in inner or ("pos" in inner and len(inner) > 2):
        return _at_token(run, name, step, token, head, dims)
    steps = range(step + 1) if "pos" in dims else [step]
    # a number a head needs no choice of one: the heads are its columns
    by_head = "head" in dims and len(inner) > 1
    parts, kinds = [], []
    for each in steps:
        source = run.provenance(name, each)
        if source.kind == "not captured":
            raise LookupError(source.reason)
        kinds.append(source)
        # a recomputed value is computed for the head on screen alone
        heads = [head] if source.kind == "recomputed" and by_head else None
        values = np.asarray(run.array(name, each, head=heads))
        parts.append(values[0] if has_batch else values)
    is_partial = any(source.kind == "recomputed" for source in kinds) and by_head
    if is_partial:
        parts = [_one_head(part, dims, head) for part in parts]
    values = parts[0] if len(parts) == 1 else _join(parts, dims)
    return _finish(run, name, dims, values, kinds, steps, head, is_partial)


def _one_head(part: NDArray, dims: tuple[str, ...], head: int) -> NDArray:
    axis = dims.index("head")
    return part if part.shape[axis] == 1 else part.take([head], axis)


def _finish(
    run: Any,
    name: str,
    dims: tuple[str, ...],
    values: NDArray,
    sources: list[Any],
    steps: Any,
    head: int,
    is_partial: bool,
) -> Reading:
    whole, num_heads = None, 0
    if "head" in dims and len(dims) > 2:
        axis = dims.index("head")
        num_heads = heads_of(run, name, values.shape[axis])
        whole = None if is_partial else values
        values = values.take(0 if is_partial else _checked(head, num_heads, name), axis)
        dims = tuple(axis for axis in dims if axis != "head")
    kind = max((source.kind for source in sources), key=WEAKEST.index)
    last = sources[-1]
    words = f"step {last.step}" if len(sources) == 1 else f"steps 0 … {last.step}"
    return Reading(
        name=name,
        dims=dims,
        values=values,
        kind=kind,
        facts=(words, last.dtype, f"{last.device}, {short_path(last.path)}"),
        all_heads=whole,
        num_heads=num_heads,
        reason=next((s.reason for s in sources if s.reason), ""),
    )


def heads_of(run: Any, name: str, at_hand: int) -> int:
    """Heads of the tap's class in this model; what is at hand may be one of them."""
    parts = name.split(".")
    in_layer = parts[0] == "layers"
    heads = heads_in(run.config, int(parts[1])) if in_layer else run.config.num_attention_heads
    return max(at_hand, heads)


def heads_in(config: Any, layer: int) -> int:
    """Heads of a layer's mixer."""
    linear = config.linear_attn_config
    if linear is not None and config.mixers[layer] == "kda":
        return linear.num_heads
    return config.num_attention_heads


def _checked(head: int, num_heads: int, name: str) -> int:
    if not 0 <= head < num_heads:
        raise LookupError(f"Asked for head {head} of {name}, which has heads 0 to {num_heads - 1}.")
    return head


def _at_token(
    run: Any, name: str, step: int, token: int | None, head: int, dims: tuple[str, ...]
) -> Reading:
    last = positions_at(run, step) - 1
    chosen = last if token is None else min(token, last)
    at, row = place_of(run, chosen)
    is_state = "border" in dims
    # the state after a step's last row is held, so nothing is recomputed for it
    is_border = is_state and (at > 0 or row == run.prompt_length - 1)
    pos = None if is_border else row
    source = run.provenance(name, at, pos) if is_state else run.provenance(name, at)
    if source.kind == "not captured":
        raise LookupError(source.reason)
    num_heads = heads_of(run, name, 0) if "head" in dims else 0
    head_wanted = _checked(head, num_heads, name) if num_heads else None
    values = np.asarray(run.array(name, at, pos=pos, head=head_wanted))[0]
    left = [axis for axis in dims if axis not in ("head", "pos", "border")]
    if is_border:
        values = values[-1]
    return Reading(
        name=name,
        dims=tuple(left),
        values=values,
        kind=source.kind,
        facts=(f"step {at}", source.dtype, f"{source.device}, {short_path(source.path)}"),
        token=chosen,
        num_heads=num_heads,
        reason=source.reason,
    )


def _join(parts: list[NDArray], dims: tuple[str, ...]) -> NDArray:
    """Along the positions; keys that a step could not see yet are filled with nothing."""
    axis = dims.index("pos")
    if "src" in dims:
        keys = dims.index("src")
        most = max(part.shape[keys] for part in parts)
        parts = [_pad(part, keys, most) for part in parts]
    return np.concatenate(parts, axis)


def _pad(part: NDArray, axis: int, size: int) -> NDArray:
    room = [(0, size - part.shape[axis] if index == axis else 0) for index in range(part.ndim)]
    return np.pad(part, room, constant_values=np.nan)
