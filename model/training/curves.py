"""The log of a training as curves, on a page that needs nothing else."""

import json
from pathlib import Path
from typing import Any

import plotly.graph_objects as go
from plotly.subplots import make_subplots

from model.training.loop import LOG

PAGE = "curves.html"


def write_curves(folder: Path) -> Path:
    """Loss and accuracy against tokens read, one line a task."""
    lines = [json.loads(line) for line in (folder / LOG).read_text(encoding="utf-8").splitlines()]
    page = folder / PAGE
    figure(lines).write_html(page, include_plotlyjs=True)
    return page


def figure(lines: list[dict[str, Any]]) -> go.Figure:
    titles = ("loss of training batches", "held-out accuracy", "loss of training answers")
    made = make_subplots(rows=3, cols=1, shared_xaxes=True, subplot_titles=titles)
    tokens = [line["tokens"] for line in lines]
    made.add_scatter(x=tokens, y=[line["loss"] for line in lines], name="all", row=1, col=1)
    for row, part, value in ((2, "held_out", "accuracy"), (3, "training", "loss")):
        for task in sorted({task for line in lines for task in line.get(part, {})}):
            having = [line for line in lines if task in line.get(part, {})]
            made.add_scatter(
                x=[line["tokens"] for line in having],
                y=[line[part][task][value] for line in having],
                name=f"{task}, {part.replace('_', '-')}",
                row=row,
                col=1,
            )
    made.update_xaxes(title="tokens read", row=3, col=1)
    return made.update_layout(height=1100)
