"""A kernel on a reader's run: its arguments, its distance from float64, and how it can fail."""

import json
import os
import subprocess
import sys
from functools import cache
from pathlib import Path

import numpy as np
import pytest
import torch
from streamlit.testing.v1 import AppTest

from annotations.kernel import load_kernels
from app import run_kernel
from app.run_kernel import MOST_POSITIONS, NO_TRITON, Outcome, ResultRow, ask, refusal
from app.run_kernel_child import error_of
from app.run_kernel_inputs import given_to
from app.run_kernel_reference import by_equation
from model.load import load
from model.trace import Trace, run

ROOT = Path(__file__).parents[2]
SCRIPT = Path(__file__).with_name("kernel_page.py")
KERNELS = load_kernels()
PROMPT = "the cat and the dog"
PATHS = {
    "rms_norm": "layers.3.input_layernorm",
    "gated_rms_norm": "layers.1.self_attn.o_norm",
    "short_conv": "layers.1.self_attn.k_conv1d",
    "kda_step": "layers.1.self_attn",
    "kda_chunk": "layers.1.self_attn",
    "attn_res": "layers.2.mlp_res",
    "mla_prefill": "layers.3.self_attn",
    "mla_decode": "layers.3.self_attn",
    "rope": "layers.2.self_attn",
    "router": "layers.2.block_sparse_moe.gate",
    "experts": "layers.2.block_sparse_moe",
    "situ": "layers.0.mlp",
}
OF_K2 = ("rope",)
"""Kernels that K3 does not need."""
ALL_AT_ONCE = """
import json, os, sys
os.environ["TRITON_INTERPRET"] = "1"
import numpy as np
from app.run_kernel_child import compared
made = {}
for path in sys.argv[1:]:
    with np.load(path) as archive:
        arrays = {name: archive[name] for name in archive.files}
    asked = json.loads(str(arrays.pop("asked")))
    made[asked["kernel"]] = compared(asked, arrays, False)
print(json.dumps(made))
"""


@cache
def made(source: str) -> Trace:
    return run(load(source), PROMPT, 2)


def source_of(kernel: str) -> str:
    return "tiny-k2" if kernel in OF_K2 else "k3-mini"


