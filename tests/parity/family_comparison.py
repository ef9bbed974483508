"""Kimi-Linear and K2 beside their oracles: weights in upstream's names, one draw for all."""

import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from model.capture import capture, tap_names
from model.kimi import KimiLM
from tests.parity.cases import DECODED, label
from tests.parity.comparison import (
    NEAR_TIE,
    Comparison,
    Oracle,
    in_dtype,
    load_ours,
    run_ours,
    sequences,
)
from tests.parity.family_cases import FamilyCase, variants
from tests.parity.weights import PREFIX, draw_inputs, draw_weights

K2_MATRICES = {"w1": "gate_proj", "w2": "down_proj", "w3": "up_proj"}

DTYPES = ("float32", "float64")

HERE = Path(__file__).parent
TRANSFORMERS = HERE / "oracle_transformers.py"
MLX = HERE / "oracle_mlx_kimi_linear.py"


def compared(
    cases: Sequence[FamilyCase], folder: Path, dtypes: Sequence[str] = DTYPES
) -> dict[tuple[str, str, str], Comparison]:
    """Each case by oracle, precision and label, for the oracles that can run it."""
    # transformers reads from the configuration how precise to be
    transformers = Oracle(folder, script=TRANSFORMERS)
    oracles = {f"transformers {dtype}": transformers for dtype in dtypes}
    if any("mlx" in case.oracles for case in cases):
        for dtype in dtypes:
            options = ("--float64",) if dtype == "float64" else ()
            place = folder / dtype
            place.mkdir()
            oracles[f"mlx {dtype}"] = Oracle(place, *options, script=MLX)
    found = {}
    for dtype in dtypes:
        for seed, (case, shrink) in enumerate(variants(cases)):
            drawn = draw(case, shrink, seed, dtype)
            for name in case.oracles:
                comparison = replace(drawn, oracle={})
                found[name, dtype, label(case, shrink)] = comparison
                oracles[f"{name} {dtype}"].ask(comparison)
    for oracle in set(oracles.values()):
        oracle.finish()
    return found


def draw(case: FamilyCase, shrink: bool, seed: int, dtype: str) -> Comparison:
    """A case without near ties in our routers, drawn again until it is one."""
    words, config = case.in_house_words(), case.config() | {"dtype": dtype}
    for redraws in range(20):
        weights = in_upstream_names(words, draw_weights(words, seed + 1000 * redraws, shrink))
        inputs = in_dtype(dtype, draw_inputs(words, DECODED, seed + 1000 * redraws))
        lm = load_ours(config, weights, dtype)
        if smallest_gap(lm, words, inputs) > NEAR_TIE:
            return Comparison(config, weights, inputs, redraws, run_ours(lm, inputs), lm)
    raise RuntimeError(f"Twenty draws of {label(case, shrink)!r} all hold a near tie.")


def in_upstream_names(words: dict[str, Any], weights: dict[str, Tensor]) -> dict[str, Tensor]:
    """The names and shapes that the released Kimi-Linear and K2 have where they are not K3's."""
    rename = k2_name if words["model_type"] == "kimi_k2" else str
    renamed = {rename(name.removeprefix(PREFIX)): tensor for name, tensor in weights.items()}
    for name, tensor in renamed.items():
        if name.endswith("A_log"):
            heads = words["linear_attn_config"]["num_heads"]
            renamed[name] = tensor[:heads].view(1, 1, heads, 1).clone()
    return renamed


def k2_name(name: str) -> str:
    name = name.replace(".block_sparse_moe.", ".mlp.")
    return re.sub(r"(\.experts\.\d+)\.(w[123])\.", lambda m: f"{m[1]}.{K2_MATRICES[m[2]]}.", name)


@torch.inference_mode()
def smallest_gap(lm: KimiLM, words: dict[str, Any], inputs: dict[str, Tensor]) -> float:
    """Least distance between what was just chosen and just refused, experts and groups of them."""
    names = [name for name in tap_names(lm).values() if name.endswith("scores_for_choice")]
    recorded = []
    for ids in sequences(inputs).values():
        with capture(names, model=lm) as recording:
            lm(ids)
        recorded += recording.tensors.values()
    for layer in lm.layers:
        if hasattr(layer, "block_sparse_moe"):
            with capture(names, model=lm) as recording:
                layer.block_sparse_moe(inputs["x"])
            recorded += recording.tensors.values()
    return min((gap(scores, words) for scores in recorded), default=float("inf"))


def gap(scores: Tensor, words: dict[str, Any]) -> float:
    groups, kept = words["num_expert_group"], words["topk_group"]
    between_groups = float("inf")
    if groups > 1:
        by_group = scores.unflatten(-1, (groups, -1))
        best = by_group.sort(descending=True).values[..., :2].sum(-1)
        between_groups = edge(best, kept)
        least = best.sort(descending=True).values[..., kept - 1 : kept]
        scores = by_group.masked_fill((best < least)[..., None], float("-inf")).flatten(-2)
    return min(between_groups, edge(scores, words["num_experts_per_token"]))


def edge(scores: Tensor, chosen: int) -> float:
    """Least distance between the last chosen and the first refused."""
    if chosen == scores.shape[-1]:
        return float("inf")
    ordered = scores.sort(dim=-1, descending=True).values
    return float((ordered[..., chosen - 1] - ordered[..., chosen]).min())
