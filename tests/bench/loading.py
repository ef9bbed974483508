"""What loading a checkpoint of 2 GB takes: time beside the bare library, and memory at its peak.

python tests/bench/loading.py [PAIRS]
"""

import gc
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from statistics import median

sys.path.insert(0, str(Path(__file__).parents[2]))

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

from model.config import KimiConfig
from model.init import give_storage
from model.load import build, load, upstream_places, without_storage
from model.shards import INDEX
from tests.bench.measure import bench_config, seconds

TIME_BOUND, MEMORY_BOUND = 1.3, 1.15
SHARD = 256 * 2**20
"""Bytes after which the next shard begins."""
DTYPES = ("bfloat16", "float32")
STATUS = Path("/proc/self/status")


def write_checkpoint(folder: Path, dtype: str) -> dict[str, float]:
    """Random weights, in shards with an index; one shard is in memory at a time."""
    config = bench_config("loading")
    lm = build(config, dtype=dtype)
    where: dict[str, str] = {}
    for number, shard in enumerate(in_shards(upstream_places(lm)), start=1):
        file = f"model-{number:05}.safetensors"
        save_file(shard, folder / file)
        where |= dict.fromkeys(shard, file)
    (folder / INDEX).write_text(json.dumps({"weight_map": where}))
    (folder / "config.json").write_text(json.dumps(config))
    return {"shards": len(set(where.values()))}


def in_shards(places: Iterator[tuple[str, Tensor]]) -> Iterator[dict[str, Tensor]]:
    shard: dict[str, Tensor] = {}
    for name, tensor in places:
        shard[name] = tensor.detach().clone(memory_format=torch.contiguous_format)
        if sum(held.nbytes for held in shard.values()) >= SHARD:
            yield shard
            shard = {}
    yield shard


def peak_bytes() -> int:
    """The most memory that this process ever held at a time, files that it mapped among it."""
    lines = (line.split() for line in STATUS.read_text().splitlines())
    return next(1024 * int(words[1]) for words in lines if words[0] == "VmHWM:")


def peak(folder: Path, dtype: str) -> dict[str, float]:
    start = peak_bytes()
    lm = load(str(folder), device="cpu", dtype=dtype)
    weights = sum(parameter.nbytes for parameter in lm.parameters())
    return {"start": start, "peak": peak_bytes(), "weights": weights}


def ours(folder: Path, dtype: str) -> dict[str, float]:
    return taken(lambda: load(str(folder), device="cpu", dtype=dtype))


def taken(run: Callable[[], object]) -> dict[str, float]:
    """Seconds of a load, and those that a processor worked; without what importing left over."""
    gc.collect()
    start = time.process_time()
    passed = seconds(run)
    return {"seconds": passed, "work": time.process_time() - start}


def bare(folder: Path, dtype: str) -> dict[str, float]:
    """The library's own reading, shard by shard, and one copy of each tensor as it lies there."""
    kept: dict[str, Tensor] = {}

    def read() -> None:
        for file in sorted(folder.glob("*.safetensors")):
            for name, tensor in load_file(file).items():
                kept[name] = tensor.to(getattr(torch, dtype), copy=True)

    return taken(read)


def into(folder: Path, dtype: str) -> dict[str, float]:
    """The library's own reading, and copies to where the model has its parameters."""

    def read() -> None:
        lm = without_storage(KimiConfig.from_hf(json.loads((folder / "config.json").read_text())))
        give_storage(lm, "cpu", getattr(torch, dtype))
        places = dict(upstream_places(lm))
        for file in sorted(folder.glob("*.safetensors")):
            for name, tensor in load_file(file).items():
                places[name].copy_(tensor)

    return taken(read)


def apart(side: str, folder: Path, dtype: str) -> dict[str, float]:
    """One load in a process of its own, whose memory nobody used before."""
    command = [sys.executable, __file__, side, str(folder), dtype]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return json.loads(done.stdout)


def compare(folder: Path, dtype: str, count: int) -> None:
    for side, words in (("into", "library into the model"), ("bare", "library and a bare copy")):
        turns = [(apart(side, folder, dtype), apart("ours", folder, dtype)) for _ in range(count)]
        for unit in ("seconds", "work"):
            theirs, mine = (median(turn[i][unit] for turn in turns) for i in (0, 1))
            print(
                f"{dtype}: {words} {theirs:.2f} s, ours {mine:.2f} s of {unit}, "
                f"{mine / theirs:.2f}x (bound {TIME_BOUND}x), medians of {count} pairs",
                flush=True,
            )
    memory = apart("peak", folder, dtype)
    shard = max(file.stat().st_size for file in folder.glob("*.safetensors"))
    bound = MEMORY_BOUND * memory["weights"] + shard
    print(
        f"{dtype}: peak {memory['peak'] / 1e6:,.0f} MB, of which {memory['start'] / 1e6:,.0f} MB "
        f"before the load; weights {memory['weights'] / 1e6:,.0f} MB, one shard "
        f"{shard / 1e6:,.0f} MB; {memory['peak'] / bound:.2f} of the bound",
        flush=True,
    )


def main() -> None:
    if len(sys.argv) == 4:
        sides = {"ours": ours, "bare": bare, "into": into, "peak": peak, "write": write_checkpoint}
        side = sides[sys.argv[1]]
        print(json.dumps(side(Path(sys.argv[2]), sys.argv[3])))
        return
    with tempfile.TemporaryDirectory() as folder:
        apart("write", Path(folder), "bfloat16")
        files = list(Path(folder).glob("*.safetensors"))
        total = sum(file.stat().st_size for file in files)
        print(f"{total / 1e9:.2f} GB in {len(files)} shards, {torch.get_num_threads()} threads")
        for dtype in DTYPES:
            compare(Path(folder), dtype, int(sys.argv[1]) if len(sys.argv) > 1 else 7)


if __name__ == "__main__":
    main()
