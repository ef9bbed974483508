"""One kernel on given arguments, in a process of its own: Triton decides at import how it runs.

Reads an archive of arrays from standard input and writes one JSON object to standard output.
"""

import io
import json
import os
import sys
import time
from collections.abc import Mapping
from importlib.metadata import version
from typing import Any

import numpy as np
import torch

PRIORITY = 10
"""Below the server that started this."""
INTERPRETER = "interpreter"


def main() -> None:
    os.nice(PRIORITY)
    torch.set_num_threads(1)
    on_gpu = torch.cuda.is_available()
    if on_gpu:
        os.environ.pop("TRITON_INTERPRET", None)
    else:
        os.environ["TRITON_INTERPRET"] = "1"
    with np.load(io.BytesIO(sys.stdin.buffer.read())) as archive:
        arrays = {name: archive[name] for name in archive.files}
    asked = json.loads(str(arrays.pop("asked")))
    sys.stdout.write(json.dumps(compared(asked, arrays, on_gpu)))


def compared(asked: Mapping[str, Any], arrays: Mapping[str, Any], on_gpu: bool) -> dict[str, Any]:
    """The kernel beside its equation: a row a result, and what the kernel took."""
    from app.run_kernel_reference import by_equation, by_kernel

    # the interpreter multiplies bits of bfloat16 as if they were whole numbers
    dtype = getattr(torch, asked["dtype"]) if on_gpu else torch.float32
    device = torch.device("cuda" if on_gpu else "cpu")
    wide_state = ("A_log", "dt_bias", "logits", "bias", "cosine", "sine")
    given = {
        name: _tensor(name, array, dtype, device, name in wide_state)
        for name, array in arrays.items()
    }
    options = asked["options"]
    if "state" in given and asked["kernel"].startswith("kda"):
        given["state"] = given["state"].float()
    started = time.perf_counter()
    ours = by_kernel(asked["kernel"], given | options)
    if on_gpu:
        torch.cuda.synchronize()
    seconds = time.perf_counter() - started
    exact = {name: _wide(x) for name, x in given.items()}
    right = by_equation(asked["kernel"], exact | options)
    return {
        "device": torch.cuda.get_device_name() if on_gpu else INTERPRETER,
        "triton": version("triton"),
        "dtype": str(dtype).removeprefix("torch."),
        "seconds": seconds,
        "rows": [
            {"name": name, "shape": [*x.shape], "error": error_of(x, right[name])}
            for name, x in ours.items()
        ],
    }


def _tensor(
    name: str, array: Any, dtype: torch.dtype, device: torch.device, is_wide: bool
) -> torch.Tensor:
    x = torch.from_numpy(np.ascontiguousarray(array)).to(device)
    if not x.is_floating_point():
        return x
    return x.to(torch.float32 if is_wide else dtype)


def _wide(x: torch.Tensor) -> torch.Tensor:
    """The very values that the kernel was given, so that only its own rounding is compared."""
    return x.cpu().double() if x.is_floating_point() else x.cpu()


def error_of(ours: torch.Tensor, right: torch.Tensor) -> float:
    """max|a − b| / max|b|, as proofs have it."""
    from model.identities.identity import relative_error

    return relative_error(ours.detach().cpu().double().numpy(), right.numpy())


if __name__ == "__main__":
    main()
