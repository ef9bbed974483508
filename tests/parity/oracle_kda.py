"""Runs FLA's plain KDA recurrence and its plain gates on tensors.

A script for a process of its own. Of FLA only the files that hold plain torch are used, each by
path: importing the package asks for a GPU driver.

    python -P oracle_kda.py PACKAGES FOLDER

PACKAGES is where `fla-core` and `einops` are installed, apart from everything else. FOLDER holds
`inputs.safetensors`, whose names are `CASE/TERM`, and gets an `oracle.safetensors`.
"""

import ast
import runpy
import sys
from collections import defaultdict
from contextlib import nullcontext
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

# by path: this process is not to find anything beside its script by name
widened = runpy.run_path(str(Path(__file__).with_name("wide_torch.py")))["widened"]


def module_at(path: Path) -> ModuleType:
    spec = spec_from_file_location(f"by_path_{path.stem}", path)
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def functions_at(path: Path, *names: str) -> ModuleType:
    """Some functions of a file whose other lines need Triton."""
    tree = ast.parse(path.read_text())
    tree.body = [x for x in tree.body if isinstance(x, ast.FunctionDef) and x.name in names]
    assert len(tree.body) == len(names), f"{path} holds not each of {names}."
    module = ModuleType(f"part_of_{path.stem}")
    module.torch, module.F = torch, torch.nn.functional
    exec(compile(tree, str(path), "exec"), vars(module))
    return module


def run_recurrence(naive: ModuleType, given: dict[str, Tensor]) -> dict[str, Tensor]:
    """`scale` is left to FLA, and its state is `[batch, head, key, value]`."""
    terms = [given[name] for name in ("q", "k", "v", "log_decay", "beta")]
    read, state = naive.naive_recurrent_kda(
        *terms, initial_state=given.get("state"), output_final_state=True
    )
    return {"read": read, "state": state}


def run_gates(gates: ModuleType, given: dict[str, Tensor]) -> dict[str, Tensor]:
    terms = (given["logit"], given["A_log"], given["dt_bias"])
    like = given["logit"].dtype
    return {
        "softplus": gates.naive_kda_gate(*terms, output_dtype=like),
        "bounded": gates.naive_kda_lowerbound_gate(*terms, lower_bound=-5.0, output_dtype=like),
        "weakly bounded": gates.naive_kda_lowerbound_gate(
            *terms, lower_bound=-1.5, output_dtype=like
        ),
    }


@torch.inference_mode()
def run(packages: Path, folder: Path) -> None:
    sys.path.append(str(packages))
    kda = packages / "fla" / "ops" / "kda"
    naive = module_at(kda / "naive.py")
    gates = functions_at(kda / "gate.py", "naive_kda_gate", "naive_kda_lowerbound_gate")
    cases: defaultdict[str, dict[str, Tensor]] = defaultdict(dict)
    for name, tensor in load_file(folder / "inputs.safetensors").items():
        case, term = name.split("/")
        cases[case][term] = tensor
    found = {}
    for case, given in cases.items():
        is_wide = any(tensor.dtype == torch.float64 for tensor in given.values())
        with widened(naive, gates) if is_wide else nullcontext():
            answer = run_gates(gates, given) if "logit" in given else run_recurrence(naive, given)
        found |= {f"{case}/{term}": tensor.contiguous() for term, tensor in answer.items()}
    save_file(found, folder / "oracle.safetensors")


if __name__ == "__main__":
    torch.set_num_threads(1)
    run(Path(sys.argv[1]), Path(sys.argv[2]))
