"""Runs mlx-lm's K3 on folders of random weights and writes what it computes.

A script for a process of its own, started from another directory: mlx-lm imports `transformers`,
which looks for a package named `kernels`, and must not find ours.

    python -P oracle_k3.py [--float64] < FOLDERS

Reads one folder a line. Each holds `config.json`, `model.safetensors` (upstream names) and
`inputs.safetensors`, and gets an `oracle.safetensors`.
"""

import json
import runpy
import sys
from pathlib import Path

import mlx.core as mx

if "--float64" in sys.argv:
    # by path: this process is not to find anything beside its script by name
    runpy.run_path(str(Path(__file__).with_name("mlx_float64.py")))["widen"]()

from mlx_lm.models import kimi_k3


def load_oracle(folder: Path) -> kimi_k3.Model:
    config = json.loads((folder / "config.json").read_text())
    oracle = kimi_k3.Model(
        kimi_k3.ModelArgs.from_dict({"model_type": "kimi_k3", "text_config": config})
    )
    weights = oracle.sanitize(dict(mx.load(str(folder / "model.safetensors"))))
    oracle.load_weights(list(weights.items()), strict=True)
    oracle.eval()
    return oracle


def run_sequence(oracle: kimi_k3.Model, tokens: mx.array, length: int) -> dict[str, mx.array]:
    """Logits of the whole sequence in one call, and of its tail one position at a time."""
    cache = oracle.make_cache()
    steps = [oracle(tokens[:, :length], cache=cache)]
    mx.eval(steps)
    for position in range(length, tokens.shape[1]):
        steps.append(oracle(tokens[:, position : position + 1], cache=cache))
        mx.eval(steps[-1])
    return {
        f"prefill.{length}": oracle(tokens),
        f"decode.{length}": mx.concatenate(steps, axis=1),
    }


def run_layers(oracle: kimi_k3.Model, inputs: dict[str, mx.array]) -> dict[str, mx.array]:
    """Each mixer, feed-forward and residual read alone, on the same random input."""
    x, bank = inputs["x"], inputs["bank"]
    causal = mx.tril(mx.ones((x.shape[1], x.shape[1]), dtype=mx.bool_))
    found = {}
    for index, layer in enumerate(oracle.layers):
        mask = None if layer.is_linear else causal
        found[f"layers.{index}.mixer"] = layer.self_attn(x, mask, None)
        found[f"layers.{index}.feed_forward"] = layer.mlp(x)
        if layer.use_attn_res:
            for name, key in (("self_attention_res", "self_attention_res"), ("mlp_res", "mlp_res")):
                norm, proj = layer[f"{key}_norm"], layer[f"{key}_proj"]
                found[f"layers.{index}.{name}"] = read_residuals(layer.eps, bank, x, norm, proj)
    return found


def read_residuals(
    eps: float, bank: mx.array, partial: mx.array, norm: mx.array, proj: mx.array
) -> mx.array:
    blocks = kimi_k3.ResidualBlocks(eps)
    for sealed in bank:
        blocks.append(sealed)
    query = norm.weight * proj.weight.reshape(-1)
    return kimi_k3._attn_res_mix(blocks, partial, query, eps)


def run_folder(folder: Path) -> None:
    oracle = load_oracle(folder)
    inputs = dict(mx.load(str(folder / "inputs.safetensors")))
    found = run_layers(oracle, inputs)
    for name, tokens in inputs.items():
        if name.startswith("tokens."):
            found |= run_sequence(oracle, tokens, int(name.removeprefix("tokens.")))
    mx.save_safetensors(str(folder / "oracle.safetensors"), found)


if __name__ == "__main__":
    for line in sys.stdin:
        run_folder(Path(line.rstrip("\n")))
