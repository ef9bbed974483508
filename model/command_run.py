"""`python -m model run SOURCE`: feed a prompt, generate, and say what was recorded."""

import argparse
import json
from pathlib import Path
from typing import TYPE_CHECKING

from model.command_options import add_source, span

if TYPE_CHECKING:
    from model.kimi import KimiLM
    from model.trace import Trace

PROMPT = "Each channel of this memory forgets at a rate which is its own."
"""With the start token sixty-four tokens."""


def add_to(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    help_text = "feed a prompt, generate, and record every tap"
    part = commands.add_parser("run", help=help_text, description=help_text)
    part.set_defaults(command=run)
    add_run_options(part, new_tokens=16)


def add_run_options(part: argparse.ArgumentParser, new_tokens: int) -> None:
    add_source(part)
    part.add_argument("--prompt", default=PROMPT, help="text to feed")
    part.add_argument(
        "--new-tokens", type=int, default=new_tokens, metavar="N", help=f"default {new_tokens}"
    )
    part.add_argument(
        "--temperature", type=float, default=0.0, metavar="T", help="0 takes the likeliest token"
    )
    part.add_argument("--seed", type=int, default=0, help="of what is drawn above 0")
    part.add_argument(
        "--layers",
        type=span,
        metavar="0:B",
        help="load the layers before B alone, and no tensor of the others",
    )
    part.add_argument(
        "--kernels",
        choices=("auto", "torch", "triton"),
        default="auto",
        help="torch: the model's own text; triton: kernels in its place, on a GPU or, with "
        "TRITON_INTERPRET=1, slowly on a CPU; auto: triton on a GPU",
    )
    part.add_argument("--save", type=Path, metavar="PATH", help="store the run there")


def run(asked: argparse.Namespace) -> int:
    lm, trace = traced(asked)
    generated = trace.token_ids[trace.prompt_length :]
    text = None if lm.tokenizer is None else lm.tokenizer.decode(generated)
    about = {
        "run_id": trace.run_id,
        "source": trace.source,
        "weights": lm.weights_note,
        "kernels": lm.kernel_path,
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
    print(f"on {lm.kernel_path}")
    print(f"{trace.prompt_length} prompt tokens, {trace.new_tokens} new: {text!r}")
    print(f"cache: {trace.cache_values:,} values, {trace.cache_bytes:,} bytes")
    print(f"captured: {about['captured']['names']} names, {trace.bytes:,} bytes")
    for notice in trace.notices:
        print(notice)
    return 0


def traced(asked: argparse.Namespace) -> tuple["KimiLM", "Trace"]:
    """The model that was asked for, and its run."""
    # torch is not needed for the other commands
    from model.load import load
    from model.load_progress import shell_bar
    from model.trace import run as record
    from model.trace_file import refuse_target

    if asked.save is not None:
        # before a run that would be lost
        refuse_target(asked.save)
    lm = load(
        asked.source,
        layers=None if asked.layers is None else range(*asked.layers),
        kernels=asked.kernels,
        revision=asked.revision,
        progress=shell_bar(),
    )
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
