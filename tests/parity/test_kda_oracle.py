"""The delta rule and its gates alone against FLA's plain ones, keys and values of unlike widths."""

import subprocess
import sys
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

from model.config import LinearAttnConfig
from model.init import give_storage
from model.kda import KimiDeltaAttention, delta_rule, unit_length
from model.kda_chunk import ChunkResult, chunked_delta_rule
from model.presets import tiny_k3

pytestmark = pytest.mark.oracle

ORACLE = Path(__file__).with_name("oracle_kda.py")
PACKAGES = Path(sys.prefix) / "oracles"

BOUNDS = {torch.float32: 1e-5, torch.float64: 1e-9}
"""Of the error's root mean square, relative to that of the oracle's values."""

LENGTHS = (1, 2, 15, 16, 17, 63, 64, 65, 130)
FORMS = {"row by row": delta_rule, "in chunks": chunked_delta_rule}
WIDTHS = {"24 keys, 40 values": (24, 40), "100 keys, 60 values": (100, 60)}


@dataclass(frozen=True)
class Case:
    pos: int
    gate: str
    has_state: bool
    widths: str

    def __str__(self) -> str:
        state = "a state" if self.has_state else "nothing"
        return f"{self.pos} positions from {state}, {self.gate} gate, {self.widths}"


CASES = [
    Case(pos, gate, has_state, widths)
    for pos in LENGTHS
    for gate in ("softplus", "bounded")
    for has_state in (False, True)
    for widths in WIDTHS
] + [
    Case(65, gate, True, widths)
    for gate in ("weakly bounded", "at its floor", "never forgetting", "one key again and again")
    for widths in WIDTHS
]
CASES.append(Case(600, "bounded", True, "24 keys, 40 values"))

GATE_INPUTS = "gates"
Tensors = dict[str, Tensor]


def gate(kind: str, logit: Tensor, rate: Tensor) -> Tensor:
    """Log-decays from `[batch, pos, head, key]`, whose logarithmic rates are `[head, 1]`."""
    return {
        "softplus": lambda: -rate.exp() * torch.nn.functional.softplus(logit),
        "bounded": lambda: -5 * torch.sigmoid(rate.exp() * logit),
        "weakly bounded": lambda: -1.5 * torch.sigmoid(rate.exp() * logit),
        "at its floor": lambda: torch.full_like(logit, -5.0),
        "never forgetting": lambda: torch.zeros_like(logit),
        "one key again and again": lambda: -0.1 * torch.sigmoid(logit),
    }[kind]()


def drawn(case: Case, seed: int, batch: int = 2, heads: int = 3) -> Tensors:
    """Terms of the recurrence in float64, queries of unit length and not yet scaled."""
    generator = torch.Generator().manual_seed(seed)

    def normal(*shape: int) -> Tensor:
        return torch.randn(shape, generator=generator, dtype=torch.float64)

    keys, values = WIDTHS[case.widths]
    k = unit_length(normal(batch, case.pos, heads, keys))
    if case.gate == "one key again and again":
        k = k[:, :1].expand_as(k).contiguous()
    terms = {
        "q": unit_length(normal(batch, case.pos, heads, keys)),
        "k": k,
        "v": normal(batch, case.pos, heads, values),
        "log_decay": gate(case.gate, normal(batch, case.pos, heads, keys), normal(heads, 1)),
        "beta": normal(batch, case.pos, heads).sigmoid(),
    }
    if case.has_state:
        terms["state"] = normal(batch, heads, keys, values)
    return terms


def drawn_for_gates() -> Tensors:
    generator = torch.Generator().manual_seed(0)

    def normal(*shape: int) -> Tensor:
        return torch.randn(shape, generator=generator, dtype=torch.float64)

    return {"logit": 4 * normal(2, 17, 3, 8), "A_log": normal(3), "dt_bias": normal(24)}


@dataclass(frozen=True)
class Answers:
    inputs: dict[tuple[str, torch.dtype], Tensors]
    found: dict[tuple[str, torch.dtype], Tensors]


