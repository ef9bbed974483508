"""A checkpoint that cannot be loaded is refused in one sentence, and the model stays as it was."""

import json

import pytest
import torch
from huggingface_hub.errors import LocalEntryNotFoundError
from safetensors.torch import save_file

from model.__main__ import main
from model.load import build, load, load_weights, upstream_state

CONFIG = build("tiny-k3", device="meta").config.to_hf()
WEIGHTS = {n: t.clone() for n, t in upstream_state(build("tiny-k3", seed=9)).items()}
HEAD = "lm_head.weight"
INDEX = "model.safetensors.index.json"


def checkpoint(folder, config=CONFIG, weights=WEIGHTS):
    if config is not None:
        text = config if isinstance(config, str) else json.dumps(config)
        (folder / "config.json").write_text(text)
    if weights is not None:
        save_file(weights, folder / "model.safetensors")
    return folder


@pytest.mark.parametrize(
    ("config", "words"),
    [
        (None, "holds no config.json"),
        ("{", "is no JSON"),
        ("[1]", "holds a list, and not a JSON object"),
        ({}, "lacks .*vocab_size"),
        (CONFIG | {"hidden_size": "32"}, "hidden_size is '32', and must be a whole number"),
        (CONFIG | {"hidden_size": -32}, "hidden_size is -32"),
        (CONFIG | {"attn_res_block_size": 0}, "attn_res_block_size is 0"),
        (CONFIG | {"num_experts_per_token": 99}, "num_experts_per_token is 99, and num_experts 6"),
    ],
    ids=["absent", "cut", "list", "empty", "text", "negative", "zero", "choices"],
)
def test_a_folder_whose_config_says_no_model_is_refused_in_words(tmp_path, config, words):
    with pytest.raises(ValueError, match=words):
        load(str(checkpoint(tmp_path, config)), device="cpu")


@pytest.mark.parametrize(
    ("damage", "words"),
    [
        (lambda file: file.unlink(), r"holds no \.safetensors file\.$"),
        (lambda file: file.rename(file.with_name("pytorch_model.bin")), "is a pickle"),
        (lambda file: file.write_bytes(file.read_bytes()[:9_999]), "is cut short"),
        (lambda file: file.write_bytes(b""), "is cut short"),
        (lambda file: file.write_text("version https://git-lfs"), "is cut short"),
        (lambda file: save_file(WEIGHTS, file.with_name("more.safetensors")), "200 tensors that"),
        (
            lambda file: file.with_name(INDEX).write_text(
                json.dumps({"weight_map": {"a": file.name, "b": "b.safetensors"}})
            ),
            "lacks 1 of the 2 files that .* lists, as 'b.safetensors'",
        ),
        (lambda file: file.with_name("tokenizer.json").write_text("{}"), "no tokenizer that can"),
    ],
    ids=["absent", "pickle", "cut", "empty", "pointer", "twice", "shard", "tokenizer"],
)
def test_a_folder_with_damaged_files_is_refused_in_words(tmp_path, damage, words):
    damage(checkpoint(tmp_path) / "model.safetensors")
    with pytest.raises(ValueError, match=words):
        load(str(tmp_path), device="cpu")


def test_the_index_decides_which_files_are_read(tmp_path):
    checkpoint(tmp_path).joinpath(INDEX).write_text(
        json.dumps({"weight_map": dict.fromkeys(WEIGHTS, "model.safetensors")})
    )
    save_file({HEAD: torch.zeros(1)}, tmp_path / "consolidated.safetensors")
    assert torch.equal(load(str(tmp_path), device="cpu").lm_head.weight, WEIGHTS[HEAD])


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({HEAD: WEIGHTS[HEAD].to(torch.int8)}, "1 packed: lm_head.weight as int8. Packed weights"),
        ({HEAD: WEIGHTS[HEAD].to(torch.float8_e4m3fn)}, "as float8_e4m3fn"),
        ({f"language_model.{HEAD}": WEIGHTS[HEAD]}, "1 given twice: language_model.lm_head"),
        ({"model.odd": torch.zeros(1)}, "1 unexpected: model.odd"),
        ({HEAD: WEIGHTS[HEAD][:2]}, r"1 misshapen: lm_head.weight \[2, 32\] for \[320, 32\]"),
    ],
    ids=["integers", "float8", "twice", "unexpected", "misshapen"],
)
def test_tensors_that_do_not_fit_leave_the_model_as_it_was(change, words):
    lm = build("tiny-k3")
    before = lm.weights_hash
    with pytest.raises(ValueError, match=words):
        load_weights(lm, WEIGHTS | change)
    assert lm.weights_hash == before
    assert lm.weights_note == "seeded random weights"


def test_weights_that_are_no_numbers_come_in_and_are_noted():
    lm = build("tiny-k3")
    load_weights(lm, WEIGHTS | {HEAD: torch.full_like(WEIGHTS[HEAD], torch.nan)})
    assert lm.weights_note == "1 of 200 tensors hold NaN or infinity, as lm_head.weight"


@pytest.mark.parametrize("source", ["/no/such/folder", "./nothing", "", "k3-min"])
def test_a_source_that_is_nothing_is_refused_without_asking_the_hub(monkeypatch, source):
    monkeypatch.setattr("huggingface_hub.snapshot_download", lambda *_, **__: pytest.fail("asked"))
    with pytest.raises(LookupError, match=r"no preset .* no folder and no Hub id"):
        load(source)


def test_a_misspelt_preset_is_answered_with_the_nearest():
    with pytest.raises(LookupError, match="Did you mean 'k3-mini'"):
        load("k3-min")


def test_a_hub_that_cannot_be_reached_is_said_in_one_sentence(monkeypatch, capsys):
    def unreachable(*_, **__):
        raise LocalEntryNotFoundError("No address.\nA traceback follows.")

    monkeypatch.setattr("huggingface_hub.snapshot_download", unreachable)
    for command in ("info", "run", "check"):
        assert main([command, "org/name"]) == 2
        said = capsys.readouterr().err
        assert "the Hub did not give it: No address." in said
        assert "Check name and network" in said
        assert "traceback" not in said


@pytest.mark.parametrize(("device", "words"), [("cuda:99", "CUDA devices here"), ("gpu", "choose")])
def test_a_device_that_is_not_here_is_refused_in_words(device, words):
    with pytest.raises(ValueError, match=words):
        build("tiny-k3", device=device)
