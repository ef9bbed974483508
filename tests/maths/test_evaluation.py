"""Evaluation counts what is right, switches off one part at a time, and ships what it measured."""

import json
from pathlib import Path

import pytest
import torch

from model.__main__ import main
from model.capture import capture
from model.config import KimiConfig
from model.init import FLOAT32
from model.kimi import KimiLM
from model.load import build, load
from model.presets import hf
from model.shipped import SUMS, sha256
from model.training import release
from model.training.corpus import Answer, Batch
from model.training.evaluation import (
    STEP,
    answers,
    corpus_of,
    forward,
    loops,
    lost_look_ups,
    parts,
    report,
)
from model.training.measure import Tally
from model.training.ship import SHIPPED, WEIGHTS, write_checkpoint
from model.training.vocabulary import word_tokenizer


@pytest.fixture(scope="module")
def lm() -> KimiLM:
    tokens = {"bos_token_id": 256, "eos_token_id": 257, "pad_token_id": 258}
    text = hf("tiny-k3") | {"vocab_size": len(word_tokenizer())}
    lm = build(KimiConfig.from_hf(text | tokens), seed=1)
    lm.tokenizer = word_tokenizer()
    return lm


def batch_of(tokens: list[int], *spans: tuple[int, int, str]) -> Batch:
    row = torch.tensor([tokens])
    answers_ = [Answer(0, start, stop, task) for start, stop, task in spans]
    return Batch(row, torch.ones(1, len(tokens) - 1), answers_)


def world_batch(lm: KimiLM, pos: int) -> Batch:
    ((batch, *_),) = corpus_of(lm).batches("x", 1, 8 * pos, pos, {"world": 1.0})
    return batch


def logits_for(tokens: list[int], vocab: int = 10) -> torch.Tensor:
    """Sure of each token after the first."""
    return torch.nn.functional.one_hot(torch.tensor([tokens[1:]]), vocab).float() * 50


def test_an_answer_is_right_where_all_of_its_tokens_are_and_wrong_where_one_is_not():
    batch = batch_of([1, 2, 3, 4, 5], (1, 3, "a"), (3, 5, "b"), (4, 5, "b"))
    said = logits_for([1, 2, 3, 9, 5])
    tally = Tally()
    tally.add(batch, said)
    assert tally.by_task()["a"]["accuracy"] == 1
    assert tally.by_task()["b"] == {"accuracy": 0.5, "asked": 2, "loss": pytest.approx(12.5)}
    tally.add(batch, logits_for([1, 2, 3, 4, 5]))
    assert tally.by_task()["b"]["accuracy"] == 0.75


def test_bits_are_those_of_the_text(lm):
    corpus = corpus_of(lm)
    batch = batch_of([256, *lm.tokenizer.encode("The kitchen")])
    tally = Tally()
    tally.add(batch, torch.zeros(1, 2, 1024))
    assert tally.bits == pytest.approx(20)
    assert corpus.bytes(batch.tokens) == len("The kitchen")


def test_what_fills_a_row_up_counts_nowhere(lm):
    corpus = corpus_of(lm)
    page = [256, *lm.tokenizer.encode("The kitchen"), 257]
    alone, filled = batch_of(page), batch_of([*page, 257, 257, 257])
    filled.weights[:, len(page) - 1 :] = 0
    whole, padded = Tally(), Tally()
    for tally, batch in ((whole, alone), (padded, filled)):
        tally.add(batch, torch.zeros(*batch.weights.shape, 1024))
        tally.bytes += corpus.bytes(batch.tokens)
    assert padded == whole
    assert whole.tokens == 3


def test_loads_are_shares_of_what_every_expert_would_get_were_all_alike(lm):
    _, loads = answers(lm, corpus_of(lm), 0, 2000)
    assert list(loads) == [f"layers.{i}" for i in range(1, lm.config.num_hidden_layers)]
    for load_ in loads.values():
        assert sum(load_) / len(load_) == pytest.approx(1, abs=2e-3)
        assert len(load_) == lm.config.num_experts


def test_every_mixer_and_every_read_over_depth_can_be_switched_off_alone(lm):
    layers = lm.config.num_hidden_layers
    named = {name: kind for name, kind, _ in parts(lm)}
    reads = [name for name, kind in named.items() if kind == "attention residual"]
    # each layer reads twice and the output once; layer 0 has nothing to read at first
    assert len(reads) == 2 * layers - 1 + 1
    assert [named[f"layers.{i}.self_attn"] for i in range(layers)] == [*lm.config.mixers]

    batch = world_batch(lm, 40)
    whole = forward(lm, batch, None)
    for name, kind, tap in parts(lm):
        assert not forward(lm, batch, (kind, tap)).equal(whole), name


