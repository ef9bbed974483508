"""The model card: one text, with every figure put in from what was measured."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

TEMPLATE = Path(__file__).with_name("card.md")
FEW = 10
"""Answers below which a share would say nothing."""


def card(found: dict[str, Any]) -> str:
    """Markdown. `found` is what `model/training/release.py` measured."""
    reports, training = found["evaluation"], found["training"]
    loads = [load for report in reports for load in report["expert_load"].values()]
    bits = [report["bits_per_byte"] for report in reports]
    return TEMPLATE.read_text(encoding="utf-8").format(
        parameters=f"{found['parameters']:,}",
        entries=f"{found['entries']:,}",
        tokens=f"{training['tokens']:,}",
        steps=f"{training['steps']:,}",
        minutes=f"{training['processor_seconds'] / 60:.0f}",
        peak=f"{training['peak_rate']:g}",
        read=f"{reports[0]['tokens']:,}",
        seeds=", ".join(str(report["seed"]) for report in reports),
        accuracy=accuracy_table(reports),
        bits=f"{min(bits):.3f} to {max(bits):.3f}",
        least_load=f"{min(map(min, loads)):.2f}",
        most_load=f"{max(map(max, loads)):.2f}",
        mechanisms=mechanism_table(reports),
        greedy=quoted(found["greedy"]),
        drawn=quoted(found["drawn"]),
    )


def accuracy_table(reports: Sequence[dict[str, Any]]) -> str:
    """A row a task, a column a seed, and how many answers there were in all."""
    seeds = [f"seed {report['seed']}" for report in reports]
    lines = [
        f"| task | {' | '.join(seeds)} | answers |",
        "|---" * (len(seeds) + 2) + "|",
    ]
    for task in sorted({task for report in reports for task in report["asked"]}):
        asked = [report["asked"].get(task, 0) for report in reports]
        shares = [
            f"{report['accuracy'][task]:.3f}" if number >= FEW else "too few"
            for report, number in zip(reports, asked, strict=True)
        ]
        lines.append(f"| {task} | {' | '.join(shares)} | {sum(asked):,} |")
    return "\n".join(lines)


def mechanism_table(reports: Sequence[dict[str, Any]]) -> str:
    """A row a part, with the share of look-ups lost without it, least and most over the seeds."""
    lines = ["| without | kind | look-ups lost |", "|---|---|---|"]
    for part, first in reports[0]["mechanisms"].items():
        lost = [report["mechanisms"][part]["lost"] for report in reports]
        lines.append(f"| `{part}` | {first['kind']} | {min(lost):.2f} to {max(lost):.2f} |")
    return "\n".join(lines)


def quoted(texts: Sequence[str]) -> str:
    return "\n".join("> " + text.replace("\n", "\n> ") + "\n" for text in texts)
