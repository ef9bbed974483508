"""Which kernels a model gets, what it says of them, and what is refused."""

import inspect
import subprocess
import sys
from dataclasses import fields
from pathlib import Path

import pytest
import torch

from kernels.cases.registry import CASES
from model import conv, kda_chunk, norm, rope, situ
from model.attn_res import AttnResidual
from model.kernel_choice import TORCH, Kernels, choose_kernels, triton_kernels
from model.load import build, load
from model.mla import KimiMLAAttention
from model.moe import KimiMoEGate

ROOT = Path(__file__).parents[2]
CPU, GPU = torch.device("cpu"), torch.device("cuda")
TEXT = (
    *(norm.rms_norm, norm.gated_rms_norm, conv.short_convolution, rope.rotate),
    *(situ.situ, situ.swiglu, kda_chunk.chunked_delta_rule),
    *(AttnResidual.read_sources, KimiMoEGate.choose),
    *(KimiMLAAttention.attend, KimiMLAAttention.read_latents),
)
FUSED = {"kda_step", "kda_prefill", "through_experts"}
"""What no single function of the model computes."""


def plain(function):
    """Names, kinds and defaults of the arguments, beside `self`."""
    arguments = inspect.signature(function).parameters.values()
    return [(a.name, a.kind, a.default) for a in arguments if a.name != "self"]


@pytest.mark.parametrize("text", TEXT, ids=lambda function: function.__name__)
def test_a_kernel_takes_what_the_function_of_its_name_takes(text):
    assert plain(getattr(triton_kernels(), text.__name__)) == plain(text)


def test_every_function_that_a_kernel_replaces_is_compared():
    assert {text.__name__ for text in TEXT} | FUSED == {field.name for field in fields(Kernels)}


def test_every_launcher_can_be_chosen():
    chosen = {getattr(triton_kernels(), field.name) for field in fields(Kernels)}
    # an activation's case states its caps beforehand
    assert {getattr(case.launcher, "func", case.launcher) for case in CASES} <= chosen
    assert None not in chosen


def test_without_a_gpu_auto_is_the_text_of_the_model_and_says_why():
    lm = build("tiny-k3")
    assert (lm.kernels, lm.kernel_path.partition(":")[0]) == ("torch", "torch")
    assert lm.kernel_path.endswith("no Triton, since the model is not on a GPU")


def test_a_model_on_its_text_imports_no_triton():
    program = "import sys; from model.load import build; build('tiny-k3'); "
    program += "sys.exit('triton' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_on_a_gpu_auto_is_triton():
    chosen = choose_kernels("auto", GPU, "bfloat16")
    assert chosen.kernels == triton_kernels()
    assert chosen.words.startswith("triton: ")


@pytest.mark.parametrize("device", [CPU, GPU], ids=str)
def test_torch_is_torch_everywhere_and_needs_no_reason(device):
    chosen = choose_kernels("torch", device, "bfloat16")
    assert chosen.kernels is TORCH
    assert "since" not in chosen.words


def test_a_wide_model_stays_with_its_text():
    assert "the model is float64" in choose_kernels("auto", GPU, "float64").words
    with pytest.raises(ValueError, match=r"'triton' cannot run: kernels sum in float32, and the"):
        build("tiny-k3", dtype="float64", kernels="triton")


def test_a_machine_without_triton_says_so(monkeypatch):
    monkeypatch.setattr("kernels.available.find_spec", lambda name: None)
    assert choose_kernels("auto", GPU, "auto").kernels is TORCH
    assert "Triton is not installed" in choose_kernels("auto", GPU, "auto").words
    with pytest.raises(ValueError, match="Triton is not installed"):
        choose_kernels("triton", GPU, "auto")


def test_a_cpu_without_the_interpreter_refuses_triton_and_names_the_way_out(monkeypatch):
    monkeypatch.setenv("TRITON_INTERPRET", "0")
    for make in (build, load):
        with pytest.raises(ValueError, match=r"TRITON_INTERPRET=1 .* 'auto' or 'torch' can\."):
            make("tiny-k3", device="cpu", kernels="triton")


def test_shapes_alone_have_no_kernels():
    with pytest.raises(ValueError, match="for a GPU, and the model is on meta"):
        build("tiny-k3", device="meta", kernels="triton")


@pytest.mark.parametrize("make", [build, load])
def test_a_word_that_is_no_choice_is_refused_with_those_there_are(make):
    with pytest.raises(ValueError, match="kernels='cuda': choose one of auto, torch, triton"):
        make("tiny-k3", kernels="cuda")


def test_a_part_of_the_kernels_is_triton_too():
    assert TORCH.path == "torch"
    assert Kernels(rotate=rope.rotate).path == "triton"
