"""Every equation on one run as a table, and the list of those that the run cannot answer."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from annotations.node import Node, for_model
from annotations.outline import Entry, flat
from app.models import family_of
from app.panels.html import draw
from app.panels.tensor import sizes_of
from app.run_checks import CheckRow
from app.run_kinship import released_like
from app.run_proofs import Unanswered
from app.run_reading import source_words


@dataclass(frozen=True)
class Home:
    """The page that an equation belongs to."""

    title: str
    node: str
    at: str
    address: str
    is_first: bool
    """Whether no row before it shows the equation of the page; the reader draws it there."""


def order(rows: Iterable[CheckRow]) -> list[CheckRow]:
    """What fails comes first, then what is nearest to its tolerance."""
    return sorted(rows, key=lambda row: (row.passed, -share(row)))


def share(row: CheckRow) -> float:
    """Error over tolerance; what is no number is beyond all."""
    part = row.error / row.tolerance
    return part if part == part else float("inf")


def all_proofs(rows: Sequence[CheckRow], run: Any, nodes: Mapping[str, Node], model: str) -> None:
    homes = homes_of([(row.taps, row.at) for row in rows], nodes, model)
    home = dict(zip([row.name for row in rows], homes, strict=True))
    ordered = order(rows)
    times = [row.seconds for row in rows if row.seconds is not None]
    # another family computes some parts by other equations
    is_own = released_like(run.config) == family_of(model)
    draw(
        "section.html",
        title=_verdict(rows),
        register=source_words(run),
        run=run.run_id,
        run_word="stored run" if run.is_stored else "run",
        lead=_lead(ordered, times) + ("" if is_own else f" {OTHERS.format(run.source)}"),
        others=() if is_own else sizes_of(run),
    )
    draw(
        "all_proofs.html",
        rows=[{"row": row, "home": home[row.name], "where": where(row)} for row in ordered],
        timed=bool(times),
        drawn=is_own,
    )


OTHERS = "Equations are drawn where the pages are those of {}."


def _verdict(rows: Sequence[CheckRow]) -> str:
    failed = sum(not row.passed for row in rows)
    if not failed:
        return f"{len(rows)} equations, all hold"
    return f"{len(rows)} equations, {failed} {'does' if failed == 1 else 'do'} not hold"


def _lead(ordered: Sequence[CheckRow], times: Sequence[float]) -> str:
    first = ordered[0]
    said = "What fails comes first, then what is nearest to its tolerance"
    if first.passed:
        said += f": {first.title.lower()}, at {100 * share(first):.2g} % of it"
    took = (
        f"Replaying them took {sum(times):.1f} s."
        if times
        else "They were replayed when the run was stored, without their times."
    )
    error = "An error is the largest difference over the largest value that the equation gives."
    return f"{said}. {error} {took}"


def where(row: CheckRow) -> str:
    """The worst place in words."""
    inside = "" if row.layer is None else f"layer {row.layer}, "
    many = f", worst of {row.places:,}" if row.places > 1 else ""
    said = f"{inside or 'whole model, '}step {row.step}{many}"
    return f"{said}: {row.detail}" if row.detail else said


def left_unanswered(
    others: Sequence[Unanswered], run: Any, nodes: Mapping[str, Node], model: str
) -> None:
    """The equations without a row, each with its reason."""
    count = len(others)
    draw(
        "section.html",
        title="Not answered by this run",
        register=f"{count} {'equation' if count == 1 else 'equations'}",
        run=run.run_id,
        run_word="stored run" if run.is_stored else "run",
        lead="" if others else "There is none: the run holds what every equation needs.",
    )
    if others:
        homes = homes_of([(other.taps, "") for other in others], nodes, model)
        draw("unanswered.html", rows=list(zip(others, homes, strict=True)))


def homes_of(
    wanted: Sequence[tuple[tuple[str, ...], str]], nodes: Mapping[str, Node], model: str
) -> list[Home | None]:
    """The page of each (taps, path inside a layer) in the outline of `model`; None without one."""
    family = family_of(model)
    by_tap: dict[str, list[Entry]] = {}
    for entry in flat(family):
        if entry.node in nodes:
            for tap in nodes[entry.node].taps:
                by_tap.setdefault(tap, []).append(entry)
    shown: set[str] = set()
    return [_home(taps, at, by_tap, nodes, model, family, shown) for taps, at in wanted]


def _home(
    taps: tuple[str, ...],
    at: str,
    by_tap: Mapping[str, Sequence[Entry]],
    nodes: Mapping[str, Node],
    model: str,
    family: str,
    shown: set[str],
) -> Home | None:
    entries = [entry for tap in taps for entry in by_tap.get(tap, ())]
    if not entries:
        return None
    entry = next((entry for entry in entries if entry.instance == at), entries[0])
    node = for_model(nodes[entry.node], family)
    is_first = node.id not in shown and len(taps) == 1
    if is_first:
        shown.add(node.id)
    at_part = f"&at={entry.instance}" if entry.instance else ""
    return Home(
        title=node.title,
        node=entry.node,
        at=entry.instance,
        address=f"?model={model}&node={entry.node}{at_part}",
        is_first=is_first and bool(node.equation),
    )
