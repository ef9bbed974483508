"""`python -m model check SOURCE`: compute every equation of a run again, and say how far it is."""

import argparse
import json
import math
from typing import TYPE_CHECKING, Any

from model.command_run import add_run_options, traced

if TYPE_CHECKING:
    from model.identities.registry import Result


def add_to(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    help_text = "re-compute every equation on a run"
    part = commands.add_parser(
        "check",
        help=help_text,
        description=help_text,
        epilog="Ends with 1 where an equation does not hold.",
    )
    part.set_defaults(command=check)
    add_run_options(part, new_tokens=2)


def check(asked: argparse.Namespace) -> int:
    from model.identities.registry import check as replay

    lm, trace = traced(asked)
    results = sorted(replay(trace, lm), key=lambda r: (r.passed, -r.error / r.tolerance))
    if asked.json:
        about = {"run_id": trace.run_id, "kernels": lm.kernel_path}
        print(json.dumps(about | {"identities": [_row(r) for r in results]}))
    else:
        print(f"on {lm.kernel_path}")
        _table(results)
    return 0 if all(result.passed for result in results) else 1


def _row(result: "Result") -> dict[str, Any]:
    return {
        "name": result.name,
        "title": result.title,
        # JSON has no NaN; null fails as NaN does
        "error": result.error if math.isfinite(result.error) else None,
        "tolerance": result.tolerance,
        "seconds": result.seconds,
        "passed": result.passed,
        "layer": result.worst_layer,
        "place": result.place,
        "step": result.step,
        "places": result.places,
        "detail": result.detail,
    }


def _table(results: list["Result"]) -> None:
    print(f"{'equation':22} {'worst error':>11} {'tolerance':>9}  holds  where it is worst")
    for r in results:
        where = f"{r.place or 'the model'}, step {r.step} (of {r.places}) {r.detail}"
        holds = "yes" if r.passed else "NO"
        print(f"{r.name:22} {r.error:11.2e} {r.tolerance:9.0e}  {holds:5}  {where}")
    failed = sum(not result.passed for result in results)
    seconds = sum(result.seconds for result in results)
    print(f"{len(results)} equations, {failed} of them broken, {seconds:.2f} s")
