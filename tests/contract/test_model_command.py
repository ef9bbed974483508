"""`python -m model` answers from a shell, in words and as JSON."""

import json
import subprocess
import sys
import time
from pathlib import Path

import pytest
from safetensors.torch import save_file

from model.__main__ import main
from model.load import build, upstream_state
from model.presets import PRESETS, hf
from model.trace import open_trace

ROOT = Path(__file__).parents[2]


@pytest.fixture
def folder(tmp_path):
    """A checkpoint of the tiny model as a user would have one."""
    (tmp_path / "config.json").write_text(json.dumps(hf("tiny-k3")))
    state = {name: tensor.clone() for name, tensor in upstream_state(build("tiny-k3")).items()}
    save_file(state, tmp_path / "model.safetensors")
    return str(tmp_path)


def said(capsys, *arguments):
    code = main(arguments)
    return code, capsys.readouterr()


@pytest.mark.parametrize("source", PRESETS)
def test_info_speaks_of_every_preset(capsys, source):
    code, out = said(capsys, "info", source)
    assert code == 0
    assert "parameters.total" in out.out


def test_info_of_k3_gives_the_known_numbers(capsys):
    _, out = said(capsys, "info", "k3", "--json")
    about = json.loads(out.out)
    assert about["parameters"] == {"total": 2_779_484_476_000, "active": 104_189_612_640}
    assert about["layers"] == 93
    assert about["mixers"] == {"kda": 69, "mla": 24}
    assert about["cache"]["kv_values_per_position"] == 30_720
    assert about["cache"]["kda_state_values"] == 1_720_320


@pytest.mark.parametrize(
    ("source", "total", "tensors"),
    [
        ("k3", 2_779_484_476_000, 497_052),
        ("kimi-linear", 49_122_681_728, 20_493),
        ("k2", 1_026_408_232_448, 139_583),
    ],
)
def test_info_counts_the_released_models(capsys, source, total, tensors):
    _, out = said(capsys, "info", source, "--json")
    about = json.loads(out.out)
    assert (about["parameters"]["total"], about["tensors"]) == (total, tensors)


def test_info_weighs_the_released_models_by_what_they_are_stored_as(capsys):
    def stored(source):
        return json.loads(said(capsys, "info", source, "--json")[1].out)["stored"]["bytes"]

    k3 = stored("k3")
    vision = 2 * (401_214_464 + 46_144_512)
    # published as 1.56 TB, with the vision tower
    assert k3["total"] + vision == pytest.approx(1.5608e12, rel=1e-4)
    # four bits and a shared byte for thirty-two of them
    assert k3["U8"] == 2_722_740_830_208 * 17 // 32
    assert k3["total"] == k3["U8"] + k3["BF16"] + k3["F32"]
    # published as 91.5 GiB
    assert stored("kimi-linear")["total"] / 2**30 == pytest.approx(91.5, abs=0.05)
    k2 = stored("k2")
    assert k2.keys() == {"total", "F8_E4M3", "BF16", "F32"}
    assert k2["F8_E4M3"] + k2["BF16"] // 2 == pytest.approx(1_026_408_232_448, rel=1e-6)


def test_info_of_a_model_that_is_not_stored_weighs_nothing(capsys):
    _, out = said(capsys, "info", "tiny-k3", "--json")
    assert json.loads(out.out)["stored"] is None


def test_layers_and_revision_reach_the_loader(capsys, folder):
    code, out = said(capsys, "run", folder, "--layers", "0:2", "--new-tokens", "1", "--json")
    assert code == 0
    assert "layers 0 to 1 of" in json.loads(out.out)["weights"]
    code, out = said(capsys, "check", folder, "--revision", "main")
    assert code == 2
    assert "'main'" in out.err


def test_info_of_k2_speaks_of_no_kda(capsys):
    _, out = said(capsys, "info", "k2", "--json")
    assert not [name for name in json.loads(out.out)["cache"] if "kda" in name]


