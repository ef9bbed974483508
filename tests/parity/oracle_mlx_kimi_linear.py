"""Runs mlx-lm's Kimi-Linear on folders of random weights, as `oracle_k3.py` runs its K3.

    python -P oracle_mlx_kimi_linear.py [--float64] < FOLDERS

mlx-lm gives the norm of the latent the epsilon of the configuration, where upstream and
`transformers` have a millionth. Each full layer alone is run as mlx-lm has it, written as
`layers.N.mixer as it is`, and then everything with upstream's epsilon.
"""

import json
import runpy
import sys
from pathlib import Path

import mlx.core as mx

# by path, and first: with --float64 it changes mlx before a model of mlx-lm is imported
k3 = runpy.run_path(str(Path(__file__).with_name("oracle_k3.py")))

from mlx_lm.models import kimi_linear  # noqa: E402

LATENT_NORM_EPS = 1e-6


def load_oracle(folder: Path) -> kimi_linear.Model:
    config = json.loads((folder / "config.json").read_text())
    oracle = kimi_linear.Model(kimi_linear.ModelArgs.from_dict(config))
    weights = oracle.sanitize(dict(mx.load(str(folder / "model.safetensors"))))
    oracle.load_weights(list(weights.items()), strict=True)
    oracle.eval()
    return oracle


def run_full_layers_as_they_are(oracle: kimi_linear.Model, x: mx.array) -> dict[str, mx.array]:
    return {
        f"layers.{index}.mixer as it is": layer.self_attn(x, causal(x), None)
        for index, layer in enumerate(oracle.layers)
        if not layer.is_linear
    }


def run_layers(oracle: kimi_linear.Model, x: mx.array) -> dict[str, mx.array]:
    found = {}
    for index, layer in enumerate(oracle.layers):
        mask = None if layer.is_linear else causal(x)
        found[f"layers.{index}.mixer"] = layer.self_attn(x, mask, None)
        found[f"layers.{index}.feed_forward"] = layer.mlp(x)
    return found


def causal(x: mx.array) -> mx.array:
    return mx.tril(mx.ones((x.shape[1], x.shape[1]), dtype=mx.bool_))


def run_folder(folder: Path) -> None:
    oracle = load_oracle(folder)
    inputs = dict(mx.load(str(folder / "inputs.safetensors")))
    found = run_full_layers_as_they_are(oracle, inputs["x"])
    for layer in oracle.layers:
        if not layer.is_linear:
            layer.self_attn.kv_a_layernorm.eps = LATENT_NORM_EPS
    found |= run_layers(oracle, inputs["x"])
    for name, tokens in inputs.items():
        if name.startswith("tokens."):
            found |= k3["run_sequence"](oracle, tokens, int(name.removeprefix("tokens.")))
    mx.save_safetensors(str(folder / "oracle.safetensors"), found)


if __name__ == "__main__":
    for line in sys.stdin:
        run_folder(Path(line.rstrip("\n")))
