"""The public calls of the model from a shell: `python -m model COMMAND SOURCE`."""

import argparse
import sys
from collections.abc import Sequence

from model import (
    command_check,
    command_eval,
    command_info,
    command_peek,
    command_run,
    command_train,
)

COMMANDS = (command_info, command_run, command_check, command_peek, command_eval, command_train)


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
    parser = argparse.ArgumentParser(
        prog="python -m model",
        description=__doc__,
        epilog="`python -m model COMMAND --help` tells more of each.",
    )
    commands = parser.add_subparsers(required=True, metavar="info|run|check|peek|eval|train")
    for command in COMMANDS:
        command.add_to(commands)
    return parser


if __name__ == "__main__":
    sys.exit(main())
