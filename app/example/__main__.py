"""Makes the stored example run: `python -m app.example`."""

import sys
from dataclasses import replace
from pathlib import Path

from app.run_checks import CheckRow, check_row, save_checks
from app.run_engine import EXAMPLE
from app.run_request import EXAMPLE_PROMPT, EXAMPLE_SOURCE
from model.identities.registry import IDENTITIES, check
from model.kimi import KimiLM
from model.load import load
from model.trace import Trace, run

NEW_TOKENS = 6
LEFT_OUT = frozenset(
    (
        *("sources", "keys", "bank", "raw", "normed", "out", "decayed_state"),
        *("gate", "up", "activated", "expert_hidden", "expert_out"),
    )
)
"""Attributes of the largest taps; the file does without, and the model computes them when asked."""


def main(folder: Path = EXAMPLE.parent) -> None:
    """Run the prompt, store what first pages show, and replay every equation at every place."""
    lm = load(EXAMPLE_SOURCE)
    # once before, so that the seconds told are not those of a cold start
    run(lm, EXAMPLE_PROMPT, NEW_TOKENS, keep=[])
    whole = run(lm, EXAMPLE_PROMPT, NEW_TOKENS)
    rows = replayed(whole, lm)
    kept = [
        {name: tensor for name, tensor in step.items() if name.rpartition(".")[2] not in LEFT_OUT}
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


def replayed(whole: Trace, lm: KimiLM) -> list[CheckRow]:
    """Every equation at every place of every layer."""
    rows = []
    for path, module in lm.named_modules():
        owner = type(module).__name__
        names = [name for name, item in IDENTITIES.items() if item.owner == owner]
        if names:
            layer, at = _place(path)
            results = check(whole, lm, layer=layer, names=names, at=at)
            rows += [check_row(result, IDENTITIES[result.name]) for result in results]
    return rows


def _place(path: str) -> tuple[int | None, str | None]:
    """Layer and path inside it; the layer itself has no path."""
    parts = path.split(".", 2)
    if parts[0] != "layers":
        return None, path
    return int(parts[1]), parts[2] if len(parts) > 2 else None


if __name__ == "__main__":
    main()
