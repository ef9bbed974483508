"""`python -m model info SOURCE`: how large a model is, from its configuration and its headers."""

import argparse
import json
from collections import Counter
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from model.command_options import add_bound, add_source, flat, print_rows
from model.config import KimiConfig
from model.cost import FACTS, fact, parameters, weight_bytes_by_dtype
from model.limits import HEADER_BYTES
from model.presets import PRESETS, RELEASED, preset
from model.shipped import has_weights
from model.spelling import from_upstream

if TYPE_CHECKING:
    from model.header import Entry

CACHE_FACTS = (
    "kv_values_per_position",
    "kv_bytes_per_position",
    "kv_values_per_position_all_layers",
    "kv_bytes_per_position_all_layers",
    "latent_values_per_position",
    "latent_bytes_per_position",
    "latent_values_per_position_all_layers",
    "latent_bytes_per_position_all_layers",
    "kda_state_values",
    "kda_state_bytes",
    "kda_state_values_all_layers",
    "kda_state_bytes_all_layers",
    "kv_exceeds_kda_from",
    "latent_exceeds_kda_from",
)
"""Facts of `cost.py` that are quoted; a model without KDA layers has fewer."""

TEXT = ("embed_tokens", "layers", "norm", "output_attn_res", "lm_head")
"""First words of the tensors of a text model, in the house spelling."""


def add_to(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    help_text = "sizes of a model, from its configuration and its files' headers alone"
    part = commands.add_parser(
        "info",
        help=help_text,
        description=help_text,
        epilog="Of a Hub id only config.json and the headers of the weight files are transferred.",
    )
    part.set_defaults(command=info)
    add_source(part)
    add_bound(part, HEADER_BYTES)


def info(asked: argparse.Namespace) -> int:
    about = described(asked.source, asked.revision, asked.bound)
    if asked.json:
        print(json.dumps(about))
    else:
        print_rows(flat(about))
    return 0


def described(source: str, revision: str | None, bound: int) -> dict[str, Any]:
    if source in PRESETS and not has_weights(source):
        if revision is not None:
            raise ValueError(f"{source!r} comes with the program and has no revision {revision!r}.")
        config = preset(source)
        stored = _layout(config) if source in RELEASED else None
        return {"source": source, **_sizes(config), "stored": stored}
    # huggingface_hub is not needed for a preset
    from model.source import open_source

    opened = open_source(source, revision=revision)
    opened.files.allow(bound)
    sizes = _sizes(KimiConfig.from_hf(opened.config))
    stored = _stored(opened.entries.values())
    return {
        "source": source,
        "revision": opened.revision,
        **sizes,
        "stored": stored,
        "transferred": opened.transferred,
        "notices": list(opened.notices),
    }


def _sizes(config: KimiConfig) -> dict[str, Any]:
    counted = parameters(config)
    return {
        "parameters": {"total": counted.total, "active": counted.active},
        "tensors": counted.tensors,
        "layers": config.num_hidden_layers,
        "mixers": {kind: config.mixers.count(kind) for kind in ("kda", "mla")},
        "feed_forwards": {kind: config.feed_forwards.count(kind) for kind in ("dense", "moe")},
        "max_positions": config.max_position_embeddings,
        "cache": _cache_facts(config),
        "unknown_keys": list(config.unknown),
    }


def _layout(config: KimiConfig) -> dict[str, Any]:
    sizes = weight_bytes_by_dtype(config)
    return {
        "from": "the layout of the released text model",
        "bytes": {"total": sum(sizes.values()), **sizes},
    }


def _stored(entries: "Iterable[Entry]") -> dict[str, Any]:
    """What the headers say; tensors that belong to no text model are counted apart."""
    entries = list(entries)
    sizes: Counter[str] = Counter()
    beside: Counter[str] = Counter()
    for entry in entries:
        sizes[entry.dtype] += entry.nbytes
        if (part := from_upstream(entry.name).partition(".")[0]) not in TEXT:
            beside[part] += 1
    return {
        "from": "the headers of the files",
        "tensors": len(entries),
        "tensors_beside_text": dict(sorted(beside.items())),
        "bytes": {"total": sizes.total(), **dict(sorted(sizes.items()))},
    }


def _cache_facts(config: KimiConfig) -> dict[str, int]:
    found = {}
    for name in CACHE_FACTS:
        try:
            found[name] = int(fact(name, config).value)
        except LookupError:
            # the fact compares with a kind of layer that this model lacks
            assert name in FACTS
    return found
