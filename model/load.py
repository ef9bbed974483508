"""Making a model: from a configuration with random weights, or from a folder with trained ones."""

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from model.config import KimiConfig
from model.init import fill, give_storage
from model.kimi import KimiLM
from model.memory import keep_freed_pages
from model.presets import PRESETS, RELEASED, preset
from model.shipped import RANDOM, folder_of, has_weights
from model.spelling import expert_part, from_upstream, is_stacked, to_upstream
from model.tokenizer import tokenizer_for

KERNELS = ("auto", "torch", "triton")
NAMED = 10
"""Names of each kind of mismatch that an error lists."""


def build(
    config: str | Mapping[str, Any] | KimiConfig,
    *,
    seed: int = 0,
    device: str = "cpu",
    dtype: str = "float32",
    kernels: str = "auto",
) -> KimiLM:
    """A model with seeded random weights: of a preset, or of an upstream `config.json`.

    On the `meta` device it has shapes and no weights.
    """
    refuse_kernels(kernels)
    keep_freed_pages()
    source = config if isinstance(config, str) else "a configuration"
    if isinstance(config, str):
        config = preset(config)
    elif not isinstance(config, KimiConfig):
        config = KimiConfig.from_hf(config)
    lm = KimiLM(config).eval()
    give_storage(lm, device, dtype_called(dtype))
    if device != "meta":
        fill(lm, config, seed)
    lm.source = source
    lm.weights_note = "no weights" if device == "meta" else RANDOM
    lm.tokenizer = tokenizer_for(config)
    return lm


def load(
    source: str,
    *,
    device: str = "auto",
    dtype: str = "auto",
    layers: Iterable[int] | None = None,
    kernels: str = "auto",
) -> KimiLM:
    """A model to run: a preset that fits on this machine, a folder, or a Hub id `org/name`."""
    if layers is not None:
        raise ValueError(
            "layers= loads part of a checkpoint, which is not built yet; leave it out."
        )
    device = ("cuda" if torch.cuda.is_available() else "cpu") if device == "auto" else device
    dtype = ("float32" if device == "cpu" else "bfloat16") if dtype == "auto" else dtype
    if source in RELEASED:
        raise ValueError(
            f"{source!r} is a released configuration without weights here. "
            f"build({source!r}, device='meta') has its shapes; a folder with weights can be loaded."
        )
    if source in PRESETS:
        lm = build(source, device=device, dtype=dtype, kernels=kernels)
        shipped = folder_of(source)
        if shipped is not None:
            if has_weights(source):
                load_weights(lm, read_folder(shipped))
            lm.tokenizer = tokenizer_for(lm.config, shipped)
        return lm
    folder = Path(source) if Path(source).is_dir() else download(source)
    config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    lm = build(config, device=device, dtype=dtype, kernels=kernels)
    load_weights(lm, read_folder(folder))
    lm.source, lm.weights_note = source, ""
    lm.tokenizer = tokenizer_for(lm.config, folder)
    return lm


def load_weights(lm: KimiLM, tensors: Mapping[str, Tensor]) -> None:
    """Copy upstream tensors into `lm`: all of them, nothing else, each of the right shape."""
    parameters = dict(lm.named_parameters())
    wanted = set(upstream_names(lm))
    unexpected, misshapen = [], []
    with torch.no_grad():
        for upstream, tensor in tensors.items():
            name = from_upstream(upstream)
            part = expert_part(name)
            target = parameters.get(part[0] if part else name)
            if target is None or (part and part[1] >= len(target)):
                unexpected.append(upstream)
                continue
            target = target[part[1]] if part else target
            wanted.discard(to_upstream(part[0], part[1]) if part else to_upstream(name))
            tensor = first_heads(tensor, target) if name.endswith("A_log") else tensor
            if tensor.shape != target.shape:
                misshapen.append(f"{upstream} {[*tensor.shape]} for {[*target.shape]}")
                continue
            target.copy_(tensor)
    report(sorted(wanted), unexpected, misshapen)
    lm.weights_note = ""


def upstream_state(lm: KimiLM) -> dict[str, Tensor]:
    """The weights under K3's checkpoint names, experts apart: what `load_weights` reads."""
    state: dict[str, Tensor] = {}
    for name, parameter in lm.named_parameters():
        if is_stacked(name):
            matrices = parameter.detach().contiguous()
            state |= {to_upstream(name, j): matrix for j, matrix in enumerate(matrices)}
        else:
            state[to_upstream(name)] = parameter.detach().contiguous()
    return state


def upstream_names(lm: KimiLM) -> Iterable[str]:
    for name, parameter in lm.named_parameters():
        if is_stacked(name):
            yield from (to_upstream(name, j) for j in range(len(parameter)))
        else:
            yield to_upstream(name)


def first_heads(tensor: Tensor, target: Tensor) -> Tensor:
    """One rate a head. K3's file pads them with zeros, Kimi-Linear's has axes of one around."""
    flat, heads = tensor.flatten(), len(target)
    if len(flat) > heads and bool(flat[heads:].any()):
        raise ValueError(
            f"A_log holds {len(flat)} values for {heads} heads, and those beyond are not zero."
        )
    return flat[:heads]


def report(missing: list[str], unexpected: list[str], misshapen: list[str]) -> None:
    kinds = {"missing": missing, "unexpected": unexpected, "misshapen": misshapen}
    if not any(kinds.values()):
        return
    lines = [
        f"{len(names)} {kind}: {', '.join(names[:NAMED])}{', …' if len(names) > NAMED else ''}"
        for kind, names in kinds.items()
        if names
    ]
    raise ValueError("The tensors do not fit this model. " + "; ".join(lines) + ".")


def read_folder(folder: Path) -> dict[str, Tensor]:
    from safetensors.torch import load_file

    files = sorted(folder.glob("*.safetensors"))
    if not files:
        raise ValueError(f"{str(folder)!r} holds no .safetensors file.")
    tensors: dict[str, Tensor] = {}
    for file in files:
        tensors |= load_file(file)
    return tensors


def download(source: str) -> Path:
    if source.count("/") != 1:
        raise LookupError(
            f"{source!r} is no preset ({', '.join(PRESETS)}), no folder and no Hub id org/name."
        )
    from huggingface_hub import snapshot_download

    return Path(snapshot_download(source, allow_patterns=["*.json", "*.safetensors", "*.model"]))


def refuse_kernels(kernels: str) -> None:
    if kernels not in KERNELS:
        raise ValueError(f"kernels={kernels!r}: choose one of {', '.join(KERNELS)}.")
    if kernels == "triton":
        raise ValueError(
            "kernels='triton': the model has no Triton path yet; use 'auto' or 'torch'."
        )


def dtype_called(name: str) -> torch.dtype:
    known = {"float64", "float32", "bfloat16", "float16"}
    if name not in known:
        raise ValueError(f"dtype={name!r}: choose one of {', '.join(sorted(known))}.")
    return getattr(torch, name)
