"""What a compiled kernel uses of a GPU, read from its machine code by tools of Triton's wheel."""

import re
import subprocess
import tempfile
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from triton import knobs
from triton.compiler import CompiledKernel

NVIDIA = {
    "matrix products, warp": r"[HIQD]MMA",
    "matrix products, warpgroup": r"[HIQ]GMMA|UTC\w*MMA",
    "multiply-adds": r"F(FMA|MUL|ADD)2?",
    "exponentials, roots": "MUFU",
    "loads": "LDG",
    "copies into shared memory": r"LDGSTS|UBLKCP|UTMALDG",
    "stores": "STG",
    "shared reads": r"LDS|LDSM",
    "shared writes": r"STS|STSM",
    "shuffles": "SHFL",
    "barriers": "BAR",
    "atomics": r"ATOMG?|RED",
}
AMD = {
    "matrix products, warp": r"v_s?mfmac?_\w+",
    "multiply-adds": r"v_(pk_)?(fma|fmac|mul|add|sub)_(f32|legacy_f32)\w*",
    "exponentials, roots": r"v_(exp|log|rsq|rcp|sqrt)_f32\w*",
    "loads": r"(global|buffer|flat)_load_\w+",
    "stores": r"(global|buffer|flat)_store_\w+",
    "shared reads": r"ds_read\w*",
    "shared writes": r"ds_write\w*",
    "shuffles": r"ds_b?permute_\w+|v_permlane\w+",
    "barriers": "s_barrier",
    "atomics": r"(global|buffer|flat)_atomic_\w+",
}
WIDTHS = {"64": 8, "128": 16}
"""Bytes of a thread that an instruction on local memory moves; others move four."""


@dataclass(frozen=True)
class Usage:
    registers: int
    """Of a thread; on AMD, vector registers of a lane, those for matrix results included."""
    spilled: int
    """Bytes of a thread that did not fit into registers and are stored in memory instead."""
    shared: int
    """Bytes of a program."""
    instructions: dict[str, int]
    """How often each kind stands in the code, and `all`; loops count once."""


def usage(compiled: CompiledKernel) -> Usage:
    if "cubin" in compiled.asm:
        return _nvidia(compiled)
    return _amd(compiled)


def _nvidia(compiled: CompiledKernel) -> Usage:
    with tempfile.TemporaryDirectory() as folder:
        binary = Path(folder) / "kernel.cubin"
        binary.write_bytes(compiled.asm["cubin"])
        used = _output(knobs.nvidia.cuobjdump.path, "-res-usage", binary)
        code = _output(knobs.nvidia.nvdisasm.path, "-c", binary)
    lines = re.findall(r"^\s*/\*[0-9a-f]+\*/\s+(?:@!?U?P\w+\s+)?(\S+)", code, re.MULTILINE)
    names = [line.rstrip(";") for line in lines]
    spilled = sum(_local_bytes(name) for name in names if name.split(".")[0] == "STL")
    registers = re.search(r"REG:(\d+)", used)
    assert registers is not None, used
    return Usage(
        int(registers[1]),
        spilled,
        compiled.metadata.shared,
        _counted(NVIDIA, [name.split(".")[0] for name in names]),
    )


def _local_bytes(name: str) -> int:
    return next((WIDTHS[part] for part in name.split(".") if part in WIDTHS), 4)


def _amd(compiled: CompiledKernel) -> Usage:
    code = compiled.asm["amdgcn"]

    def stated(what: str) -> int:
        return sum(int(n) for n in re.findall(rf"^\s*-?\s*\.{what}:\s*(\d+)", code, re.MULTILINE))

    names = re.findall(r"^\t([a-z]\w+)", code, re.MULTILINE)
    return Usage(
        stated("vgpr_count"),
        4 * stated("vgpr_spill_count"),
        compiled.metadata.shared,
        _counted(AMD, names),
    )


def _counted(kinds: dict[str, str], names: list[str]) -> dict[str, int]:
    every = Counter(names)
    counts = {
        kind: sum(n for name, n in every.items() if re.fullmatch(pattern, name))
        for kind, pattern in kinds.items()
    }
    return {"all": len(names)} | {kind: n for kind, n in counts.items() if n}


def _output(*command: str | Path) -> str:
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout
