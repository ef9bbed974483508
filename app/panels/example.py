"""A finished example for whoever comes first: what was said, expected, added up and proved."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import streamlit as st

from app.components.tensor_canvas.mount import tensor_canvas
from app.figures.surprise import Said, most_likely, surprises
from app.panels.html import draw
from app.panels.proof import proof_wish
from app.panels.reader_id import reader_id
from app.panels.waiting import granted
from app.run_checks import Asked, CheckRow
from app.run_reading import short_path, source_words
from app.runs import RunStore

FAMILIES = {
    "Kimi Delta Attention": ("state", ("KimiDeltaAttention", "ShortConvolution", "GatedRMSNorm")),
    "Gated MLA": ("key", ("KimiMLAAttention",)),
    "Attention residuals": ("residual", ("AttnResidual", "KimiDecoderLayer")),
    "Feed-forward, routing": ("routing", ("KimiMoEGate", "KimiSparseMoE", "KimiMLP")),
    "Norms and the whole model": ("ink", ("RMSNorm", "KimiLM")),
}
"""Titles with their stream and the classes whose equations they gather."""
WORDS_BEFORE = 24


def example_panel(store: RunStore) -> None:
    """The stored run as a whole; says what to do where there is none."""
    run = store.example()
    if run is None:
        draw(
            "section.html",
            title="A finished example",
            register="",
            run="",
            lead=store.example_fault or MISSING,
        )
        return
    how = "drawn" if run.temperature else "greedy"
    draw(
        "section.html",
        title="A finished example",
        register=f"{source_words(run)}, {how}, seed {run.seed}",
        run=run.run_id,
        run_word="stored run",
        lead="",
    )
    logits = np.concatenate([run.array("logits", step)[0] for step in range(run.steps)])
    left, right = st.columns(2, gap="large")
    with left:
        _says(run, logits)
        tensor_canvas(_sizes(run), key="example-sizes")
    with right:
        _next(run, logits)
        _replayed(store, run)


MISSING = "No run is stored here; `make example` makes one."


def _says(run: Any, logits: np.ndarray) -> None:
    values = surprises(logits, np.asarray(run.token_ids))
    tokens = [
        Said(_readable(token), None if i == 0 else values[i - 1], i >= run.prompt_length)
        for i, token in enumerate(run.tokens)
        if not token.special
    ]
    device = f"{run.device}, {short_path(run.kernel_path)}"
    vocab = run.config.vocab_size
    draw(
        "says.html",
        tokens=tokens,
        dtype=run.dtype,
        device=device,
        note=run.weights_note,
        vocab=vocab,
        even=math.log(vocab),
    )


def _readable(token: Any) -> str:
    """The text itself where it can be seen."""
    return token.text if token.text.isprintable() and token.text else token.display


def _next(run: Any, logits: np.ndarray) -> None:
    """What the model expects after the prompt."""
    from app.run_engine import tokenizer_of

    tokenizer = tokenizer_of(run.source)
    rows = [
        {"text": tokenizer.describe(i).display if tokenizer else f"⟨#{i}⟩", "chance": chance}
        for i, chance in most_likely(logits[run.prompt_length - 1])
    ]
    said = "".join(t.text for t in run.tokens[: run.prompt_length] if not t.special)
    after = said if len(said) <= WORDS_BEFORE else "… " + said[-WORDS_BEFORE:].lstrip()
    draw("next.html", rows=rows, after=after)


def _sizes(run: Any) -> dict[str, Any]:
    last = run.steps - 1
    names = [f"layers.{i}.residual_out" for i in range(run.config.num_hidden_layers)]
    values = [float(np.linalg.norm(run.array(name, last)[0, -1])) for name in names]
    block = run.config.attn_res_block_size
    return {
        "kind": "layers",
        "node": "overview",
        "layer": None,
        "token": None,
        "run": run.run_id,
        "title": "Size of the running sum after each layer, last token",
        "values": values,
        "mixers": list(run.config.mixers),
        "seals": list(range(0, len(values), block)) if block else [],
        "provenance": [
            {"kind": "derived", "taps": ["layers.*.residual_out"], "facts": [f"step {last}"]}
        ],
    }


def _replayed(store: RunStore, run: Any) -> None:
    wish = proof_wish(run, Asked(taps=()))
    checks: Sequence[CheckRow] | None = granted(
        wish, lambda: store.checked(run, Asked(taps=()), reader_id()), store, st.empty()
    )
    if checks is None:
        return
    rows = [
        _family(title, stream, [row for row in checks if row.owner in owners])
        for title, (stream, owners) in FAMILIES.items()
    ]
    draw(
        "replayed.html",
        rows=[row for row in rows if row],
        passed=sum(row.passed for row in checks),
        count=len(checks),
    )


def _family(title: str, stream: str, rows: Sequence[CheckRow]) -> dict[str, Any] | None:
    if not rows:
        return None
    return {
        "title": title,
        "stream": stream,
        "count": len(rows),
        "passed": sum(row.passed for row in rows),
        "error": max(row.error for row in rows),
        "share": max(row.error / row.tolerance for row in rows),
    }
