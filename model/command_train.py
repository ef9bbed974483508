"""`python -m model train NAME --out FOLDER`: train a model of the small world from nothing."""

import argparse
from pathlib import Path


def add_to(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    help_text = "train k3-mini from nothing: one seed, one schedule"
    part = commands.add_parser(
        "train",
        help=help_text,
        description=help_text,
        epilog="The folder holds the state, from which a stopped training goes on, the log, its "
        "curves, and at the end a checkpoint that can be loaded.",
    )
    part.set_defaults(command=train)
    part.add_argument(
        "source", metavar="SOURCE", help="k3-mini, or a folder with another config.json"
    )
    part.add_argument("--out", type=Path, required=True, metavar="FOLDER", help="where it goes")
    part.add_argument("--seed", type=int, default=4, help="of weights and pages; default 4")
    part.add_argument(
        "--processes", type=int, choices=(1, 2), default=2, help="that share the work; default 2"
    )
    part.add_argument("--steps", type=int, metavar="N", help="stop after so many further steps")
    part.add_argument(
        "--resume", action="store_true", help="go on from the state in the folder, to the bit"
    )


def train(asked: argparse.Namespace) -> int:
    # torch is not needed to print help
    import torch

    from model.checkpoint import read_config
    from model.config import KimiConfig
    from model.presets import PRESETS, preset
    from model.training.curves import write_curves
    from model.training.loop import STATE, Training
    from model.training.recipe import K3_MINI
    from model.training.ship import write_checkpoint

    if asked.source in PRESETS:
        config = preset(asked.source)
    else:
        config = KimiConfig.from_hf(read_config(Path(asked.source)))
    begun = (asked.out / STATE).exists()
    if begun and not asked.resume:
        raise ValueError(
            f"{str(asked.out)!r} holds a training that was begun; add --resume to go on with it, "
            "or name another folder."
        )
    if asked.resume and not begun:
        raise ValueError(f"{str(asked.out)!r} holds no state to go on from; leave out --resume.")
    asked.out.mkdir(parents=True, exist_ok=True)
    # each process computes on one thread, so that sums are always in the same order
    torch.set_num_threads(1)
    training = Training(config, K3_MINI, asked.seed, asked.out, asked.processes)
    if asked.resume:
        training.resume()
    training.run(asked.steps, tell=lambda line: print(line, flush=True))
    write_curves(asked.out)
    write_checkpoint(training.lm, training.tokenizer, asked.out / "checkpoint")
    print(f"{training.step} of {K3_MINI.steps} steps; the checkpoint is in {asked.out}/checkpoint")
    return 0
