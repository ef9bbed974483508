"""Timing two sides in turn, so that a busy machine slows both alike."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from types import TracebackType
from typing import Any

from safetensors.torch import save_file
from torch import Tensor

from tests.parity.weights import PREFIX, draw_weights

HERE = Path(__file__).parent


def bench_config(name: str) -> dict[str, Any]:
    return json.loads((HERE / f"{name}.json").read_text())


def write_folder(folder: Path, config: dict[str, Any], weights: dict[str, Tensor]) -> None:
    """`config.json` and `model.safetensors`, without the prefix that only K3 carries."""
    plain = {name.removeprefix(PREFIX): tensor for name, tensor in weights.items()}
    (folder / "config.json").write_text(json.dumps(config))
    save_file(plain, folder / "model.safetensors", metadata={"format": "pt"})


def random_weights(config: dict[str, Any], seed: int = 0) -> dict[str, Tensor]:
    weights = draw_weights(config, seed)
    if config.get("attn_res_block_size") is None:
        # Kimi-Linear stores one value a head on four axes, unpadded
        heads = config["linear_attn_config"]["num_heads"]
        for name in weights:
            if name.endswith("A_log"):
                weights[name] = weights[name][:heads].reshape(1, 1, heads, 1)
    return weights


class Rival:
    """The other implementation in its own process; a call returns the seconds of one run."""

    def __init__(self, kind: str, folder: Path) -> None:
        command = [sys.executable, "-P", str(HERE / "rival.py"), kind, str(folder)]
        environment = {**os.environ, "HF_HUB_OFFLINE": "1", "TRANSFORMERS_VERBOSITY": "error"}
        environment.pop("PYTHONPATH", None)
        self.process = subprocess.Popen(
            command,
            cwd=folder,
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def __enter__(self) -> "Rival":
        self._answer()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.process.communicate()

    def __call__(self, request: str) -> float:
        assert self.process.stdin is not None
        self.process.stdin.write(request + "\n")
        self.process.stdin.flush()
        return float(self._answer())

    def _answer(self) -> str:
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        if not line:
            _, errors = self.process.communicate()
            raise RuntimeError(f"The other implementation ended without an answer:\n{errors}")
        return line


def seconds(run: Callable[[], object]) -> float:
    start = time.perf_counter()
    run()
    return time.perf_counter() - start


@dataclass(frozen=True)
class Pairs:
    """Medians of two sides that ran in turn, in seconds."""

    first: float
    second: float
    count: int

    @property
    def ratio(self) -> float:
        """How many times as long the second side takes."""
        return self.second / self.first


def alternate(first: Callable[[], float], second: Callable[[], float], count: int = 7) -> Pairs:
    """Run both sides `count` times in turn, after one run of each that is not counted."""
    first(), second()
    times = [(first(), second()) for _ in range(count)]
    return Pairs(median(a for a, _ in times), median(b for _, b in times), count)
