"""Runs transformers' Kimi-Linear and DeepSeek-V3 on folders of random weights.

A script for a process of its own, started from another directory: `transformers` looks for a
package named `kernels`, and must not find ours.

    python -P oracle_transformers.py < FOLDERS

Reads one folder a line. Each holds `config.json` (its `dtype` is what is computed in),
`model.safetensors` (upstream names) and `inputs.safetensors`, and gets an `oracle.safetensors`.
"""

import json
import runpy
import sys
from contextlib import nullcontext
from pathlib import Path

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor, nn
from transformers import AutoModelForCausalLM, PreTrainedModel, modeling_rope_utils
from transformers.models.deepseek_v3 import modeling_deepseek_v3
from transformers.models.kimi_linear import modeling_kimi_linear
from transformers.utils import logging

MODULES = (modeling_kimi_linear, modeling_deepseek_v3, modeling_rope_utils)

# by path: this process is not to find anything beside its script by name
widened = runpy.run_path(str(Path(__file__).with_name("wide_torch.py")))["widened"]


def load_oracle(folder: Path, dtype: torch.dtype) -> PreTrainedModel:
    """K2's own type names code that transformers has as DeepSeek-V3's."""
    path = folder / "config.json"
    config = json.loads(path.read_text())
    if config["model_type"] == "kimi_k2":
        path.write_text(json.dumps(config | {"model_type": "deepseek_v3"}))
    oracle, report = AutoModelForCausalLM.from_pretrained(
        folder,
        dtype=dtype,
        attn_implementation="eager",
        experts_implementation="eager",
        output_loading_info=True,
    )
    if faults := {kind: names for kind, names in report.items() if names}:
        raise ValueError(f"The weights of {folder} do not fit: {faults}.")
    # some parameters are kept in float32 whatever is asked for
    return oracle.to(dtype).eval()


def run_sequence(oracle: PreTrainedModel, tokens: Tensor, length: int) -> dict[str, Tensor]:
    """Logits of the whole sequence in one call, and of its tail one position at a time."""
    first = oracle(tokens[:, :length], use_cache=True)
    steps, cache = [first.logits], first.cache
    for position in range(length, tokens.shape[1]):
        step = oracle(tokens[:, position : position + 1], cache=cache, use_cache=True)
        steps.append(step.logits)
    return {
        f"prefill.{length}": oracle(tokens, use_cache=False).logits,
        f"decode.{length}": torch.cat(steps, dim=1),
    }


def run_layers(oracle: PreTrainedModel, x: Tensor) -> dict[str, Tensor]:
    """Each mixer and feed-forward alone, on the same random input."""
    pos = x.shape[1]
    hidden = torch.full((pos, pos), torch.finfo(x.dtype).min, dtype=x.dtype).triu(1)[None, None]
    given = {"attention_mask": hidden}
    if hasattr(oracle.model, "rotary_emb"):
        given["position_embeddings"] = oracle.model.rotary_emb(x, torch.arange(pos)[None])
    found = {}
    for index, layer in enumerate(oracle.model.layers):
        found[f"layers.{index}.mixer"] = run_mixer(layer.self_attn, x, given)
        found[f"layers.{index}.feed_forward"] = layer.mlp(x)
    return found


def run_mixer(mixer: nn.Module, x: Tensor, given: dict[str, Tensor]) -> Tensor:
    if isinstance(mixer, modeling_kimi_linear.KimiLinearDeltaAttention):
        return mixer(x)
    return mixer(x, **given)[0]


@torch.inference_mode()
def run_folder(folder: Path) -> None:
    dtype = getattr(torch, json.loads((folder / "config.json").read_text())["dtype"])
    with widened(*MODULES) if dtype == torch.float64 else nullcontext():
        oracle = load_oracle(folder, dtype)
        inputs = load_file(folder / "inputs.safetensors")
        found = run_layers(oracle, inputs["x"].to(dtype))
        for name, tokens in inputs.items():
            if name.startswith("tokens."):
                length = int(name.removeprefix("tokens."))
                found |= run_sequence(oracle, tokens.long(), length)
    save_file({k: t.contiguous() for k, t in found.items()}, folder / "oracle.safetensors")


if __name__ == "__main__":
    # standard error is for what went wrong
    logging.disable_progress_bar()
    logging.set_verbosity_error()
    torch.set_num_threads(1)
    for line in sys.stdin:
        run_folder(Path(line.rstrip("\n")))
