"""Shipped weights are the ones that were measured: a changed file is refused before it is used."""

import json
from pathlib import Path

import pytest
from safetensors.torch import load_file, save_file

from model import shipped
from model.init import FLOAT32
from model.load import build, load
from model.presets import preset
from model.shipped import FOLDER
from model.tokenizer import byte_tokenizer
from model.training.card import card
from model.training.evaluation import loops, report
from model.training.release import OPENINGS
from model.training.ship import WEIGHTS, write_checkpoint


@pytest.fixture
def folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A folder of shipped weights for `tiny-k3`."""
    monkeypatch.setattr(shipped, "FOLDER", tmp_path)
    write_checkpoint(build("tiny-k3", seed=7), byte_tokenizer(), tmp_path / "tiny-k3")
    return tmp_path / "tiny-k3"


def test_shipped_weights_are_loaded_by_their_name(folder):
    lm, drawn = load("tiny-k3"), dict(build("tiny-k3", seed=7).named_parameters())
    assert lm.weights_note == shipped.weights_note("tiny-k3") == ""
    assert lm.config == preset("tiny-k3")
    for name, parameter in lm.named_parameters():
        want = drawn[name] if name.endswith(FLOAT32) else drawn[name].bfloat16().float()
        assert parameter.equal(want), name


def test_one_changed_value_is_found(folder):
    tensors = load_file(folder / WEIGHTS)
    next(iter(tensors.values())).view(-1)[0] += 1
    save_file(tensors, folder / WEIGHTS)
    with pytest.raises(
        ValueError, match=r"'tiny-k3' were changed: model\.safetensors has the hash"
    ):
        load("tiny-k3")


def test_every_fault_is_named_at_once(folder):
    (folder / "tokenizer.json").unlink()
    (folder / "config.json").write_text("{}")
    with pytest.raises(ValueError, match=r"config\.json has the hash.*tokenizer\.json is missing"):
        load("tiny-k3")


def test_weights_without_hashes_are_refused(folder):
    (folder / shipped.SUMS).unlink()
    with pytest.raises(ValueError, match="no SHA256SUMS"):
        load("tiny-k3")


def test_a_folder_of_ones_own_needs_no_hashes(folder):
    (folder / shipped.SUMS).unlink()
    assert load(str(folder)).config == preset("tiny-k3")


def test_the_card_tells_what_was_measured():
    found = json.loads((FOLDER / "k3-mini" / "evaluation.json").read_text(encoding="utf-8"))
    assert (FOLDER / "k3-mini" / "README.md").read_text(encoding="utf-8") == card(found)
    assert len(found["evaluation"]) == 3
    assert found["parameters"] == sum(p.numel() for p in load("k3-mini").parameters())


def test_samples_begin_with_words_of_its_world():
    """An unknown word is bytes to it, and a story that begins with them is lost from the start."""
    words = load("k3-mini").tokenizer
    assert words is not None
    for opening in OPENINGS:
        pieces = [words.describe(i).text for i in words.encode(opening)]
        assert [piece for piece in pieces if len(piece) == 1 and piece.isalpha()] == [], opening


def test_no_expert_is_dead_and_no_sample_goes_round():
    found = json.loads((FOLDER / "k3-mini" / "evaluation.json").read_text(encoding="utf-8"))
    loads = [load for report in found["evaluation"] for load in report["expert_load"].values()]
    assert min(map(min, loads)) >= 0.2
    assert {text: loops(text) for text in found["greedy"] + found["drawn"] if loops(text)} == {}


def test_an_evaluation_of_the_shipped_weights_gives_what_the_card_was_made_from():
    found = json.loads((FOLDER / "k3-mini" / "evaluation.json").read_text(encoding="utf-8"))
    again = report(load("k3-mini"), found["evaluation"][0]["seed"], tokens=15_000, mechanisms=False)
    told = found["evaluation"][0]["accuracy"]
    # 15,000 tokens of the 300,000: a twentieth of the answers
    for task, asked in again["asked"].items():
        if asked >= 40:
            assert again["accuracy"][task] == pytest.approx(told[task], abs=0.2)
    assert again["bits_per_byte"] == pytest.approx(
        found["evaluation"][0]["bits_per_byte"], rel=0.15
    )
