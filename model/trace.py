"""Run a prompt through a model and keep what every tap saw."""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from pathlib import Path
from time import perf_counter

import torch
from torch import Tensor

from model import limits, run_budget
from model.cache import KimiCache, MLACache
from model.capture import Tap, capture, tap_names
from model.config import KimiConfig
from model.cost import capture_bytes_by_tap
from model.kimi import KimiLM
from model.run_budget import Plan
from model.tokenizer import Token
from model.trace_data import (
    CacheFigures,
    Provenance,
    TapFacts,
    Trace,
    cache_figures,
    dtype_word,
    tap_facts,
)
from model.trace_file import read_trace
from model.trace_format import PLAIN
from model.trace_request import Request, request_of, token_ids_of, tokens_of

__all__ = ["Progress", "Provenance", "Trace", "open_trace", "run", "token_ids_of"]

Progress = Callable[[str, float, int], None]
"""Called with a stage, how many steps are done, and of how many: before each step, and before each
layer of the prompt with a part of a step. Raising in it ends the run."""


def run(
    lm: KimiLM,
    prompt: str | Sequence[int],
    new_tokens: int = 0,
    keep: str | Collection[str] = "all",
    temperature: float = 0.0,
    seed: int = 0,
    *,
    progress: Progress | None = None,
    budget: int = limits.RUN_BYTES,
    max_prompt: int = limits.MAX_PROMPT,
    mla: MLACache = "expanded",
) -> Trace:
    """Feed a prompt, then `new_tokens` generated ones, each of them, and record the taps.

    Text gets the start token once; a list of ids is taken as it is. Temperature 0 takes the most
    likely token, above it tokens are drawn with `seed`. `keep` is "all" or full tap names.
    """
    request = request_of(lm, prompt, new_tokens, temperature, seed, mla, max_prompt)
    taps = tap_facts(lm)
    plan = plan_of(lm, taps, request, _wanted(taps, keep), budget)
    started = perf_counter()
    recorded = _record(lm, request, plan, progress)
    return _finished(lm, request, taps, plan, recorded, perf_counter() - started)


def open_trace(path: str | Path) -> Trace:
    """A run that `Trace.save` wrote. Values that read parameters cannot be re-computed from it."""
    about, tensors = read_trace(Path(path))
    plain = {name: about[name] for name in PLAIN}
    for name in ("token_ids", "step_seconds", "notices"):
        plain[name] = tuple(plain[name])
    caches = (
        CacheFigures(**(row | {"by_layer": tuple(map(tuple, row["by_layer"]))}))
        for row in about["cache_by_step"]
    )
    taps = {
        name: TapFacts(**(row | {"dims": tuple(row["dims"])}))
        for name, row in about["taps"].items()
    }
    return Trace(
        **plain,
        config=KimiConfig.from_hf(about["config"]),
        tokens=tuple(Token(**row) for row in about["tokens"]),
        cache_by_step=tuple(caches),
        taps=taps,
        tensors=tuple(tensors),
        is_stored=True,
    )


def plan_of(
    lm: KimiLM,
    taps: Mapping[str, TapFacts],
    request: Request,
    wanted: Collection[str],
    budget: int = limits.RUN_BYTES,
) -> Plan:
    """What the run would record, before it starts."""
    sizes = capture_bytes_by_tap(
        lm.config,
        len(request.prompt_ids),
        request.new_tokens,
        dtype=dtype_word(lm.embed_tokens.weight),
        mla=request.mla,
        kernels=lm.kernels,
    )
    return run_budget.plan(taps, sizes, wanted, budget)


def _wanted(taps: Mapping[str, TapFacts], keep: str | Collection[str]) -> list[str]:
    if keep == "all":
        return list(taps)
    names = [keep] if isinstance(keep, str) else list(keep)
    if unknown := [name for name in names if name not in taps]:
        near = get_close_matches(unknown[0], taps, n=1)
        hint = f" The nearest is {near[0]!r}." if near else ""
        raise LookupError(f"keep names {unknown[0]!r}, which no tap of this model has.{hint}")
    return names


