"""Making a model: from a configuration with random weights, or from a trained checkpoint."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from model.checkpoint import Checkpoint, read_config
from model.config import KimiConfig
from model.config_part import first_layers, part_note
from model.init import fill as fill_randomly
from model.init import give_storage
from model.kernel_choice import TORCH, Kernels, choose_kernels
from model.kimi import KimiLM
from model.load_fill import Progress, fill, refuse_padded_rates
from model.load_match import match
from model.load_plan import Shape, plan
from model.memory import keep_freed_pages
from model.presets import PRESETS, RELEASED, preset
from model.room import device_for, dtype_called, dtype_for
from model.shipped import RANDOM, folder_of, has_weights, refuse_altered
from model.spelling import is_stacked, to_upstream
from model.tokenizer import tokenizer_for

DTYPE_WORDS = {
    torch.float64: "F64",
    torch.float32: "F32",
    torch.bfloat16: "BF16",
    torch.float16: "F16",
    torch.float8_e4m3fn: "F8_E4M3",
    torch.uint8: "U8",
}
"""The words of safetensors for the dtypes that are read; others go by torch's."""


def build(
    config: str | Mapping[str, Any] | KimiConfig,
    *,
    seed: int = 0,
    device: str = "cpu",
    dtype: str = "float32",
    kernels: str = "auto",
) -> KimiLM:
    """A model with seeded random weights: of a preset, or of an upstream `config.json`.

    On the `meta` device it has shapes and no weights. `kernels` is "torch", the model's own text;
    "triton", kernels in its place, and a ValueError where they cannot run; or "auto", Triton on a
    GPU and torch elsewhere. `lm.kernel_path` says which, and why.
    """
    source = config if isinstance(config, str) else "a configuration"
    if isinstance(config, str):
        config = preset(config)
    elif not isinstance(config, KimiConfig):
        config = KimiConfig.from_hf(config)
    place, number = device_for(device), dtype_called(dtype)
    choice = choose_kernels(kernels, place, dtype)
    lm = without_storage(config, choice.kernels)
    give_storage(lm, str(place), number)
    if place.type != "meta":
        fill_randomly(lm, config, seed)
    lm.source, lm.kernel_path = source, choice.words
    lm.weights_note = "no weights" if place.type == "meta" else RANDOM
    lm.tokenizer = tokenizer_for(config)
    return lm


def without_storage(config: KimiConfig, kernels: Kernels = TORCH) -> KimiLM:
    keep_freed_pages()
    return KimiLM(config, kernels=kernels).eval()


def load(
    source: str,
    *,
    device: str = "auto",
    dtype: str = "auto",
    layers: Iterable[int] | None = None,
    kernels: str = "auto",
    revision: str | None = None,
    progress: Progress | None = None,
) -> KimiLM:
    """A model to run: a preset that fits on this machine, a folder, or a Hub id `org/name`.

    `layers`, as `range(4)`, loads the first layers and no tensor of the others: a run computes
    exactly what the whole model does up to there, and its logits are read after the last of
    them. `kernels` is as for `build`. `revision` is a branch, tag or commit of the Hub. `progress`
    is called with bytes read and bytes in all. `lm.weights_note` says what a reader must know: what
    was left out, and weights that are no numbers.
    """
    if source in RELEASED:
        raise ValueError(
            f"{source!r} is a released configuration without weights here. "
            f"build({source!r}, device='meta') has its shapes; a folder with weights can be loaded."
        )
    checkpoint, whole = opened(source, revision)
    config = first_layers(whole, layers)
    place = device_for(device)
    choice = choose_kernels(kernels, place, dtype)
    lm = without_storage(config, choice.kernels)
    # before anything is fetched that would not fit
    number = dtype_for(lm, dtype, place)
    folder = folder_of(source) if checkpoint is None else checkpoint.folder
    lm.source, lm.kernel_path = source, choice.words
    lm.tokenizer = tokenizer_for(config, folder)
    found = None
    if checkpoint is not None:
        shapes = shapes_of(upstream_places(lm))
        found = match(shapes, checkpoint, config.num_hidden_layers, whole.num_hidden_layers)
    give_storage(lm, str(place), number)
    notes = [part_note(config, whole), "" if found is None else found.note]
    if place.type == "meta":
        notes.append("no weights")
    elif found is None:
        fill_randomly(lm, config, seed=0)
        notes.append(RANDOM)
    else:
        notes.append(found.read_into(dict(upstream_places(lm)), progress))
    notes.append("" if lm.tokenizer is None else lm.tokenizer.vocabulary_note)
    lm.weights_note = "; ".join(filter(None, notes))
    return lm


def opened(source: str, revision: str | None) -> tuple[Checkpoint | None, KimiConfig]:
    """Where the weights of a source lie, if any are shipped with it, and its configuration."""
    if source not in PRESETS:
        checkpoint = Checkpoint.of(source, revision)
        return checkpoint, KimiConfig.from_hf(read_config(checkpoint.folder))
    if revision is not None:
        raise ValueError(f"revision={revision!r} is for models of the Hub; {source!r} is shipped.")
    folder = folder_of(source)
    if folder is None or not has_weights(source):
        return None, preset(source)
    refuse_altered(folder)
    return Checkpoint(folder), preset(source)


def load_weights(lm: KimiLM, tensors: Mapping[str, Tensor]) -> None:
    """Copy upstream tensors into `lm`: all of them, nothing else, each of the right shape.

    Packed ones come with their scales. Where one does not fit, none is copied.
    `lm.weights_note` says if some are not finite.
    """
    places = dict(upstream_places(lm))
    given = [
        Described(name=name, dtype=dtype_word(tensor), shape=tuple(tensor.shape))
        for name, tensor in tensors.items()
    ]
    parts = plan(shapes_of(places.items()), given)
    refuse_padded_rates(places, parts, tensors.__getitem__)
    lm.weights_note = fill(places, parts, tensors.__getitem__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Described:
    """A tensor at hand, as a file's header would describe it."""

    name: str
    dtype: str
    shape: Shape


def dtype_word(tensor: Tensor) -> str:
    return DTYPE_WORDS.get(tensor.dtype, str(tensor.dtype).removeprefix("torch."))


def shapes_of(places: Iterable[tuple[str, Tensor]]) -> dict[str, Shape]:
    return {name: tuple(tensor.shape) for name, tensor in places}


def upstream_places(lm: KimiLM) -> Iterator[tuple[str, Tensor]]:
    """Where each tensor of a checkpoint goes: a parameter, or one expert's part of it."""
    for name, parameter in lm.named_parameters():
        if is_stacked(name):
            yield from ((to_upstream(name, j), part) for j, part in enumerate(parameter))
        else:
            yield to_upstream(name), parameter


def upstream_state(lm: KimiLM) -> dict[str, Tensor]:
    """The weights under K3's checkpoint names, experts apart: what `load_weights` reads."""
    return {name: tensor.detach().contiguous() for name, tensor in upstream_places(lm)}


def upstream_names(lm: KimiLM) -> Iterator[str]:
    return (name for name, _ in upstream_places(lm))
