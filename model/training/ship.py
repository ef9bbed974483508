"""A trained model as a checkpoint in upstream's form: configuration, weights, tokenizer."""

import json
from pathlib import Path

import torch
from safetensors.torch import save_file

from model.init import FLOAT32
from model.kimi import KimiLM
from model.load import upstream_state
from model.shipped import SUMS, sha256
from model.tokenizer_json import JsonTokenizer

WEIGHTS = "model.safetensors"
SHIPPED = ("config.json", "tokenizer.json", WEIGHTS)


def write_checkpoint(lm: KimiLM, tokenizer: JsonTokenizer, folder: Path) -> None:
    """Matrices in bfloat16, and in float32 what a released checkpoint keeps so."""
    folder.mkdir(parents=True, exist_ok=True)
    config = {"architectures": ["KimiLinearForCausalLM"], **lm.config.to_hf()}
    (folder / "config.json").write_text(json.dumps(config, indent=2) + "\n", encoding="utf-8")
    tensors = {
        name: tensor if name.endswith(FLOAT32) else tensor.to(torch.bfloat16)
        for name, tensor in upstream_state(lm).items()
    }
    save_file(
        {name: tensor.contiguous() for name, tensor in tensors.items()},
        folder / WEIGHTS,
        metadata={"format": "pt"},
    )
    tokenizer.save(folder / "tokenizer.json")
    sums = [f"{sha256(folder / name)}  {name}" for name in SHIPPED]
    (folder / SUMS).write_text("\n".join(sums) + "\n", encoding="utf-8")
