"""Makes the stored example run: `python -m app.example`."""

import sys
from dataclasses import replace
from pathlib import Path

from app.run_checks import check_row, save_checks
from app.run_engine import EXAMPLE
from model.identities.registry import IDENTITIES, check
from model.load import load
from model.trace import run

SOURCE = "k3-mini"
PROMPT = "ab cd ef ab cd ef ab"
NEW_TOKENS = 6
KEPT = frozenset(
    (
        *("embedding", "logits", "residual_out", "mixed", "scores", "weights", "pattern"),
        *("k_cached", "v_cached", "k_shared", "kv_latent"),
        *("state", "beta", "written", "read", "chosen", "chosen_weight"),
    )
)
"""Attributes of the taps that the file holds; the model computes the others when asked."""


def main(folder: Path = EXAMPLE.parent) -> None:
    """Run the prompt, store what first pages show, and replay every equation at every place."""
    lm = load(SOURCE)
    whole = run(lm, PROMPT, NEW_TOKENS)
    rows = [
        check_row(result, IDENTITIES[result.name])
        for layer in (None, *range(lm.config.num_hidden_layers))
        for place in sorted({path for path, _ in lm.named_modules()})
        if (at := _inside(place, layer)) is not None
        for result in check(whole, lm, layer=layer, at=at)
    ]
    kept = [
        {name: tensor for name, tensor in step.items() if name.rpartition(".")[2] in KEPT}
        for step in whole.tensors
    ]
    folder.mkdir(exist_ok=True)
    replace(whole, tensors=tuple(kept), model=None).save(folder / EXAMPLE.name)
    save_checks(folder / "proof.json", whole.run_id, rows)
    size = (folder / EXAMPLE.name).stat().st_size
    sys.stdout.write(
        f"run {whole.run_id}, {len(whole.token_ids)} tokens, {size / 2**20:.1f} MiB, "
        f"{sum(row.passed for row in rows)} of {len(rows)} equations hold\n"
    )


def _inside(place: str, layer: int | None) -> str | None:
    """The path inside this layer, or inside the model for None."""
    parts = place.split(".", 2)
    if parts[0] != "layers":
        return place if layer is None else None
    if layer is None or len(parts) < 2 or parts[1] != str(layer):
        return None
    return parts[2] if len(parts) > 2 else ""


if __name__ == "__main__":
    main()
