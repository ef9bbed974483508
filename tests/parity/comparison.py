"""Both sides of a comparison, on the same weights and inputs."""

import json
import os
import subprocess
import sys
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

from model.cache import KimiCache
from model.capture import capture, tap_names
from model.kimi import KimiLM
from model.load import build, load_weights
from model.rows import Rows
from tests.parity.cases import DECODED, Case, label
from tests.parity.weights import draw_inputs, draw_weights

NEAR_TIE = 1e-6
"""Where a router's last chosen and first refused score lie this close, rounding may swap them."""

ORACLE = Path(__file__).parent / "oracle_k3.py"


@dataclass(frozen=True)
class Comparison:
    """One drawn case: what both sides get, and what they compute."""

    config: dict[str, Any]
    weights: dict[str, Tensor]
    inputs: dict[str, Tensor]
    redraws: int
    ours: dict[str, Tensor]
    lm: KimiLM
    oracle: dict[str, Tensor] = field(default_factory=dict)

    def errors(self, part: str) -> dict[str, float]:
        """Distance of the two sides by name, for all of our names that begin with `part`."""
        return {
            name: distance(found, self.oracle[name.replace("latent decode", "decode")])
            for name, found in self.ours.items()
            if name.startswith(part)
        }


def distance(found: Tensor, expected: Tensor) -> float:
    """max |a - b| / max |b|; a NaN on either side is infinitely far."""
    error = float((found - expected).abs().max() / expected.abs().max())
    return error if error == error else float("inf")


def draw(case: Case, shrink: bool, seed: int, dtype: str = "float32") -> Comparison:
    """A case without near ties in our routers, drawn again until it is one."""
    config = case.config()
    for redraws in range(20):
        weights = draw_weights(config, seed + 1000 * redraws, shrink)
        inputs = in_dtype(dtype, draw_inputs(config, DECODED, seed + 1000 * redraws))
        lm = load_ours(config, weights, dtype)
        if smallest_gap(lm, config, inputs) > NEAR_TIE:
            return Comparison(config, weights, inputs, redraws, run_ours(lm, inputs), lm)
    raise RuntimeError(f"Twenty draws of {label(case, shrink)!r} all hold a near tie.")


def in_dtype(dtype: str, tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    """Token ids stay whole numbers."""
    wanted = getattr(torch, dtype)
    return {k: t.to(wanted) if t.is_floating_point() else t for k, t in tensors.items()}


def load_ours(config: dict[str, Any], weights: dict[str, Tensor], dtype: str = "float32") -> KimiLM:
    lm = build(config, dtype=dtype)
    load_weights(lm, weights)
    return lm


def sequences(inputs: dict[str, Tensor]) -> dict[int, Tensor]:
    """Token ids by the number of positions in the first call."""
    return {
        int(name.removeprefix("tokens.")): ids.long()
        for name, ids in inputs.items()
        if name.startswith("tokens.")
    }


@torch.inference_mode()
def smallest_gap(lm: KimiLM, config: dict[str, Any], inputs: dict[str, Tensor]) -> float:
    """Least distance between a chosen and a refused router score over everything that is run."""
    chosen = config["num_experts_per_token"]
    names = [name for name in tap_names(lm).values() if name.endswith("scores_for_choice")]
    gaps = []
    for ids in sequences(inputs).values():
        with capture(names, model=lm) as recording:
            lm(ids)
        gaps += [_gap(scores, chosen) for scores in recording.tensors.values()]
    for layer in lm.layers:
        if hasattr(layer, "block_sparse_moe"):
            with capture(names, model=lm) as recording:
                layer.block_sparse_moe(inputs["x"])
            gaps += [_gap(scores, chosen) for scores in recording.tensors.values()]
    return min(gaps)


def _gap(scores: Tensor, chosen: int) -> float:
    ordered = scores.sort(dim=-1, descending=True).values
    return float((ordered[..., chosen - 1] - ordered[..., chosen]).min())


@torch.inference_mode()
def run_ours(lm: KimiLM, inputs: dict[str, Tensor]) -> dict[str, Tensor]:
    return run_logits(lm, inputs) | run_layers(lm, inputs)


@torch.inference_mode()
def run_logits(lm: KimiLM, inputs: dict[str, Tensor]) -> dict[str, Tensor]:
    """Every sequence in one call, and its tail one position at a time on both kinds of cache."""
    found = {}
    for length, ids in sequences(inputs).items():
        found[f"prefill.{length}"] = lm(ids)
        found[f"decode.{length}"] = decode(lm, ids, length, lm.new_cache())
        found[f"latent decode.{length}"] = decode(lm, ids, length, lm.new_cache(mla="latent"))
    return found


def decode(lm: KimiLM, ids: Tensor, length: int, cache: KimiCache) -> Tensor:
    steps = [lm(ids[:, :length], cache=cache)]
    for position in range(length, ids.shape[1]):
        steps.append(lm(ids[:, position : position + 1], cache=cache))
    return torch.cat(steps, dim=1)


@torch.inference_mode()
def run_layers(lm: KimiLM, inputs: dict[str, Tensor]) -> dict[str, Tensor]:
    """Each mixer, feed-forward and residual read alone, on the same random input."""
    x, bank = inputs["x"], inputs["bank"].permute(1, 2, 0, 3)
    rows = Rows(x.shape[0], x.shape[1], 0, x.device, None, None)
    found = {}
    for index, layer in enumerate(lm.layers):
        found[f"layers.{index}.mixer"] = layer.self_attn(x, None, rows)
        found[f"layers.{index}.feed_forward"] = layer.feed_forward(x)
        for name in ("self_attention_res", "mlp_res"):
            if hasattr(layer, name):
                found[f"layers.{index}.{name}"] = getattr(layer, name)(x, bank)
    return found


class Oracle:
    """A process that cannot see our packages, at work while we draw the next case."""

    def __init__(self, folder: Path, *options: str, script: Path = ORACLE) -> None:
        self.folder = folder
        self.asked: list[tuple[Path, Comparison]] = []
        self.process = subprocess.Popen(
            [sys.executable, "-P", str(script), *options],
            cwd=folder,
            env={**os.environ, "OMP_NUM_THREADS": "1"},
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        )

    def ask(self, comparison: Comparison) -> None:
        path = self.folder / str(len(self.asked))
        path.mkdir()
        (path / "config.json").write_text(json.dumps(comparison.config))
        save_file(comparison.weights, path / "model.safetensors")
        # drawn in float32, which is all that mlx reads from a file
        save_file(in_dtype("float32", comparison.inputs), path / "inputs.safetensors")
        self.asked.append((path, comparison))
        assert self.process.stdin is not None
        # a process that ended says why in `finish`
        with suppress(BrokenPipeError):
            self.process.stdin.write(f"{path}\n")
            self.process.stdin.flush()

    def finish(self) -> None:
        """Wait for all answers, and put each into its comparison."""
        _, errors = self.process.communicate()
        if self.process.returncode:
            raise RuntimeError(f"The oracle failed:\n{errors}")
        for path, comparison in self.asked:
            comparison.oracle.update(load_file(path / "oracle.safetensors"))