@dataclass
class _Recorded:
    """What the steps of a run leave behind."""

    tensors: list[dict[str, Tensor]] = field(default_factory=list)
    caches: list[CacheFigures] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)
    generated: list[int] = field(default_factory=list)
    notices: list[str] = field(default_factory=list)


def _record(lm: KimiLM, request: Request, plan: Plan, progress: Progress | None) -> _Recorded:
    names = {tap: name for tap, name in tap_names(lm).items() if name in plan.names}
    recorded, steps = _Recorded(), request.new_tokens + 1
    generator = torch.Generator().manual_seed(request.seed)
    cache, fed = lm.new_cache(mla=request.mla), list(request.prompt_ids)
    for step in range(steps):
        if progress is not None:
            progress("decode" if step else "prefill", step, steps)
        started = perf_counter()
        between = None if progress is None or step else _between_layers(lm, progress, steps)
        tensors, last = _call(lm, fed, cache, names, between)
        recorded.seconds.append(perf_counter() - started)
        recorded.tensors.append(tensors)
        recorded.caches.append(cache_figures(cache))
        if not bool(torch.isfinite(last).all()):
            recorded.notices.append(f"At step {step} some logits are not finite numbers.")
        if step < request.new_tokens:
            fed = [_next_token(last, request.temperature, generator, step)]
            recorded.generated += fed
    if progress is not None:
        progress("done", steps, steps)
    return recorded


def _finished(
    lm: KimiLM,
    request: Request,
    taps: Mapping[str, TapFacts],
    plan: Plan,
    recorded: _Recorded,
    seconds: float,
) -> Trace:
    ids = (*request.prompt_ids, *recorded.generated)
    weight = lm.embed_tokens.weight
    return Trace(
        run_id=request.run_id(lm.weights_hash),
        source=lm.source,
        weights_note=lm.weights_note,
        weights_hash=lm.weights_hash,
        config=lm.config,
        prompt_length=len(request.prompt_ids),
        token_ids=ids,
        tokens=tokens_of(lm.tokenizer, ids),
        new_tokens=request.new_tokens,
        temperature=request.temperature,
        seed=request.seed,
        mla=request.mla,
        dtype=dtype_word(weight),
        device=str(weight.device),
        kernel_path=lm.kernel_path,
        seconds=seconds,
        step_seconds=tuple(recorded.seconds),
        cache_by_step=tuple(recorded.caches),
        taps=taps,
        left_out=plan.left_out,
        notices=(*plan.notices, *recorded.notices),
        tensors=tuple(recorded.tensors),
        model=lm,
    )


def _between_layers(lm: KimiLM, progress: Progress, steps: int) -> Callable[[Tap], None]:
    """Tells of each layer as the prompt comes to it. Taps know no thread but their own."""
    firsts = {layer.residual_in: i for i, layer in enumerate(lm.layers)}
    count = len(firsts)

    def tell(tap: Tap) -> None:
        if (layer := firsts.get(tap)) is not None:
            progress(f"prefill layer {layer + 1} of {count}", layer / count, steps)

    return tell


def _call(
    lm: KimiLM,
    ids: list[int],
    cache: KimiCache,
    names: dict[Tap, str],
    between: Callable[[Tap], None] | None,
) -> tuple[dict[str, Tensor], Tensor]:
    """The named taps of one call, on the CPU, and the logits of its last position."""
    token_ids = torch.tensor([ids], device=lm.embed_tokens.weight.device)

    def keep(tap: Tap, tensor: Tensor) -> Tensor | None:
        if between is not None:
            between(tap)
        return tensor if tap in names else None

    with torch.inference_mode(), capture(keep=keep) as recording:
        logits = lm(token_ids, cache=cache)
    named = recording.named(names)
    return {name: tensor.cpu() for name, tensor in named.items()}, logits[0, -1].double().cpu()


def _next_token(logits: Tensor, temperature: float, generator: torch.Generator, step: int) -> int:
    if temperature == 0.0:
        return int(logits.argmax())
    chances = torch.softmax(logits / temperature, dim=-1)
    if not bool(torch.isfinite(chances).all()):
        raise ValueError(
            f"After step {step} the logits hold NaN or infinity, so no token can be drawn; "
            "temperature 0 takes the first largest instead."
        )
    return int(torch.multinomial(chances, 1, generator=generator))
