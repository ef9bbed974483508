"""What recording every tap costs, against the same call without a recording.

python tests/bench/recording.py [LENGTH]
"""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))

from tests.bench import ours
from tests.bench.measure import alternate, bench_config, random_weights

BOUND = 1.15


def compare(name: str, length: int) -> None:
    config = bench_config(name)
    lm = ours.load_ours(config, random_weights(config))
    prefill = alternate(
        ours.prefill(lm, length, record=False), ours.prefill(lm, length, record=True), count=11
    )
    decode = alternate(
        ours.decode(lm, 64, 16, record=False), ours.decode(lm, 64, 16, record=True), count=11
    )
    print(
        f"{name}: recording every tap: prefill of {length} {prefill.first * 1e3:.1f} -> "
        f"{prefill.second * 1e3:.1f} ms, {prefill.ratio:.3f}x (bound {BOUND:g}x); "
        f"decode {decode.ratio:.3f}x"
    )


if __name__ == "__main__":
    for name in ("k3", "kimi_linear"):
        compare(name, length=int(sys.argv[1]) if len(sys.argv) > 1 else 256)
