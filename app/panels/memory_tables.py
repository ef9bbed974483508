"""Tables of memory: counted beside predicted, released models at three lengths, weights, GPUs."""

from typing import Any

from annotations.node import MODELS
from app.fit import fit
from app.models import long_name_of
from app.panels.html import draw
from app.reader.numbers import show_bytes
from app.run_memory import Measurement
from app.run_reading import source_words
from model.cost import kept, weight_bytes, weight_bytes_by_dtype
from model.cost_kept import Kind
from model.presets import preset

LENGTHS = (4_096, 131_072, 1_048_576)
KINDS: dict[Kind, str] = {
    "expanded": "MLA, expanded keys and values",
    "latent": "MLA, latent and shared key",
    "kda": "KDA, state and convolution columns",
}
STORED = {
    "BF16": "bf16",
    "F32": "float32",
    "F8_E4M3": "fp8 (e4m3)",
    "U8": "MXFP4, with its scales",
}
"""What types of a checkpoint are called; K3 packs two 4-bit codes into a byte."""


def counted(found: Measurement, run: Any) -> None:
    wrong = sum(bool(row.difference) for row in found.rows)
    draw(
        "section.html",
        title="Counted on the running model",
        register=f"{source_words(run)}, {found.positions} positions",
        run=run.run_id,
        run_word="tokens of run",
        lead=(
            f"The tokens of this run were fed again, all but one as a prompt and the last one as a "
            f"step, and the tensors of the cache were counted. "
            f"{'Every count is the predicted one.' if not wrong else f'{wrong} differ.'} "
            f"{found.left_out}"
        ).strip(),
    )
    rows = [{"row": row, "title": KINDS[row.kind]} for row in found.rows]
    draw("memory_counted.html", rows=rows)


def released() -> None:
    draw(
        "section.html",
        title="What a context takes",
        register="released sizes, batch 1, bf16; recurrent states in float32",
        run="",
        lead="All layers of a kind together. A line opens its formula.",
    )
    rows = []
    for model in MODELS:
        config = preset(model)
        kinds: list[Kind] = ["latent", "expanded", *(["kda"] if "kda" in config.mixers else [])]
        limit = config.max_position_embeddings
        for kind in kinds:
            sizes = [kept(config, kind, positions=length) for length in LENGTHS]
            cells = [
                {
                    "size": show_bytes(k.total_bytes.value),
                    "bytes": k.total_bytes.value,
                    "beyond": length > limit,
                }
                for k, length in zip(sizes, LENGTHS, strict=True)
            ]
            rows.append(
                {
                    "model": long_name_of(model) if kind == kinds[0] else "",
                    "title": KINDS[kind],
                    "cells": cells,
                    "formulas": list(zip(LENGTHS, sizes, strict=True)),
                }
            )
    draw("memory_released.html", lengths=LENGTHS, rows=rows)


def weights() -> None:
    draw(
        "section.html",
        title="What weights take",
        register="released checkpoints, language model",
        run="",
        lead="Bytes of every tensor as it is stored, counted from the configuration.",
    )
    rows = [
        {
            "model": long_name_of(model),
            "parts": [
                {"dtype": STORED.get(dtype, dtype), "bytes": count, "size": show_bytes(count)}
                for dtype, count in sorted(
                    weight_bytes_by_dtype(preset(model)).items(), key=lambda part: -part[1]
                )
            ],
            "total": weight_bytes(preset(model)),
            "size": show_bytes(weight_bytes(preset(model))),
        }
        for model in MODELS
    ]
    draw("memory_weights.html", rows=rows)


def fits(memory: float) -> None:
    """The fewest GPUs for each released model, and the longest context there."""
    rows = []
    for model in MODELS:
        for form in ("latent", "expanded"):
            found = fit(preset(model), memory, form)
            rows.append(
                {
                    "model": long_name_of(model) if form == "latent" else "",
                    "title": KINDS[form],
                    "fit": found,
                    "room": show_bytes(found.room),
                }
            )
    draw("memory_fit.html", rows=rows, memory=f"{memory:g}")
