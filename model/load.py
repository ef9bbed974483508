"""Making a model: from a configuration with random weights, or from a folder with trained ones."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import torch
from torch import Tensor

from model.checkpoint import checkpoint_folder, read_config, read_tensors
from model.config import KimiConfig
from model.init import fill, give_storage
from model.kimi import KimiLM
from model.memory import keep_freed_pages
from model.presets import PRESETS, RELEASED, preset
from model.shipped import RANDOM, folder_of, has_weights
from model.spelling import expert_part, from_upstream, is_stacked, to_upstream
from model.tokenizer import tokenizer_for

KERNELS = ("auto", "torch", "triton")
PLAIN_DTYPES = (torch.float64, torch.float32, torch.bfloat16, torch.float16)
"""What a tensor may come in: anything else holds codes, which mean nothing without scales."""
FAULTS = ("missing", "unexpected", "given twice", "packed", "misshapen")
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
    source = config if isinstance(config, str) else "a configuration"
    if isinstance(config, str):
        config = preset(config)
    elif not isinstance(config, KimiConfig):
        config = KimiConfig.from_hf(config)
    lm = unfilled(config, device, dtype, kernels)
    if device != "meta":
        fill(lm, config, seed)
    lm.source = source
    lm.weights_note = "no weights" if device == "meta" else RANDOM
    lm.tokenizer = tokenizer_for(config)
    return lm


def unfilled(config: KimiConfig, device: str, dtype: str, kernels: str) -> KimiLM:
    """A model with storage and nothing in it."""
    refuse_kernels(kernels)
    refuse_device(device)
    keep_freed_pages()
    lm = KimiLM(config).eval()
    give_storage(lm, device, dtype_called(dtype))
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
                load_weights(lm, read_tensors(shipped))
            lm.tokenizer = tokenizer_for(lm.config, shipped)
        return lm
    folder = checkpoint_folder(source)
    lm = unfilled(KimiConfig.from_hf(read_config(folder)), device, dtype, kernels)
    load_weights(lm, read_tensors(folder))
    lm.source = source
    lm.tokenizer = tokenizer_for(lm.config, folder)
    return lm


def load_weights(lm: KimiLM, tensors: Mapping[str, Tensor]) -> None:
    """Copy upstream tensors into `lm`: all of them, nothing else, each of the right shape.

    Where one does not fit, none is copied. `lm.weights_note` says if some are not finite.
    """
    places, fitting = dict(upstream_places(lm)), {}
    faults: dict[str, list[str]] = {kind: [] for kind in FAULTS}
    for upstream, tensor in tensors.items():
        name = in_checkpoint(upstream)
        if (place := places.get(name)) is None:
            faults["unexpected"].append(upstream)
            continue
        if name in fitting:
            faults["given twice"].append(upstream)
        tensor = first_heads(tensor, place) if name.endswith("A_log") else tensor
        fitting[name] = tensor
        if tensor.dtype not in PLAIN_DTYPES:
            faults["packed"].append(f"{upstream} as {str(tensor.dtype).removeprefix('torch.')}")
        if tensor.shape != place.shape:
            faults["misshapen"].append(f"{upstream} {[*tensor.shape]} for {[*place.shape]}")
    faults["missing"] = sorted(places.keys() - fitting.keys())
    report(faults)
    with torch.no_grad():
        for name, tensor in fitting.items():
            places[name].copy_(tensor)
    lm.weights_note = note_on(places)


def in_checkpoint(upstream: str) -> str:
    """K3's name of a tensor, whichever model's name and prefix it came under."""
    name = from_upstream(upstream)
    part = expert_part(name)
    return to_upstream(*part) if part else to_upstream(name)


def upstream_places(lm: KimiLM) -> Iterator[tuple[str, Tensor]]:
    """Where each tensor of a checkpoint goes: a parameter, or one expert's part of it."""
    for name, parameter in lm.named_parameters():
        if is_stacked(name):
            yield from ((to_upstream(name, j), part) for j, part in enumerate(parameter))
        else:
            yield to_upstream(name), parameter


def note_on(places: Mapping[str, Tensor]) -> str:
    """What a reader must know of weights that came in: that some are no numbers."""
    odd = [
        name
        for name, tensor in places.items()
        if not (tensor.is_meta or bool(torch.isfinite(tensor).all()))
    ]
    if not odd:
        return ""
    return f"{len(odd)} of {len(places)} tensors hold NaN or infinity, as {odd[0]}"


def upstream_state(lm: KimiLM) -> dict[str, Tensor]:
    """The weights under K3's checkpoint names, experts apart: what `load_weights` reads."""
    return {name: tensor.detach().contiguous() for name, tensor in upstream_places(lm)}


def upstream_names(lm: KimiLM) -> Iterator[str]:
    return (name for name, _ in upstream_places(lm))


def first_heads(tensor: Tensor, target: Tensor) -> Tensor:
    """One rate a head. K3's file pads them with zeros, Kimi-Linear's has axes of one around."""
    flat, heads = tensor.flatten(), len(target)
    if len(flat) > heads and bool(flat[heads:].any()):
        raise ValueError(
            f"A_log holds {len(flat)} values for {heads} heads, and those beyond are not zero."
        )
    return flat[:heads]


def report(faults: Mapping[str, list[str]]) -> None:
    """Raise once for all of them, where there are any."""
    lines = [
        f"{len(names)} {kind}: {', '.join(names[:NAMED])}{', …' if len(names) > NAMED else ''}"
        for kind, names in faults.items()
        if names
    ]
    if lines:
        unpack = " Packed weights must be unpacked first." if faults["packed"] else ""
        raise ValueError(f"The tensors do not fit this model. {'; '.join(lines)}.{unpack}")


def refuse_device(device: str) -> None:
    try:
        asked = torch.device(device)
    except RuntimeError as error:
        raise ValueError(f"device={device!r}: choose 'cpu', 'cuda' or 'meta'.") from error
    count = torch.cuda.device_count()
    if asked.type == "cuda" and (asked.index or 0) >= count:
        raise ValueError(f"device={device!r}: torch sees {count} CUDA devices here; use 'cpu'.")


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