@pytest.fixture(scope="module")
def fla(tmp_path_factory: pytest.TempPathFactory) -> Answers:
    """Every case in both precisions, by one process that cannot see our packages."""
    if not PACKAGES.is_dir():
        pytest.fail(f"{PACKAGES} is missing: `make test` installs requirements-oracles.txt there.")
    folder = tmp_path_factory.mktemp("fla")
    terms = {str(case): drawn(case, seed) for seed, case in enumerate(CASES)}
    terms[GATE_INPUTS] = drawn_for_gates()
    inputs = {
        (name, dtype): {term: tensor.to(dtype) for term, tensor in given.items()}
        for name, given in terms.items()
        for dtype in BOUNDS
    }
    save_file(
        {f"{n} in {dtype}/{term}": t for (n, dtype), x in inputs.items() for term, t in x.items()},
        folder / "inputs.safetensors",
    )
    done = subprocess.run(
        [sys.executable, "-P", str(ORACLE), str(PACKAGES), str(folder)],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    found: defaultdict[str, Tensors] = defaultdict(dict)
    for name, tensor in load_file(folder / "oracle.safetensors").items():
        case, term = name.split("/")
        found[case][term] = tensor
    return Answers(inputs, {(n, dtype): found[f"{n} in {dtype}"] for n, dtype in inputs})


def ours(form: Callable[..., ChunkResult], given: Tensors) -> ChunkResult:
    """Our query comes scaled, and our state is `[batch, head, value, key]`."""
    q, k, v = given["q"], given["k"], given["v"]
    if "state" in given:
        state = given["state"].mT
    else:
        state = v.new_zeros(v.shape[0], v.shape[2], v.shape[3], k.shape[3])
    return form(q * q.shape[-1] ** -0.5, k, v, given["log_decay"], given["beta"], state)


def ratio(found: Tensor, expected: Tensor) -> float:
    """Root mean square of the error over that of the values; a NaN is infinitely far."""
    assert found.dtype == expected.dtype
    error = float((found - expected).square().mean().sqrt() / expected.square().mean().sqrt())
    return error if error == error else float("inf")


@pytest.mark.parametrize("dtype", BOUNDS, ids=str)
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("case", CASES, ids=str)
def test_the_delta_rule_is_that_of_fla(
    case: Case, form: str, dtype: torch.dtype, fla: Answers
) -> None:
    result = ours(FORMS[form], fla.inputs[str(case), dtype])
    expected = fla.found[str(case), dtype]
    assert ratio(result.read, expected["read"]) <= BOUNDS[dtype]
    assert ratio(result.borders[:, -1].mT, expected["state"]) <= BOUNDS[dtype]


def test_the_worst_error_of_the_delta_rule_is_told(
    fla: Answers, measured: Callable[[str], None]
) -> None:
    for dtype, bound in BOUNDS.items():
        for form, rule in FORMS.items():
            errors = {
                str(case): ratio(
                    ours(rule, fla.inputs[str(case), dtype]).read,
                    fla.found[str(case), dtype]["read"],
                )
                for case in CASES
            }
            worst = max(errors, key=lambda name: errors[name])
            measured(f"delta rule {form}, {dtype}: worst {errors[worst]:.1e} ({worst})")
            assert errors[worst] <= bound


@pytest.mark.parametrize("dtype", BOUNDS, ids=str)
@pytest.mark.parametrize(
    ("kind", "bound"), [("softplus", None), ("bounded", -5.0), ("weakly bounded", -1.5)]
)
def test_the_decay_gates_are_those_of_fla(
    kind: str, bound: float | None, dtype: torch.dtype, fla: Answers
) -> None:
    given = fla.inputs[GATE_INPUTS, dtype]
    batch, pos, heads, width = given["logit"].shape
    linear = LinearAttnConfig(
        num_heads=heads,
        head_dim=width,
        short_conv_kernel_size=4,
        use_full_rank_gate=True,
        gate_lower_bound=bound,
    )
    layer = KimiDeltaAttention(replace(tiny_k3(), linear_attn_config=linear))
    give_storage(layer, "cpu", dtype)
    layer.A_log.copy_(given["A_log"])
    layer.dt_bias.copy_(given["dt_bias"])
    # the up-projection alone makes the logit: one latent channel a position and feature
    layer.f_b_proj.weight = torch.nn.Parameter(
        given["logit"].view(batch * pos, heads * width).T.contiguous(), requires_grad=False
    )
    latent = torch.eye(batch * pos, dtype=dtype).view(batch, pos, batch * pos)
    assert ratio(layer.forget_gate(latent), fla.found[GATE_INPUTS, dtype][kind]) <= BOUNDS[dtype]


FAULTS: dict[str, Callable[..., ChunkResult]] = {
    "the state counted twice": lambda q, k, v, g, b, s: delta_rule(q, k, v, g, b, 2 * s),
    "decays of the row before": lambda q, k, v, g, b, s: delta_rule(q, k, v, g.roll(1, 1), b, s),
    "channels in the other order": lambda q, k, v, g, b, s: delta_rule(q, k, v, g.flip(-1), b, s),
    "writing at full strength": lambda q, k, v, g, b, s: delta_rule(q, k, v, g, b / b, s),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_of_the_recurrence_shows(fault: str, fla: Answers) -> None:
    case = str(Case(65, "bounded", True, "24 keys, 40 values"))
    result = ours(FAULTS[fault], fla.inputs[case, torch.float32])
    assert ratio(result.read, fla.found[case, torch.float32]["read"]) > 1e-2
