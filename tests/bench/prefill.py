"""Prefill with every tap recorded, against mlx-lm (K3) and transformers (Kimi-Linear).

python tests/bench/prefill.py [LENGTH]
"""

import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))

from tests.bench import ours
from tests.bench.measure import Rival, alternate, bench_config, random_weights, write_folder

CASES = (("k3", "mlx", 8.0), ("kimi_linear", "transformers", 3.0))


def compare(name: str, kind: str, bound: float, length: int) -> None:
    config = bench_config(name)
    weights = random_weights(config)
    lm = ours.load_ours(config, weights)
    with tempfile.TemporaryDirectory() as folder:
        write_folder(Path(folder), config, weights)
        with Rival(kind, Path(folder)) as rival:
            pairs = alternate(
                ours.prefill(lm, length, record=True), lambda: rival(f"prefill {length}")
            )
    print(
        f"{name}: prefill of {length}, every tap recorded: ours {pairs.first * 1e3:.1f} ms, "
        f"{kind} {pairs.second * 1e3:.1f} ms: {pairs.ratio:.2f}x (bound {bound:g}x), "
        f"{pairs.count} pairs"
    )


if __name__ == "__main__":
    for case in CASES:
        compare(*case, length=int(sys.argv[1]) if len(sys.argv) > 1 else 256)
