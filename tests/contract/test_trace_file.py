"""A run saved is the run opened, and a wrong file is answered in words."""

import json

import numpy as np
import pytest
import torch
from safetensors import safe_open
from safetensors.torch import load_file, save_file

from model.load import build
from model.trace import open_trace, run
from model.trace_file import FORMAT, KEY

LM = build("tiny-k3")


@pytest.fixture(scope="module")
def stored(tmp_path_factory):
    trace = run(LM, "a <b> €", new_tokens=2)
    path = tmp_path_factory.mktemp("runs") / "run.safetensors"
    trace.save(path)
    return trace, path


def test_a_stored_run_comes_back_whole(stored):
    trace, path = stored
    opened = open_trace(path)
    for field in ("run_id", "source", "config", "tokens", "token_ids", "taps", "cache_by_step"):
        assert getattr(opened, field) == getattr(trace, field), field
    for step in range(trace.steps):
        for name, tensor in trace.tensors[step].items():
            torch.testing.assert_close(opened.tensor(name, step), tensor, rtol=0, atol=0)


def test_a_stored_run_re_computes_what_needs_no_weights(stored):
    trace, path = stored
    name = "layers.1.self_attn.recalled"
    np.testing.assert_array_equal(open_trace(path).array(name), trace.array(name))
    assert open_trace(path).provenance(name).kind == "recomputed"


def test_any_safetensors_reader_sees_the_tensors(stored):
    _, path = stored
    with safe_open(path, framework="np") as file:
        assert file.get_tensor("0/layers.3.self_attn.k_shared").shape[-1] == 4
        assert json.loads(file.metadata()[KEY])["prompt_length"] == 1 + len("a <b> €".encode())


def test_a_missing_file_is_answered_in_words(tmp_path):
    with pytest.raises(FileNotFoundError, match="no file"):
        open_trace(tmp_path / "none.safetensors")


@pytest.mark.parametrize("content", [b"", b"{}", b"\x00" * 64, b"not a run at all"])
def test_another_kind_of_file_is_answered_in_words(tmp_path, content):
    path = tmp_path / "other"
    path.write_bytes(content)
    with pytest.raises(ValueError, match="is not a stored run"):
        open_trace(path)


def test_safetensors_of_something_else_are_answered_in_words(tmp_path):
    path = tmp_path / "weights.safetensors"
    save_file({"w": torch.zeros(2)}, path)
    with pytest.raises(ValueError, match="not a stored run: its header has no 'kimiscope'"):
        open_trace(path)


def test_another_format_is_answered_in_words(tmp_path):
    path = tmp_path / "old.safetensors"
    save_file({"w": torch.zeros(2)}, path, metadata={KEY: json.dumps({"format": FORMAT + 1})})
    with pytest.raises(ValueError, match="this version reads format"):
        open_trace(path)


def test_a_run_that_lacks_a_tensor_is_answered_in_words(stored, tmp_path):
    _, path = stored
    with safe_open(path, framework="pt") as file:
        metadata = file.metadata()
    tensors = load_file(path)
    del tensors["1/logits"]
    save_file(tensors, tmp_path / "cut.safetensors", metadata=metadata)
    with pytest.raises(ValueError, match="lacks 1 of its tensors, as '1/logits'"):
        open_trace(tmp_path / "cut.safetensors")


@pytest.mark.parametrize(
    ("header", "words"),
    [
        ("{cut", "is no description of a run"),
        ("[]", "is no description of a run"),
        ("{}", "is no description of a run"),
        (json.dumps({"format": FORMAT}), "does not say run_id, .*, order of its run"),
    ],
)
def test_a_damaged_description_is_answered_in_words(tmp_path, header, words):
    save_file({"w": torch.zeros(2)}, tmp_path / "run", metadata={KEY: header})
    with pytest.raises(ValueError, match=words):
        open_trace(tmp_path / "run")


def test_a_place_where_no_run_can_be_saved_is_said_in_words(stored, tmp_path):
    trace, _ = stored
    with pytest.raises(FileNotFoundError, match=r"no folder '.*absent' to save run in"):
        trace.save(tmp_path / "absent" / "run")
    with pytest.raises(IsADirectoryError, match="is a folder"):
        trace.save(tmp_path)
