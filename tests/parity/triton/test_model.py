"""The whole model on kernels against the whole model on its own text."""

from collections import Counter
from dataclasses import fields
from functools import cache
from typing import Any

import pytest
import torch
from torch import Tensor
from triton.runtime.interpreter import InterpretedFunction
from triton.runtime.jit import JITFunction

from model.init import fill, give_storage
from model.kernel_choice import Kernels, triton_kernels
from model.kimi import KimiLM
from model.load import build, load_weights, upstream_state
from model.presets import TINY, preset
from tests.parity.triton.test_compile import KERNELS_HERE

BOUND = 1e-5
"""Of the largest logit. Each side is that far from float64 by itself."""
PROMPT, STEPS = 20, 3
NAMES = [field.name for field in fields(Kernels)]


@cache
def on_text(name: str) -> KimiLM:
    return build(name, device=place())


@cache
def on_kernels(name: str) -> KimiLM:
    return build(name, device=place(), kernels="triton")


def place() -> str:
    return "cuda" if torch.cuda.is_available() else "cpu"


def with_these(name: str, kernels: Kernels) -> KimiLM:
    """The weights of `build(name)`, and these kernels alone."""
    config = preset(name)
    lm = KimiLM(config, kernels=kernels).eval()
    give_storage(lm, place(), torch.float32)
    fill(lm, config, 0)
    return lm


def ids(batch: int = 1, pos: int = PROMPT) -> Tensor:
    drawing = torch.Generator().manual_seed(pos)
    return torch.randint(256, (batch, pos), generator=drawing).to(place())


def error(ours: Tensor, theirs: Tensor) -> float:
    return float((ours - theirs).abs().max() / theirs.abs().max())


def logits_of(
    lm: KimiLM, mla: Any, given: Tensor, steps: int = 0, lengths: Tensor | None = None
) -> list[Tensor]:
    """Of a prompt, and of a few steps behind it."""
    cache = None if mla is None else lm.new_cache(len(given), mla=mla)
    with torch.inference_mode():
        found = [lm(given, cache=cache, lengths=lengths)]
        return found + [lm(given[:, s : s + 1], cache=cache) for s in range(steps)]


@pytest.mark.parametrize("mla", [None, "expanded", "latent"])
@pytest.mark.parametrize("name", TINY)
def test_prefill_and_decode_give_the_logits_of_torch(name, mla, device, measured):
    given = (mla, ids(), 0 if mla is None else STEPS)
    ours, theirs = logits_of(on_kernels(name), *given), logits_of(on_text(name), *given)
    pairs = zip(ours, theirs, strict=True)
    worst = max(error(a, b) for a, b in pairs)
    measured(f"{name} on kernels, cache {mla}: logits within {worst:.1e} of torch")
    assert worst <= BOUND


@pytest.mark.parametrize("mla", ["expanded", "latent"])
@pytest.mark.parametrize("name", TINY)
def test_rows_of_unlike_lengths_give_the_logits_of_torch(name, mla, device):
    lengths = torch.tensor([7, 3], device=place())
    given = (mla, ids(2, 7), 1, lengths)
    ours, theirs = logits_of(on_kernels(name), *given), logits_of(on_text(name), *given)
    for b, length in enumerate(lengths.tolist()):
        assert error(ours[0][b, :length], theirs[0][b, :length]) <= BOUND
    for after, wanted in zip(ours[1:], theirs[1:], strict=True):
        assert error(after, wanted) <= BOUND


@pytest.mark.parametrize("mla", ["expanded", "latent"])
@pytest.mark.parametrize("name", TINY)
def test_a_prompt_in_two_parts_gives_the_logits_of_torch(name, mla, device):
    found = []
    for lm in (on_kernels(name), on_text(name)):
        cache = lm.new_cache(mla=mla)
        with torch.inference_mode():
            parts = [lm(part, cache=cache) for part in ids().split([13, 7], dim=1)]
        found.append(torch.cat(parts, dim=1))
    assert error(*found) <= BOUND


@pytest.mark.parametrize("name", TINY)
def test_kernels_are_as_near_to_float64_as_torch(name, device, measured):
    exact = build(name, device=place(), dtype="float64")
    load_weights(exact, upstream_state(on_text(name)))
    with torch.inference_mode():
        wanted = exact(ids())
        errors = [error(lm(ids()).double(), wanted) for lm in (on_kernels(name), on_text(name))]
    measured(f"{name} from float64: on kernels {errors[0]:.1e}, on torch {errors[1]:.1e}")
    assert errors[0] <= max(2 * errors[1], 5e-6)


@pytest.mark.parametrize("name", TINY)
def test_kernels_round_to_bfloat16_no_worse_than_torch(name, device, measured):
    lms = [build(name, device=place(), dtype="bfloat16", kernels=k) for k in ("triton", "torch")]
    exact = build(name, device=place(), dtype="float64")
    load_weights(exact, upstream_state(lms[1]))
    with torch.inference_mode():
        wanted = exact(ids())
        # of the nearest token: where rounding chooses another expert, either side is far off
        ours, theirs = ((lm(ids()).double() - wanted).norm(dim=-1).min() for lm in lms)
    measured(f"{name} in bfloat16: {ours:.1e} from float64 on kernels, {theirs:.1e} on torch")
    assert ours <= 1.5 * theirs


def test_a_gradient_is_refused_instead_of_lost(device):
    lm = build("tiny-k2", device=place(), kernels="triton")
    lm.embed_tokens.weight.requires_grad_(True)
    with pytest.raises(ValueError, match="rms_norm: x needs a gradient, which kernels do not give"):
        lm(ids(pos=2))


@pytest.mark.parametrize("kernel", NAMES)
def test_a_kernel_runs_when_it_is_asked_for(kernel, device):
    """By itself, in a model whose other functions are the text."""
    seen = Counter()

    def counted(*given: Any, **options: Any) -> Any:
        seen[kernel] += 1
        return getattr(triton_kernels(), kernel)(*given, **options)

    name = "tiny-k2" if kernel in ("rotate", "swiglu") else "tiny-k3"
    lm = with_these(name, Kernels(**{kernel: counted}))
    mla = {"kda_prefill": None, "read_latents": "latent"}.get(kernel, "expanded")
    given = (mla, ids(), 0 if mla is None else 1)
    ours = logits_of(lm, *given)
    assert seen[kernel]
    for logits, wanted in zip(ours, logits_of(on_text(name), *given), strict=True):
        assert error(logits, wanted) <= BOUND


def test_no_kernel_is_out_of_reach(device, monkeypatch):
    started = set()
    for kind in (InterpretedFunction, JITFunction):
        run = kind.run

        def noted(self: Any, *given: Any, run: Any = run, **options: Any) -> Any:
            started.add(self.fn.__name__)
            return run(self, *given, **options)

        monkeypatch.setattr(kind, "run", noted)
    for name in ("tiny-k3", "tiny-k2"):
        for mla in (None, "expanded", "latent"):
            logits_of(on_kernels(name), mla, ids(pos=3), steps=0 if mla is None else 1)
    assert started == KERNELS_HERE