def test_a_read_that_is_off_gives_the_running_sum(lm):
    name = "layers.2.mlp_res"
    tap = next(tap for n, _, tap in parts(lm) if n == name)
    batch = world_batch(lm, 20)
    wanted = [f"{name}.mixed", "layers.2.residual_mid"]

    def edit(at, tensor):
        if at is not tap:
            return tensor
        off = torch.zeros_like(tensor)
        off[..., -1] = 1
        return off

    with torch.no_grad(), capture(wanted, model=lm, edit=edit) as seen:
        lm(batch.tokens[:, :-1])
    mixed, running = seen.tensors.values()
    torch.testing.assert_close(mixed, running)


def test_a_model_that_knows_nothing_loses_nothing(lm):
    found = lost_look_ups(lm, corpus_of(lm), 0, tokens=600)
    assert {row["lost"] for row in found.values()} == {0.0}


def test_a_report_is_the_same_for_the_same_seed(lm):
    first, again = (report(lm, 5, 4000, mechanisms=False) for _ in range(2))
    assert first == again
    # whole pages: about what was asked for, in draws of `STEP`
    assert 0.9 * STEP < first["tokens"] < 1.3 * STEP
    assert set(first["accuracy"]) == set(first["asked"])
    # random weights know nothing of the next of a thousand tokens
    assert 1 < first["bits_per_byte"] < 12


def test_what_is_written_is_the_opening_and_what_whole_calls_choose(lm, monkeypatch):
    monkeypatch.setattr(release, "LENGTH", 3)
    text = release.written(lm, "Mira goes")
    ids = [256, *lm.tokenizer.encode("Mira goes")]
    for _ in range(3):
        with torch.no_grad():
            ids.append(int(lm(torch.tensor([ids]))[0, -1].argmax()))
    assert lm.tokenizer.special_ids.isdisjoint(ids[1:])
    assert text == lm.tokenizer.decode(ids[1:])


def test_a_loop_is_a_run_of_four_words_that_comes_three_times():
    assert loops("a b c d " * 2) == []
    assert "a b c d" in loops("a b c d " * 3)


def test_a_written_checkpoint_loads_as_the_model_in_bfloat16(lm, tmp_path: Path):
    write_checkpoint(lm, word_tokenizer(), tmp_path)
    loaded = load(str(tmp_path))
    assert loaded.config == lm.config
    assert loaded.tokenizer.encode("the kitchen") == lm.tokenizer.encode("the kitchen")
    held = dict(lm.named_parameters())
    for name, parameter in loaded.named_parameters():
        want = held[name] if name.endswith(FLOAT32) else held[name].bfloat16().float()
        assert parameter.equal(want), name
    sums = (tmp_path / SUMS).read_text().splitlines()
    assert sums == [f"{sha256(tmp_path / name)}  {name}" for name in SHIPPED]
    assert (tmp_path / WEIGHTS).stat().st_size < 2**20 * 24


def test_eval_prints_what_design_promises_as_json(lm, tmp_path: Path, capsys):
    write_checkpoint(lm, word_tokenizer(), tmp_path)
    assert main(["eval", str(tmp_path), "--json", "--tokens", "1000", "--seed", "3"]) == 0
    about = json.loads(capsys.readouterr().out)
    assert {"accuracy", "asked", "bits_per_byte", "expert_load", "mechanisms"} <= about.keys()
    assert about["seed"] == 3
    assert about["mechanisms"]["layers.3.self_attn"]["kind"] == "mla"


def test_eval_says_what_is_wrong_with_a_request(lm, tmp_path: Path, capsys):
    write_checkpoint(lm, word_tokenizer(), tmp_path)
    assert main(["eval", str(tmp_path), "--tokens", "0"]) == 2
    assert "at least one token" in capsys.readouterr().err


@pytest.mark.usefixtures("plain_main")
def test_train_writes_a_checkpoint_that_eval_can_read_and_goes_on(lm, tmp_path: Path, capsys):
    source, out = tmp_path / "source", tmp_path / "out"
    write_checkpoint(lm, word_tokenizer(), source)
    asked = ["train", str(source), "--out", str(out), "--seed", "2", "--steps"]
    assert main([*asked, "25"]) == 0
    assert main([*asked, "25"]) == 2
    assert "--resume" in capsys.readouterr().err
    assert main([*asked, "1", "--resume"]) == 0
    assert "26 of" in capsys.readouterr().out
    assert "plotly" in (out / "curves.html").read_text()
    assert load(str(out / "checkpoint")).config == lm.config


def test_train_has_nothing_to_resume_in_an_empty_folder(tmp_path: Path, capsys):
    assert main(["train", "tiny-k3", "--out", str(tmp_path), "--resume"]) == 2
    assert "no state" in capsys.readouterr().err