@pytest.fixture(scope="module")
def outcomes(tmp_path_factory: pytest.TempPathFactory) -> dict:
    """Every kernel in one process of the interpreter, at its own module of a run."""
    folder = tmp_path_factory.mktemp("given")
    files = []
    for kernel, path in PATHS.items():
        trace = made(source_of(kernel))
        given = given_to(kernel, trace, path, 1)
        files.append(folder / f"{kernel}.npz")
        files[-1].write_bytes(run_kernel._packed(kernel, trace.dtype, given))
    done = subprocess.run(
        [sys.executable, "-c", ALL_AT_ONCE, *map(str, files)],
        cwd=ROOT,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_every_kernel_has_a_module_to_run_on():
    assert set(PATHS) == set(KERNELS)


@pytest.mark.parametrize("kernel", PATHS)
def test_every_kernel_is_near_its_equation_on_a_run(kernel, outcomes):
    rows = outcomes[kernel]["rows"]
    assert rows
    for row in rows:
        assert row["error"] <= run_kernel.TOLERANCE["float32"], row
        assert np.prod(row["shape"]) > 0
    assert outcomes[kernel]["device"] == "interpreter"


EQUALS = {
    # the tap that the equation must give on this run, among results of the same name
    "rms_norm": ("x", "normed"),
    "gated_rms_norm": ("y", "gated"),
    "short_conv": ("convolved", "convolved"),
    "kda_step": ("read", "read"),
    "kda_chunk": ("read", "read"),
    "attn_res": ("h", "mixed"),
    "rope": ("rotated", "q_rotated"),
    "situ": ("activated", "activated"),
}


@pytest.mark.parametrize("kernel", EQUALS)
def test_the_equation_gives_what_the_model_captured(kernel):
    trace = made(source_of(kernel))
    given = given_to(kernel, trace, PATHS[kernel], 1)
    arrays = {name: torch.tensor(x) for name, x in given.arrays.items()}
    result, tap = EQUALS[kernel]
    right = by_equation(kernel, {**arrays, **given.options})[result]
    captured = trace.array(f"{PATHS[kernel]}.{tap}", step=given.step)
    assert error_of(torch.tensor(captured), right) < 1e-5


def test_a_wrong_result_fails_and_so_does_no_number():
    right = torch.tensor([1.0, -2.0], dtype=torch.float64)
    near = error_of(right.float() * (1 + 1e-7), right)
    far = error_of(right.float() * (1 + 1e-4), right)
    odd = error_of(torch.tensor([1.0, float("nan")]), right)
    rows = [
        ResultRow(name="x", shape=(2,), error=error, tolerance=1e-5) for error in (near, far, odd)
    ]
    assert [row.passed for row in rows] == [True, False, False]
    assert error_of(torch.ones(3), right) == float("inf")


def test_a_kernel_is_run_in_a_process_of_its_own_and_shared():
    trace = made("k3-mini")
    ticket = ask(("rms_norm", PATHS["rms_norm"], 0), trace, "a reader")
    assert ticket.wait(60), ticket.stage
    outcome: Outcome = ticket.result()
    (row,) = outcome.rows
    assert row.passed
    assert row.shape == (1, trace.prompt_length, trace.config.hidden_size)
    assert outcome.shapes["x"] == row.shape
    assert outcome.seconds > 0
    assert outcome.is_interpreted or torch.cuda.is_available()
    again = ask(("rms_norm", PATHS["rms_norm"], 0), trace, "another")
    assert again.result() is outcome


def test_a_process_that_ends_badly_says_so(monkeypatch):
    monkeypatch.setattr(run_kernel, "CHILD", "app.no_such_module")
    ticket = ask(("rms_norm", PATHS["rms_norm"], 1), made("k3-mini"), "a reader")
    assert ticket.wait(30)
    assert ticket.state == "failed"
    assert "ended with 1" in ticket.error
    assert "no_such_module" in ticket.error


def test_a_process_that_takes_too_long_is_stopped(monkeypatch):
    monkeypatch.setattr(run_kernel, "MOST_SECONDS", 0.2)
    ticket = ask(("situ", PATHS["situ"], 1), made("k3-mini"), "a reader")
    assert ticket.wait(30)
    assert "took more than 0 s" in ticket.error


def test_a_process_is_stopped_when_its_reader_leaves():
    ticket = ask(("router", PATHS["router"], 1), made("k3-mini"), "the only reader")
    run_kernel.bench().leave(ticket, "the only reader")
    assert ticket.wait(30)
    assert ticket.state == "stopped"


def test_what_cannot_be_run_is_said_before_a_process_starts(monkeypatch):
    trace = made("k3-mini")
    assert refusal("rms_norm", trace, 0) == ""
    alone = run(load("tiny-k2"), PROMPT, 0)
    assert "ask for new tokens" in refusal("mla_decode", alone, 0)
    long = run(load("tiny-k2"), "a " * MOST_POSITIONS, 0)
    assert f"up to {MOST_POSITIONS}" in refusal("rms_norm", long, 0)
    monkeypatch.setattr(run_kernel.importlib.util, "find_spec", lambda name: None)
    assert refusal("rms_norm", trace, 0) == NO_TRITON


@pytest.mark.parametrize(
    ("kernel", "path", "said"),
    [
        ("kda_step", "layers.2.self_attn", "tiny-k2 has no KimiDeltaAttention at layers.2"),
        ("attn_res", "layers.2.mlp_res", "tiny-k2 has no AttnResidual"),
    ],
)
def test_a_model_without_the_part_is_told(kernel, path, said):
    with pytest.raises(LookupError, match=said):
        given_to(kernel, made("tiny-k2"), path, 1)


def test_a_model_that_turns_no_positions_has_no_rotation():
    with pytest.raises(LookupError, match="turns no positions"):
        given_to("rope", made("k3-mini"), PATHS["mla_decode"], 1)


def opened(**parameters: str) -> AppTest:
    page = AppTest.from_file(str(SCRIPT), default_timeout=180)
    for name, value in parameters.items():
        page.query_params[name] = value
    page.run()
    assert not page.exception, page.exception
    return page


def written(page: AppTest) -> str:
    return "\n".join(element.proto.body for element in page.get("html"))


def test_the_page_runs_the_kernel_when_it_is_asked():
    page = opened(view="kernel", kernel="situ", node="mlp/situ")
    before = written(page)
    assert "The kernel on this run" in before
    assert "interpreter took" not in before
    page.button(key="kernel-run").click().run()
    assert not page.exception
    after = written(page)
    assert "✓ pass" in after
    assert "says nothing of a GPU" in after or torch.cuda.is_available()
    assert "max|kernel − equation|" in after


@pytest.mark.parametrize("kernel", KERNELS)
def test_every_page_opens_with_a_place_to_run_or_without_a_word(kernel):
    page = opened(view="kernel", kernel=kernel)
    buttons = [button.key for button in page.button]
    assert ("kernel-run" in buttons) == (kernel != "rope")


def test_a_page_of_another_model_says_what_the_running_one_lacks():
    page = opened(view="kernel", kernel="rope", model="k2")
    page.button(key="kernel-run").click().run()
    assert "turns no positions" in written(page)


def test_without_a_kernel_nothing_runs():
    page = opened(view="kernel")
    assert not page.button
    assert "The kernel on this run" not in written(page)
