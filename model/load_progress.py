"""How far a load has come, on the shell."""

import sys

from tqdm import tqdm

from model.load_fill import Progress


def shell_bar() -> Progress | None:
    """A bar of bytes read, on standard error; None where nobody sits before it."""
    if not sys.stderr.isatty():
        return None
    bars: list[tqdm] = []

    def show(done: int, total: int) -> None:
        # drawn when the first weights have come, so that a refusal stands alone
        if not bars:
            bars.append(tqdm(total=total, unit="B", unit_scale=True, desc="weights"))
        bars[0].update(done - bars[0].n)
        if done >= total:
            bars[0].close()

    return show