def test_info_needs_no_torch():
    code = (
        "import sys; from model.__main__ import main; main(['info', 'k3']); "
        "sys.exit('torch' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_a_folder_is_described_run_and_checked(capsys, folder, tmp_path_factory):
    assert said(capsys, "info", folder)[0] == 0
    saved = tmp_path_factory.mktemp("runs") / "run.safetensors"
    code, out = said(
        capsys,
        "run",
        folder,
        "--json",
        "--prompt",
        "héllo",
        "--new-tokens",
        "3",
        "--save",
        str(saved),
    )
    about = json.loads(out.out)
    assert code == 0
    assert (about["prompt_length"], len(about["tokens"])) == (7, 10)
    assert about["tokens"][:4] == ["<bos>", "h", "⟨0xC3⟩", "⟨0xA9⟩"]
    assert open_trace(saved).run_id == about["run_id"]
    assert said(capsys, "check", folder)[0] == 0


def test_check_prints_the_worst_error_of_every_equation(capsys):
    code, out = said(capsys, "check", "tiny-k3", "--json", "--prompt", "the cat and the dog")
    identities = json.loads(out.out)["identities"]
    assert code == 0
    assert all(row["error"] <= row["tolerance"] for row in identities)
    assert {"rms_norm", "kda_read", "mla_pattern", "moe_chosen", "prefill_is_decode"} <= {
        row["name"] for row in identities
    }
    _, out = said(capsys, "check", "tiny-k3")
    assert "0 of them broken" in out.out


def test_a_prompt_of_64_tokens_is_checked(capsys, measured):
    begun = time.monotonic()
    code, out = said(capsys, "check", "tiny-k3", "--prompt", "x" * 63)
    measured(f"model check, 64 tokens, loading included: {time.monotonic() - begun:.1f} s")
    assert code == 0
    assert "0 of them broken" in out.out


def test_the_kernels_are_a_choice_and_are_named(capsys):
    short = ("tiny-k3", "--prompt", "a", "--new-tokens", "1", "--json")
    _, on_text = said(capsys, "run", *short)
    _, on_kernels = said(capsys, "run", *short, "--kernels", "triton")
    on_text, on_kernels = json.loads(on_text.out), json.loads(on_kernels.out)
    assert on_text["kernels"].endswith("no Triton, since the model is not on a GPU")
    assert on_kernels["kernels"].startswith("triton: ")
    assert on_text["token_ids"] == on_kernels["token_ids"]


def test_equations_are_checked_on_kernels_too(capsys):
    code, out = said(
        capsys,
        *("check", "tiny-k2", "--prompt", "a", "--new-tokens", "1", "--kernels", "triton"),
    )
    assert code == 0
    assert out.out.startswith("on triton: ")
    assert "0 of them broken" in out.out


def test_kernels_that_cannot_run_are_refused_in_one_line(capsys, monkeypatch):
    monkeypatch.setenv("TRITON_INTERPRET", "0")
    code, out = said(capsys, "run", "tiny-k3", "--kernels", "triton")
    assert (code, out.out, out.err.count("\n")) == (2, "", 1)
    assert "only in Triton's interpreter, which TRITON_INTERPRET=1" in out.err


def test_a_broken_equation_ends_with_one(capsys, monkeypatch):
    from model import mla

    monkeypatch.setattr(mla, "LATENT_NORM_EPS", 0.5)
    code, out = said(capsys, "check", "tiny-k3", "--json")
    broken = [row["name"] for row in json.loads(out.out)["identities"] if not row["passed"]]
    assert (code, broken) == (1, ["rms_norm"])


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["info", "k4"], "no preset (k3, k2"),
        (["run", "tiny-k3", "--layers", "1:2"], "layers=[1]"),
        (["run", "k3"], "released configuration without weights"),
        (["run", "tiny-k3", "--prompt", ""], "The prompt is empty"),
        (["run", "tiny-k3", "--new-tokens", "-1"], "new_tokens is -1"),
        (["run", "tiny-k3", "--save", "/no/folder/run"], "no folder '/no/folder' to save run"),
        (["check", "nowhere"], "no folder and no Hub id"),
    ],
)
def test_what_cannot_be_done_is_said_in_one_line(capsys, arguments, words):
    code, out = said(capsys, *arguments)
    assert code == 2
    assert out.out == ""
    assert words in out.err
    assert out.err.count("\n") == 1
