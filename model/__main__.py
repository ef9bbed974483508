"""The public calls of the model from a shell: `python -m model info|run|check SOURCE`."""

import argparse
import json
import math
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from model.checkpoint import checkpoint_folder, read_config
from model.config import KimiConfig
from model.cost import FACTS, fact, parameters
from model.presets import PRESETS, preset

if TYPE_CHECKING:
    from model.identities.registry import Result
    from model.kimi import KimiLM
    from model.trace import Trace

PROMPT = "Each channel of this memory forgets at a rate which is its own."
"""With the start token sixty-four tokens."""

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
"""Facts of `cost.py` that `info` quotes; a model without KDA layers has fewer."""


def main(arguments: Sequence[str] | None = None) -> int:
    """0 when all went well, 1 when an equation does not hold, 2 when the request cannot be met."""
    asked = _parser().parse_args(arguments)
    try:
        return asked.command(asked)
    except (ValueError, LookupError, OSError) as error:
        # str() of a KeyError would be a repr
        print(error.args[0] if isinstance(error, LookupError) else error, file=sys.stderr)
        return 2


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m model", description=__doc__)
    commands = parser.add_subparsers(required=True, metavar="info|run|check")
    source = f"{', '.join(PRESETS)}, a folder with config.json, or a Hub id org/name"
    for name, command, help_text in (
        ("info", info, "sizes of a model, from its configuration alone"),
        ("run", run, "feed a prompt, generate, and record every tap"),
        ("check", check, "re-compute every equation on a run"),
    ):
        part = commands.add_parser(name, help=help_text, description=help_text)
        part.set_defaults(command=command)
        part.add_argument("source", metavar="SOURCE", help=source)
        part.add_argument("--json", action="store_true", help="one JSON object instead of a table")
        if name == "info":
            continue
        part.add_argument("--prompt", default=PROMPT, help="text to feed")
        part.add_argument(
            "--new-tokens", type=int, default=2 if name == "check" else 16, metavar="N"
        )
        part.add_argument("--temperature", type=float, default=0.0)
        part.add_argument("--seed", type=int, default=0)
        part.add_argument("--save", type=Path, metavar="PATH", help="store the run there")
    return parser


def config_of(source: str) -> KimiConfig:
    """The configuration behind a source, without its weights and without torch."""
    if source in PRESETS:
        return preset(source)
    return KimiConfig.from_hf(read_config(checkpoint_folder(source, ["config.json"])))


def info(asked: argparse.Namespace) -> int:
    config = config_of(asked.source)
    counted = parameters(config)
    about = {
        "source": asked.source,
        "parameters": {"total": counted.total, "active": counted.active},
        "tensors": counted.tensors,
        "layers": config.num_hidden_layers,
        "mixers": {kind: config.mixers.count(kind) for kind in ("kda", "mla")},
        "feed_forwards": {kind: config.feed_forwards.count(kind) for kind in ("dense", "moe")},
        "max_positions": config.max_position_embeddings,
        "cache": _cache_facts(config),
        "unknown_keys": list(config.unknown),
    }
    if asked.json:
        print(json.dumps(about))
        return 0
    for key, value in _flat(about):
        print(f"{key:46} {value:>24,}" if isinstance(value, int) else f"{key:46} {value:>24}")
    return 0


def _cache_facts(config: KimiConfig) -> dict[str, int]:
    found = {}
    for name in CACHE_FACTS:
        try:
            found[name] = int(fact(name, config).value)
        except LookupError:
            # the fact compares with a kind of layer that this model lacks
            assert name in FACTS
    return found


def _flat(table: dict[str, Any], prefix: str = "") -> list[tuple[str, int | str]]:
    rows = []
    for key, value in table.items():
        if isinstance(value, dict):
            rows += _flat(value, f"{prefix}{key}.")
        elif value != []:
            rows.append((prefix + key, ", ".join(value) if isinstance(value, list) else value))
    return rows


def run(asked: argparse.Namespace) -> int:
    lm, trace = _traced(asked)
    generated = trace.token_ids[trace.prompt_length :]
    text = None if lm.tokenizer is None else lm.tokenizer.decode(generated)
    about = {
        "run_id": trace.run_id,
        "source": trace.source,
        "weights": lm.weights_note,
        "token_ids": list(trace.token_ids),
        "tokens": [token.display for token in trace.tokens],
        "prompt_length": trace.prompt_length,
        "generated": text,
        "seconds": trace.seconds,
        "cache": {
            "positions": trace.cache_by_step[-1].positions,
            "values": trace.cache_values,
            "bytes": trace.cache_bytes,
        },
        "captured": {"names": len(trace.names()), "bytes": trace.bytes},
        "notices": list(trace.notices),
    }
    if asked.json:
        print(json.dumps(about))
        return 0
    note = f" ({about['weights']})" if about["weights"] else ""
    print(f"run {trace.run_id} of {trace.source}{note}, {trace.seconds:.2f} s")
    print(f"{trace.prompt_length} prompt tokens, {trace.new_tokens} new: {text!r}")
    print(f"cache: {trace.cache_values:,} values, {trace.cache_bytes:,} bytes")
    print(f"captured: {about['captured']['names']} names, {trace.bytes:,} bytes")
    for notice in trace.notices:
        print(notice)
    return 0


def check(asked: argparse.Namespace) -> int:
    from model.identities.registry import check as replay

    lm, trace = _traced(asked)
    results = sorted(replay(trace, lm), key=lambda r: (r.passed, -r.error / r.tolerance))
    if asked.json:
        print(json.dumps({"run_id": trace.run_id, "identities": [_row(r) for r in results]}))
    else:
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
    print(f"{len(results)} equations, {failed} of them broken, {_seconds(results):.2f} s")


def _seconds(results: list["Result"]) -> float:
    return sum(result.seconds for result in results)


def _traced(asked: argparse.Namespace) -> tuple["KimiLM", "Trace"]:
    # torch is not needed for `info`
    from model.load import load
    from model.trace import run as record
    from model.trace_file import refuse_target

    if asked.save is not None:
        # before a run that would be lost
        refuse_target(asked.save)
    lm = load(asked.source)
    trace = record(
        lm,
        asked.prompt,
        asked.new_tokens,
        temperature=asked.temperature,
        seed=asked.seed,
    )
    if asked.save is not None:
        trace.save(asked.save)
    return lm, trace


if __name__ == "__main__":
    sys.exit(main())
