"""`python -m model peek SOURCE`: single tensors of a checkpoint, without the rest of its files."""

import argparse
import json
import sys
from typing import TYPE_CHECKING, Any

from model.command_options import add_bound, add_source, plain, span
from model.limits import LOOK_BYTES

if TYPE_CHECKING:
    from model.peek import TensorReport
    from model.peek_statistics import Statistics
    from model.source import Source

VIEWS = ("decay", "residual", "router")
BARS = " ▁▂▃▄▅▆▇█"
SHOWN = 8
"""Singular values that the table shows."""


def add_to(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    help_text = "single tensors of a checkpoint, read where they stand"
    part = commands.add_parser(
        "peek",
        help=help_text,
        description=help_text,
        epilog="Of a Hub id the index, the headers and just the bytes of these tensors are "
        "transferred, within --bound. Views: rates of decay by KDA layer and head; residual "
        "queries and their cosines; balance biases of the routers.",
    )
    part.set_defaults(command=peek)
    add_source(part)
    what = part.add_mutually_exclusive_group()
    what.add_argument(
        "--tensors", metavar="PATTERN", help="names as '*.layers.3.*.A_log'; * is any characters"
    )
    what.add_argument("--view", choices=VIEWS, help="a ready-made look")
    part.add_argument(
        "--list",
        action="store_true",
        help="names, types, shapes and bytes alone, of --tensors or else of all",
    )
    part.add_argument("--rows", type=span, metavar="A:B", help="of each tensor, these rows alone")
    add_bound(part, LOOK_BYTES)


def peek(asked: argparse.Namespace) -> int:
    from model.source import open_source

    _refuse_contradictions(asked)
    source = open_source(asked.source, revision=asked.revision)
    for notice in source.notices:
        print(notice, file=sys.stderr)
    if asked.list:
        about = _list(source, asked)
    else:
        about = _view(source, asked) if asked.view else _tensors(source, asked)
    about = {"source": source.name, "revision": source.revision, **about}
    about["transferred"] = source.transferred
    if asked.json:
        print(json.dumps(plain(about)))
    else:
        print(f"{source.transferred:,} bytes were transferred, lists and headers included.")
    return 0


def _refuse_contradictions(asked: argparse.Namespace) -> None:
    if not (asked.list or asked.tensors or asked.view):
        raise ValueError("peek needs --tensors PATTERN, --view NAME or --list: what to look at.")
    if asked.rows is not None and (asked.list or asked.view):
        raise ValueError("--rows is for --tensors: views and lists take whole tensors.")
    if asked.list and asked.view:
        raise ValueError("--list is for --tensors: a view has its own table.")


def _list(source: "Source", asked: argparse.Namespace) -> dict[str, Any]:
    source.files.allow(asked.bound)
    entries = source.called(source.fitting(asked.tensors or "*"))
    if not asked.json:
        for entry in entries:
            print(f"{entry.name:72} {entry.dtype:8} {_shape(entry.shape):20} {entry.nbytes:>16,}")
        print(f"{len(entries):,} tensors, {sum(entry.nbytes for entry in entries):,} bytes")
    kept = ("name", "dtype", "shape", "file")
    rows = [
        {key: getattr(entry, key) for key in kept} | {"bytes": entry.nbytes} for entry in entries
    ]
    return {"tensors": rows}


def _tensors(source: "Source", asked: argparse.Namespace) -> dict[str, Any]:
    from model.peek import plan, read

    planned = plan(source, asked.tensors, rows=asked.rows, bound=asked.bound)
    if not asked.json:
        print(
            f"{len(planned.pieces):,} tensors, {planned.nbytes:,} bytes to read; "
            f"{source.transferred:,} transferred for lists and headers."
        )
    reports = read(planned)
    if not asked.json:
        for report in reports:
            _print_report(report)
    return {"planned": planned.nbytes, "tensors": reports}


def _print_report(report: "TensorReport") -> None:
    rows = "" if report.rows is None else f", rows {report.rows[0]}:{report.rows[1]}"
    form = "" if report.form == "plain" else f" as {report.form}, values {_shape(report.shape)}"
    stored = f"{report.dtype} {_shape(report.stored_shape)}{form}{rows}"
    print(f"\n{report.name}\n  {stored}, {report.nbytes:,} bytes")
    _print_statistics("values", report.values)
    if report.scales is not None:
        _print_statistics("scales", report.scales)
    if report.codes:
        print(f"  codes  0 to {len(report.codes) - 1}  |{_bars(report.codes)}|")
    if report.few:
        print(f"  all    {', '.join(f'{value:g}' for value in report.few)}")
    if report.singular_values:
        first = ", ".join(f"{value:.4g}" for value in report.singular_values[:SHOWN])
        more = (
            f", … {report.singular_values[-1]:.4g}" if len(report.singular_values) > SHOWN else ""
        )
        print(f"  singular values ({len(report.singular_values)})  {first}{more}")


def _print_statistics(what: str, of: "Statistics") -> None:
    odd = f"NaN {of.nan:,}, +inf {of.plus_infinity:,}, -inf {of.minus_infinity:,}"
    print(f"  {what} {of.count:,}: zeros {of.zeros:,}, {odd}")
    if of.mean is None or of.minimum is None or of.maximum is None:
        return
    print(f"         mean {of.mean:.6g}, deviation {of.deviation:.6g}, rms {of.rms:.6g}")
    print(f"         {of.minimum:.6g} |{_bars(of.counts)}| {of.maximum:.6g}")


def _view(source: "Source", asked: argparse.Namespace) -> dict[str, Any]:
    from model.command_peek_views import viewed

    planned, about, table = viewed(source, asked.view, asked.bound)
    if not asked.json:
        print(f"{planned:,} bytes of tensors were read.")
        print("\n".join(table))
    return {"view": asked.view, "planned": planned, **about}


def _shape(shape: tuple[int, ...]) -> str:
    return f"[{', '.join(map(str, shape))}]"


def _bars(counts: tuple[int, ...]) -> str:
    """A count a character; what is there at all is seen."""
    most = max(counts, default=0) or 1
    return "".join(BARS[-(-8 * count // most)] for count in counts)
