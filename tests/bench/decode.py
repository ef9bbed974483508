"""Tokens per second in decode with every tap recorded, against mlx-lm and transformers.

python tests/bench/decode.py [STEPS]
"""

import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))

from tests.bench import ours
from tests.bench.measure import Rival, alternate, bench_config, random_weights, write_folder

PROMPT = 64
CASES = (("k3", "mlx", None), ("kimi_linear", "transformers", 2.5))


def compare(name: str, kind: str, bound: float | None, steps: int) -> None:
    config = bench_config(name)
    weights = random_weights(config)
    lm = ours.load_ours(config, weights)
    with tempfile.TemporaryDirectory() as folder:
        write_folder(Path(folder), config, weights)
        with Rival(kind, Path(folder)) as rival:
            pairs = alternate(
                ours.decode(lm, PROMPT, steps, record=True),
                lambda: rival(f"decode {PROMPT} {steps}"),
            )
    wanted = f" (bound {bound:g}x)" if bound else ""
    print(
        f"{name}: decode, every tap recorded: ours {steps / pairs.first:.0f} tokens/s, "
        f"{kind} {steps / pairs.second:.0f} tokens/s: {pairs.ratio:.2f}x{wanted}, "
        f"{pairs.count} pairs"
    )


if __name__ == "__main__":
    for case in CASES:
        compare(*case, steps=int(sys.argv[1]) if len(sys.argv) > 1 else 32)
