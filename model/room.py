"""Where a model fits: the memory that is free, and the device and dtype that `auto` means."""

from pathlib import Path

import torch
from torch import nn

from model.init import FLOAT32

_MEMINFO = Path("/proc/meminfo")
_GROUP_LIMIT = Path("/sys/fs/cgroup/memory.max")


def bytes_in(model: nn.Module, dtype: torch.dtype) -> int:
    """What the parameters of a model take, of which some stay in float32 or wider."""
    narrow = dtype.itemsize
    return sum(
        parameter.numel() * (max(narrow, 4) if name.endswith(FLOAT32) else narrow)
        for name, parameter in model.named_parameters()
    )


def free_bytes(device: torch.device) -> int | None:
    """Memory that can be had on a device; None where it cannot be told."""
    if device.type == "cuda":
        return torch.cuda.mem_get_info(device)[0]
    if device.type != "cpu" or not _MEMINFO.is_file():
        return None
    lines = (line.split() for line in _MEMINFO.read_text().splitlines())
    kilobytes = {words[0]: int(words[1]) for words in lines}
    free = 1024 * (kilobytes["MemAvailable:"] + kilobytes["SwapFree:"])
    limit = _GROUP_LIMIT.read_text().strip() if _GROUP_LIMIT.is_file() else "max"
    return free if limit == "max" else min(free, int(limit))


def device_for(device: str) -> torch.device:
    if device == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        asked = torch.device(device)
    except RuntimeError as error:
        raise ValueError(f"device={device!r}: choose 'cpu', 'cuda' or 'meta'.") from error
    count = torch.cuda.device_count()
    if asked.type == "cuda" and (asked.index or 0) >= count:
        raise ValueError(f"device={device!r}: torch sees {count} CUDA devices here; use 'cpu'.")
    return asked


def dtype_for(model: nn.Module, dtype: str, device: torch.device) -> torch.dtype:
    """The dtype asked for, in which the model fits on the device.

    `auto` is bfloat16 on a GPU; elsewhere float32, or bfloat16 where only that fits.
    """
    auto = ("bfloat16",) if device.type == "cuda" else ("float32", "bfloat16")
    choices = [dtype_called(name) for name in (auto if dtype == "auto" else (dtype,))]
    free = free_bytes(device)
    for choice in choices:
        if free is None or bytes_in(model, choice) <= free:
            return choice
    name, needed = str(choices[-1]).removeprefix("torch."), bytes_in(model, choices[-1])
    raise ValueError(
        f"The weights take {needed:,} bytes in {name}, and {str(device)!r} has {free:,} free. "
        "Load the first layers alone, as layers=range(2), or use a larger machine."
    )


def dtype_called(name: str) -> torch.dtype:
    known = {"float64", "float32", "bfloat16", "float16"}
    if name not in known:
        raise ValueError(f"dtype={name!r}: choose one of {', '.join(sorted(known))}.")
    return getattr(torch, name)
